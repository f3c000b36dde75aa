"""Raw numbers to a choice from a table."""

from math import log

import pytest
import torch
from torch import Tensor

from instaaug.distributions import CategoricalTheta, JitteredBoxes, RandomBoxes
from instaaug.parameterizations import CategoricalFamily, CropGrid, Family, make_family
from instaaug.spaces import Boxes, Choices, Level

PAPER: tuple[Level, ...] = ((0.375, 16), (0.75, 8), (1.0, 1))
GRIDS: dict[str, tuple[Level, ...]] = {
    "paper": PAPER,
    "fit_tta": ((1.0, 1), (0.8, 2), (0.6, 3), (0.4, 4)),
    "no_whole": ((0.4, 4), (0.6, 3)),
    "one_size": ((0.5, 4),),
    "one_size_many": ((0.25, 16),),
    "two_wholes": ((1.0, 1), (1.0, 1)),
}
FLIPS = Choices(((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)))

each_grid = pytest.mark.parametrize("levels", GRIDS.values(), ids=GRIDS)
each_share = pytest.mark.parametrize("share", [0.02, 0.3, 0.8, 0.999])


def starting_probs(family: Family, entropy: float) -> Tensor:
    distribution = family(family.raw_at(entropy)[None])
    assert isinstance(distribution, CategoricalTheta | JitteredBoxes)
    return distribution.probs[0]


@each_grid
@each_share
@pytest.mark.parametrize("jitter", [False, True])
def test_raw_at_gives_the_entropy_that_was_asked_for(
    levels: tuple[Level, ...], share: float, jitter: bool
) -> None:
    family = make_family(Boxes(levels, jitter=jitter))
    target = share * family.max_entropy
    entropy = family(family.raw_at(target)[None]).entropy()
    assert float(entropy) == pytest.approx(target, abs=1e-3)


@each_share
def test_flips_start_at_the_entropy_that_was_asked_for(share: float) -> None:
    family = make_family(FLIPS)
    probs = starting_probs(family, share * log(4))
    assert float(torch.special.entr(probs).sum()) == pytest.approx(share * log(4), abs=1e-3)
    assert int(probs.argmax()) == 0  # the row that does nothing


@each_grid
def test_the_largest_entropy_starts_all_alike(levels: tuple[Level, ...]) -> None:
    family = make_family(Boxes(levels))
    probs = starting_probs(family, log(family.n_raw))
    torch.testing.assert_close(probs, torch.full_like(probs, 1 / len(probs)), rtol=0.01, atol=0)


@pytest.mark.parametrize("name", ["paper", "fit_tta", "no_whole"])
@pytest.mark.parametrize("share", [0.3, 0.55, 0.9])
def test_a_start_leans_to_large_boxes(name: str, share: float) -> None:
    grid = CropGrid(GRIDS[name])
    probs = starting_probs(make_family(Boxes(GRIDS[name]), grid), share * grid.max_entropy)
    size = grid.boxes[:, 2]
    larger = size[:, None] > size[None, :]
    assert (probs[:, None] >= probs[None, :])[larger].all()


def test_boxes_of_one_size_start_almost_alike_on_the_paper_grid() -> None:
    family = make_family(Boxes(PAPER))
    probs = starting_probs(family, 3.25)
    assert float(probs[:256].max() / probs[:256].min()) < 1.1
    assert float(probs[256:320].max() / probs[256:320].min()) < 1.1


def test_boxes_of_one_size_lean_to_the_middle() -> None:
    grid = CropGrid(((0.5, 4),))
    probs = starting_probs(make_family(Boxes(((0.5, 4),)), grid), 2.5)
    distance = grid.boxes[:, :2].norm(dim=-1)
    farther = distance[:, None] > distance[None, :] + 1e-6
    assert (probs[:, None] <= probs[None, :])[farther].all()


@each_grid
@each_share
def test_no_box_starts_out_of_reach(levels: tuple[Level, ...], share: float) -> None:
    family = make_family(Boxes(levels))
    raw = family.raw_at(share * family.max_entropy)
    assert raw.isfinite().all()
    assert float(raw.max() - raw.min()) <= 30.0


def test_a_single_box_is_certain() -> None:
    family = make_family(Boxes(((1.0, 1),)))
    assert family.max_entropy == 0.0
    assert float(starting_probs(family, 0.0)) == 1.0


def test_raw_numbers_are_logits() -> None:
    raw = torch.tensor([[0.0, log(3.0)]])
    family = CategoricalFamily(torch.zeros(2, 1), torch.zeros(2))
    distribution = family(raw)
    torch.testing.assert_close(distribution.probs, torch.tensor([[0.25, 0.75]]))


@pytest.mark.parametrize(("jitter", "kind"), [(False, CategoricalTheta), (True, JitteredBoxes)])
def test_jitter_decides_the_class(jitter: bool, kind: type) -> None:
    family = make_family(Boxes(PAPER, jitter=jitter))
    assert type(family(torch.zeros(2, 321))) is kind
    assert family.is_finite


def test_a_given_grid_takes_the_place_of_the_levels() -> None:
    grid = CropGrid([(0.5, 3)])
    family = make_family(Boxes(PAPER), grid)
    assert family.n_raw == 9


def test_without_a_class_all_choices_are_equally_likely_and_boxes_are_random_crops() -> None:
    flips = make_family(Choices(((1.0,), (-1.0,))))
    assert flips.without_class(torch.randn(5, 2), 3).entropy().tolist() == pytest.approx(
        [log(2)] * 3
    )
    crops = make_family(Boxes(PAPER)).without_class(torch.randn(5, 321), 3)
    assert isinstance(crops, RandomBoxes)
    assert crops.batch_shape == (3,)
