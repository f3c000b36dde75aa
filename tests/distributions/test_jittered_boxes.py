"""Boxes that move within their cells."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from instaaug.distributions import CategoricalTheta, JitteredBoxes
from instaaug.parameterizations import CropGrid
from tests.support.goodness_of_fit import ERROR_PROBABILITY, uniform_p


def jittered(grid: CropGrid, logits: Tensor | None = None) -> JitteredBoxes:
    logits = torch.zeros(len(grid)) if logits is None else logits
    return JitteredBoxes(logits, grid.boxes, grid.cells, grid.center_limits)


@pytest.mark.parametrize("axis", [0, 1], ids=["x", "y"])
def test_centers_are_uniform_over_the_whole_image(axis: int, generator: Generator) -> None:
    # Equal cells side by side, each equally likely: together they are the uniform distribution.
    distribution = jittered(CropGrid([(0.2, 5)]))
    theta = distribution.theta(distribution.sample((20_000,), generator=generator))
    # Kolmogorov-Smirnov; a right sampler fails with probability 1e-5.
    assert uniform_p((theta[:, axis] + 1) / 2) > ERROR_PROBABILITY
    assert (theta[:, 2:] == 0.4).all()


@pytest.mark.parametrize("column", [1, 2], ids=["u", "v"])
def test_shifts_fill_the_cell(column: int, generator: Generator) -> None:
    sample = jittered(CropGrid([(0.2, 5)])).sample((10_000,), generator=generator)
    assert uniform_p(sample[:, column] + 0.5) > ERROR_PROBABILITY


def test_the_entropy_is_that_of_the_choice_with_and_without_jitter() -> None:
    grid = CropGrid([(0.5, 2), (1.0, 1)])
    logits = torch.randn(3, len(grid), generator=Generator().manual_seed(0))
    fixed = CategoricalTheta(logits, grid.boxes)
    torch.testing.assert_close(jittered(grid, logits).entropy(), fixed.entropy())


@pytest.mark.parametrize(
    ("sample", "inside"),
    [
        ([0.0, 0.5, -0.5], True),
        ([0.0, 0.51, 0.0], False),
        ([0.0, 0.0, -0.51], False),
        ([0.5, 0.0, 0.0], False),
        ([-0.5, 0.0, 0.0], False),
    ],
)
def test_values_outside_of_the_cell_or_between_boxes_have_no_density(
    sample: list[float], inside: bool
) -> None:
    density = jittered(CropGrid([(0.5, 2)])).log_prob(torch.tensor(sample)).exp()
    assert float(density) == pytest.approx(0.25 if inside else 0.0)


@pytest.mark.parametrize("k", [0, 5, 15])
def test_a_box_moves_by_whole_cells_at_most_to_its_neighbor(k: int) -> None:
    grid = CropGrid([(0.25, 4)])
    distribution = jittered(grid)
    corner = distribution.theta(torch.tensor([float(k), 0.5, -0.5]))
    torch.testing.assert_close(corner, grid.boxes[k] + torch.tensor([0.25, -0.25, 0.0, 0.0]))


@given(
    size=st.floats(0.05, 1.0),
    n=st.integers(1, 6),
    max_outside=st.floats(0.0, 1.0),
    seed=st.integers(0, 100),
)
@settings(max_examples=50, deadline=None)
def test_a_moved_box_never_leaves_the_image_by_more_than_max_outside(
    size: float, n: int, max_outside: float, seed: int
) -> None:
    distribution = jittered(CropGrid([(size, n)], max_outside=max_outside))
    generator = Generator().manual_seed(seed)
    theta = distribution.theta(distribution.sample((100,), generator=generator))
    beyond = theta[:, :2].abs() + theta[:, 2:] / 2 - 1
    assert (beyond <= max_outside * theta[:, 2:] + 1e-5).all()


def test_a_box_with_a_single_place_stays_there(generator: Generator) -> None:
    distribution = jittered(CropGrid([(1.0, 1)]))
    theta = distribution.theta(distribution.sample((10,), generator=generator))
    assert torch.equal(theta, torch.tensor([0.0, 0.0, 2.0, 2.0]).expand(10, 4))


def test_a_short_spread_leaves_boxes_in_place_and_a_long_one_moves_them() -> None:
    distribution = jittered(CropGrid([(0.5, 2)]))
    assert (distribution.spread(3)[:, 1:] == 0).all()
    shift = distribution.spread(12)[:, 1:]
    assert len(shift.unique(dim=0)) == 12
    assert (shift.abs() <= 0.5).all()
