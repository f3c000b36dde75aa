"""Random resized crops follow the law of torchvision, written down once more as a loop."""

import math
import random

import pytest
import torch
from scipy import stats
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.methods.random_resized_crop import RandomResizedCrop
from tests.support.goodness_of_fit import ERROR_PROBABILITY
from tests.support.models import images

Box = tuple[int, int, int, int]
N = 3000


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def box_of_a_loop(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> Box:
    """left, top, width, height as torchvision's get_params draws them."""
    for _ in range(10):
        area = width * height * random.uniform(*scale)  # noqa: S311
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))  # noqa: S311
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h  # noqa: S311
    if width / height < ratio[0]:
        w, h = width, round(width / ratio[0])
    elif width / height > ratio[1]:
        w, h = round(height * ratio[1]), height
    else:
        w, h = width, height
    return (width - w) // 2, (height - h) // 2, w, h


def drawn_boxes(aug: RandomResizedCrop, width: int, height: int, n: int = N) -> Tensor:
    """left, top, width, height in pixels, (n, 4); from two images and many samples."""
    x = torch.empty(2, 3, height, width)
    theta = aug.draw(x, n // 2, generator=seeded()).flatten(0, 1).double()
    side = torch.tensor([width, height])
    extent = theta[:, 2:] * side / 2
    return torch.cat([(theta[:, :2] + 1) * side / 2 - extent / 2, extent], dim=1)


@pytest.mark.parametrize(
    ("width", "height"), [(64, 64), (100, 40), (30, 47)], ids=["square", "wide", "tall"]
)
@pytest.mark.parametrize(
    ("smallest", "largest", "stretch"),
    [(0.2, 1.0, 4 / 3), (0.08, 0.6, 2.0), (0.7, 1.0, 4 / 3)],
    ids=str,
)
def test_boxes_follow_the_law_of_a_loop(
    width: int, height: int, smallest: float, largest: float, stretch: float
) -> None:
    """Kolmogorov-Smirnov on two samples for each of eight numbers of a box.

    A right sampler fails with at most ERROR_PROBABILITY in each; less, for numbers are discrete.
    """
    aug = RandomResizedCrop(smallest=smallest, largest=largest, stretch=stretch)
    ours = drawn_boxes(aug, width, height)
    random.seed(0)
    scale, ratio = (smallest, largest), (1 / stretch, stretch)
    theirs = torch.tensor(
        [box_of_a_loop(width, height, scale, ratio) for _ in range(N)], dtype=torch.float64
    )
    for mine, other in zip(numbers_of(ours), numbers_of(theirs), strict=True):
        result = stats.ks_2samp(mine.numpy(), other.numpy(), method="asymp")
        assert result.pvalue > ERROR_PROBABILITY


def numbers_of(boxes: Tensor) -> list[Tensor]:
    """The box itself, and what hangs together in it; rounded, so that equal numbers are equal."""
    left, top, width, height = boxes.round().unbind(1)
    joint = [width * height, width / height, left + width, left - top]
    return [left, top, width, height, *(number.round(decimals=6) for number in joint)]


def test_boxes_are_whole_pixels_inside_of_the_image() -> None:
    boxes = drawn_boxes(RandomResizedCrop(smallest=0.001), 33, 21)
    torch.testing.assert_close(boxes, boxes.round(), atol=1e-4, rtol=0)
    left, top, width, height = boxes.round().unbind(1)
    assert width.min() >= 1
    assert height.min() >= 1
    assert left.min() == top.min() == 0
    assert (left + width).max() == 33
    assert (top + height).max() == 21


@pytest.mark.parametrize(
    ("width", "height", "smallest", "expected"),
    [
        (100, 40, 0.95, (23, 0, 53, 40)),
        (40, 100, 0.95, (0, 23, 40, 53)),
        (48, 48, 1.0, (0, 0, 48, 48)),
    ],
)
def test_what_never_fits_is_the_central_box(
    width: int, height: int, smallest: float, expected: Box
) -> None:
    """95 % of 4000 pixels in a shape of at most 4/3 need two sides of more than 53."""
    boxes = drawn_boxes(RandomResizedCrop(smallest=smallest), width, height, n=400).round()
    assert (boxes == torch.tensor(expected)).all()


def test_the_first_attempt_that_fits_is_taken() -> None:
    """Half of the attempts fit: the areas that are too large do not come back smaller."""
    boxes = drawn_boxes(RandomResizedCrop(smallest=0.5, stretch=1.0), 20, 10)  # squares
    sides = boxes[:, 2].round()
    assert set(sides.tolist()) == {10.0}  # √100 to √200 pixels: 10 fits, 11 to 14 do not


def test_a_box_is_what_is_cut_out() -> None:
    x = images(3, height=16, width=16)
    aug = RandomResizedCrop(smallest=0.25, largest=0.25, stretch=1.0, size=8)
    batch = aug(x, 4, generator=seeded())
    for row, theta in zip(batch.inputs, batch.theta.flatten(0, 1), strict=True):
        left, top = ((theta[:2] + 1) * 8 - 4).round().int().tolist()
        cut = x[:, :, top : top + 8, left : left + 8]
        assert any(torch.allclose(row, image, atol=1e-5) for image in cut)


def test_views_are_independent_and_a_seed_decides_them() -> None:
    aug, x = RandomResizedCrop(), images(4)
    first = aug.draw(x, 3, generator=seeded())
    assert len(first.flatten(0, 1).unique(dim=0)) > 8
    assert torch.equal(first, aug.draw(x, 3, generator=seeded()))
    assert not torch.equal(first, aug.draw(x, 3, generator=seeded(1)))
    assert aug.averages_views


@pytest.mark.parametrize(
    ("smallest", "largest"), [(0.0, 1.0), (0.5, 0.4), (0.5, 1.1), (float("nan"), 1.0)]
)
def test_areas_that_cannot_be_are_refused(smallest: float, largest: float) -> None:
    with pytest.raises(ArgumentError, match="`smallest` and `largest` must be shares"):
        RandomResizedCrop(smallest=smallest, largest=largest)


@pytest.mark.parametrize("stretch", [0.75, float("inf"), float("nan")])
def test_a_stretch_that_cannot_be_is_refused(stretch: float) -> None:
    with pytest.raises(ArgumentError, match="`stretch` must be a ratio"):
        RandomResizedCrop(stretch=stretch)


def test_it_says_what_it_draws() -> None:
    expected = "RandomResizedCrop(area 0.25 to 1 (0.5 to 1 sides), stretch 1.33)"
    assert repr(RandomResizedCrop(smallest=0.25)) == expected
