"""Crops against slices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError
from instaaug.functional.warp import pixel_centers
from instaaug.spaces import Boxes, Interval
from instaaug.transforms import PAPER_LEVELS, Crop, UniformCrop
from tests.support.images import interior, largest_difference, random_images


def box_of_pixels(top: int, left: int, height: int, width: int, size: tuple[int, int]) -> Tensor:
    """The box around whole pixels of an image of ``size`` = (height, width)."""
    x, w = (2 * left + width) / size[1] - 1, 2 * width / size[1]
    y, h = (2 * top + height) / size[0] - 1, 2 * height / size[0]
    return torch.tensor([[x, y, w, h]], dtype=torch.float64)


@pytest.mark.parametrize("size", [(16, 16), (24, 36), (30, 12)], ids=str)
@pytest.mark.parametrize("corner", [(0, 0), (2, 3), (5, 1)], ids=str)
@pytest.mark.parametrize("factor", [2, 3])
def test_a_crop_is_the_enlarged_slice(
    size: tuple[int, int], corner: tuple[int, int], factor: int
) -> None:
    height, width = size[0] // factor, size[1] // factor
    top, left = corner
    x = random_images(1, height=size[0], width=size[1], dtype=torch.float64)
    piece = x[..., top : top + height, left : left + width]
    expected = F.interpolate(
        piece, size=(height * factor, width * factor), mode="bilinear", align_corners=False
    )
    x = F.pad(x, (0, width * factor - size[1], 0, height * factor - size[0]))
    out = Crop().apply(x, box_of_pixels(top, left, height, width, (x.shape[2], x.shape[3])))
    # At its edge the slice knows nothing of the pixels beyond, the crop does.
    assert largest_difference(interior(out, factor), interior(expected, factor)) <= 1e-12


@pytest.mark.parametrize("corner", [(0, 0), (4, 9), (7, 2)], ids=str)
def test_an_odd_enlargement_hits_the_pixels_of_the_slice(corner: tuple[int, int]) -> None:
    size, (top, left) = (15, 27), corner
    x = random_images(1, height=15, width=27, dtype=torch.float64)
    out = Crop().apply(x, box_of_pixels(top, left, 5, 9, size))
    piece = x[..., top : top + 5, left : left + 9]
    assert largest_difference(out[..., 1::3, 1::3], piece) <= 1e-12


@pytest.mark.parametrize(("dy", "dx"), [(0, 3), (-4, 0), (2, -5)])
def test_a_crop_of_full_size_moves_whole_pixels(dy: int, dx: int) -> None:
    x = random_images(1, height=16, width=20, dtype=torch.float64)
    out = Crop().apply(x, box_of_pixels(dy, dx, 16, 20, (16, 20)))
    assert largest_difference(out, F.pad(x, (-dx, dx, -dy, dy))) <= 1e-12


def test_reading_every_second_pixel_pair_is_average_pooling() -> None:
    x = random_images(1, height=8, width=12, dtype=torch.float64)
    out = Crop().apply(x, torch.tensor([[0.0, 0.0, 4.0, 4.0]], dtype=torch.float64))
    assert largest_difference(out[..., 2:6, 3:9], F.avg_pool2d(x, 2)) <= 1e-12


@pytest.mark.parametrize("size", [(64, 64), (37, 50)], ids=str)
@pytest.mark.parametrize(
    ("corner", "sign"),
    [("upper left", (-1, -1)), ("upper right", (1, -1)), ("lower left", (-1, 1))],
)
def test_the_crop_of_a_corner_contains_its_dot(
    corner: str, sign: tuple[int, int], size: tuple[int, int]
) -> None:
    # Trap 2: in the official code crops are mirrored and transposed.
    x = torch.zeros(1, 1, *size)
    row, column = (size[0] - 4 if sign[1] > 0 else 3), (size[1] - 4 if sign[0] > 0 else 3)
    x[..., row, column] = 1.0
    theta = torch.tensor([[0.75 * sign[0], 0.75 * sign[1], 0.5, 0.5]])
    mirrored = theta * torch.tensor([-1.0, -1.0, 1.0, 1.0])
    assert Crop().apply(x, theta).max() > 0.5
    assert Crop().apply(x, mirrored).max() == 0


def test_the_default_levels_are_the_papers() -> None:
    space = Crop().spaces["box"]
    assert isinstance(space, Boxes)
    assert space.levels == PAPER_LEVELS
    assert sum(n * n for _, n in space.levels) == 321
    assert Crop().columns == ("box_x", "box_y", "box_width", "box_height")


@given(right=st.floats(-1, 1), down=st.floats(-1, 1), size=st.floats(0.2, 1))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_a_uniform_crop_never_leaves_the_image(right: float, down: float, size: float) -> None:
    theta = torch.tensor([[right, down, size]], dtype=torch.float64)
    corners = torch.tensor([[-1.0, -1.0, 1.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    seen = corners @ UniformCrop().matrix(theta)[0].T
    assert seen.abs().max() <= 1 + 1e-12


@pytest.mark.parametrize("size", [(16, 16), (24, 37)], ids=str)
@pytest.mark.parametrize("theta", [(0.0, 0.0, 0.5), (-1.0, 1.0, 0.4), (0.3, -0.6, 0.8)], ids=str)
def test_a_uniform_crop_is_the_crop_of_its_box(
    size: tuple[int, int], theta: tuple[float, float, float]
) -> None:
    right, down, side = theta
    x = random_images(1, height=size[0], width=size[1], dtype=torch.float64)
    box = [[right * (1 - side), down * (1 - side), 2 * side, 2 * side]]
    expected = Crop().apply(x, torch.tensor(box, dtype=torch.float64))
    out = UniformCrop().apply(x, torch.tensor([theta], dtype=torch.float64))
    assert largest_difference(out, expected) <= 1e-12


def test_a_uniform_crop_at_the_far_left_starts_with_the_first_column() -> None:
    x = pixel_centers(32, like=torch.zeros(1)).expand(1, 1, 32, 32)
    far_left = UniformCrop().apply(x, torch.tensor([[-1.0, 0.0, 0.25]]), padding_mode="border")
    assert far_left.max() < -0.5
    assert far_left.min() == pytest.approx(float(x.min()))


@pytest.mark.parametrize("min_size", [0.0, -0.5])
def test_a_uniform_crop_of_no_size_is_refused(min_size: float) -> None:
    with pytest.raises(ArgumentError, match=r"`min_size` must be above 0: got -?0\.\d\. 0\.2 all"):
        UniformCrop(min_size)


def test_the_smallest_size_bounds_the_range() -> None:
    space = UniformCrop(0.3).spaces["box"]
    assert isinstance(space, Interval)
    assert [(p.name, p.low, p.high) for p in space.parameters] == [
        ("right", -1.0, 1.0), ("down", -1.0, 1.0), ("size", 0.3, 1.0)
    ]  # fmt: skip
