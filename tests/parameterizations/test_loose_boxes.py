"""Loose boxes: anywhere near where they were drawn, and nowhere else."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.parameterizations import CropGrid, LooseBoxes, base_measure, equal_sizes

LEVELS = ((0.4, 5), (0.7, 3), (1.0, 1))
WINDOWS = CropGrid(((0.5, 3), (1.0, 1)), max_outside=0.0, whole_height=True)
N = 4000


def move_all(grid: CropGrid) -> tuple[Tensor, Tensor]:
    """Boxes of the grid, one after the other, and where they are moved to."""
    index = torch.arange(N) % len(grid)
    boxes = grid.boxes[index]
    return boxes, LooseBoxes(grid)(boxes, index, Generator().manual_seed(0))


@pytest.mark.parametrize("max_outside", [0.0, 0.3, 1.0])
def test_boxes_stay_within_the_limits_of_the_grid(max_outside: float) -> None:
    _, moved = move_all(CropGrid(LEVELS, max_outside=max_outside))
    outside = (moved[:, :2].abs() + moved[:, 2:] / 2 - 1).clamp(min=0) / moved[:, 2:]
    assert float(outside.max()) <= max_outside + 1e-6


@pytest.mark.parametrize(
    ("side", "least", "most"), [(0.4, 0.4, 0.55), (0.7, 0.55, 0.85), (1.0, 0.85, 1.0)]
)
def test_sizes_reach_half_way_to_the_next(side: float, least: float, most: float) -> None:
    boxes, moved = move_all(CropGrid(LEVELS, max_outside=0.0))
    sides = moved[(boxes[:, 2] - 2 * side).abs() < 1e-4, 2] / 2
    assert float(sides.min()) == pytest.approx(least, abs=0.01)
    assert float(sides.max()) == pytest.approx(most, abs=0.01)
    assert float(sides.median()) == pytest.approx((least + most) / 2, abs=0.02)
    assert torch.equal(moved[:, 2], moved[:, 3])  # they stay squares


def test_places_of_a_size_cover_the_image() -> None:
    """No gap between neighbors: every tenth of the way across has its share of centers."""
    boxes, moved = move_all(CropGrid(((0.4, 5),), max_outside=1.0))
    shares = torch.histc(moved[:, 0], 10, -1.0, 1.0) / len(moved)
    assert float(shares.min()) > 0.08  # 0.1 ± 0.005: more than four standard errors
    assert float((moved[:, :2] - boxes[:, :2]).abs().max()) <= 0.2 + 1e-6


@pytest.mark.parametrize("levels", [LEVELS, ((0.35, 7), (0.5, 6), (0.65, 5), (0.8, 4), (1.0, 1))])
def test_from_the_base_measure_they_are_random_crops(levels: Any) -> None:
    """Sizes and places have the same density everywhere, the ends and corners included.

    A tenth of 40,000 is 4,000 ± 60; 30 counts within five standard errors: wrong with 2e-5.
    """
    grid, n = CropGrid(levels, max_outside=0.0), 40_000
    generator = Generator().manual_seed(0)
    probs = base_measure(grid, loose=True).exp()
    index = torch.multinomial(probs, n, replacement=True, generator=generator)
    moved = LooseBoxes(grid)(grid.boxes[index], index, generator)
    sides = moved[:, 2] / 2
    counts = [torch.histc(sides, 10, levels[0][0], 1.0)]
    counts += [torch.histc(c / (1 - sides), 10, -1.0, 1.0) for c in moved[:, :2].unbind(1)]
    assert all(((count - n / 10).abs() < 5 * (0.09 * n) ** 0.5).all() for count in counts)


def test_where_boxes_stay_put_all_sizes_are_alike() -> None:
    grid = CropGrid(LEVELS, max_outside=0.0)
    assert torch.equal(base_measure(grid, loose=False), equal_sizes(grid))


@pytest.mark.parametrize(
    ("grid", "shares"),
    [
        (CropGrid(((0.5, 2),), max_outside=0.0), [0.25] * 4),  # a single size
        (CropGrid(((1.0, 1),), max_outside=1.0), [1.0]),
        (CropGrid(((0.5, 3),), max_outside=1.0), [1 / 9] * 9),  # there is room beyond the ends
        (WINDOWS, [1 / 8, 1 / 4, 1 / 8, 1 / 2]),
    ],
)
def test_shares_are_those_of_the_cells(grid: CropGrid, shares: list[float]) -> None:
    torch.testing.assert_close(LooseBoxes(grid).log_shares.exp(), torch.tensor(shares))


def test_a_window_keeps_its_height() -> None:
    grid = CropGrid(LEVELS, max_outside=0.0, whole_height=True)
    _, moved = move_all(grid)
    assert (moved[:, 3] == 2).all()
    assert (moved[:, 1] == 0).all()
    assert len(moved[:, 2].unique()) > N / 2


def test_a_single_size_is_kept() -> None:
    _, moved = move_all(CropGrid(((0.5, 3),), max_outside=0.0))
    assert (moved[:, 2:] == 1.0).all()


@pytest.mark.parametrize("estimator", ["score", "closed_form", "exact"])
def test_boxes_move_in_training_alone(estimator: Any) -> None:
    aug = InstaAug(T.Crop(LEVELS, max_outside=0.0), estimator=estimator, loose=True)
    x = torch.rand(50, 3, 16, 16, generator=Generator().manual_seed(0))
    table = {tuple(row) for row in aug.phi.grids["crop"].boxes.tolist()}
    trained = aug(x, 1, generator=Generator().manual_seed(1)).theta
    known = [tuple(row) in table for row in trained.flatten(0, 1).tolist()]
    assert sum(known) < 0.01 * len(known)
    tested = aug.eval()(x, 1, generator=Generator().manual_seed(1)).theta
    assert all(tuple(row) in table for row in tested.flatten(0, 1).tolist())


def test_what_is_drawn_has_the_probability_of_its_box() -> None:
    tight, loose = (
        InstaAug(T.Crop(LEVELS, max_outside=0.0), conditioning="none", loose=moves)
        for moves in (False, True)
    )
    x = torch.zeros(20, 3, 16, 16)
    first, second = (aug(x, 2, generator=Generator().manual_seed(0)) for aug in (tight, loose))
    torch.testing.assert_close(first.log_prob, second.log_prob)
    near = (first.theta - second.theta).abs()
    assert float(near[..., 2:].max()) <= 0.3 + 1e-6
    assert not torch.allclose(first.theta, second.theta, atol=1e-3)


def test_boxes_of_local_transforms_stay() -> None:
    aug = InstaAug([T.LocalBlur(), T.Crop(LEVELS, max_outside=0.0)], loose=True)
    assert list(aug.loose_boxes) == ["2"]  # after the box and the strength of the blur
