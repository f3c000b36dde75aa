"""Geometric transforms against numpy, scipy, kornia, Pillow, slices and flips."""

import kornia
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.transforms import (
    Affine,
    Flip,
    Perspective,
    Rotation,
    Scale,
    Shear,
    Transform,
    Translate,
)
from tests.support.images import interior, largest_difference, random_images, smooth_images
from tests.support.pixel_maps import FORWARD, in_corner_frame, warped_by_scipy
from tests.support.thetas import GEOMETRIC_NAMES, generic_theta, make

SIZES = [(16, 64), (51, 29)]
SCIPY_MODES: dict[PaddingMode, str] = {
    "zeros": "grid-constant",
    "border": "nearest",
    "reflection": "reflect",
}


def row(*values: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor([values], dtype=dtype)


def test_every_geometric_transform_has_a_map_in_pixels() -> None:
    assert sorted(FORWARD) == GEOMETRIC_NAMES


@pytest.mark.parametrize("padding_mode", SCIPY_MODES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", GEOMETRIC_NAMES)
def test_agreement_with_scipy_pixel_by_pixel(
    name: str, size: tuple[int, int], padding_mode: PaddingMode
) -> None:
    transform = make(name)
    theta = generic_theta(transform, 3, seed=5)
    x = random_images(3, height=size[0], width=size[1], dtype=torch.float64)
    forward = [FORWARD[name](t, *size) for t in theta.tolist()]
    expected = warped_by_scipy(x, forward, mode=SCIPY_MODES[padding_mode])
    out = transform.apply(x, theta, padding_mode=padding_mode)
    assert largest_difference(out, expected) <= 1e-9


@pytest.mark.parametrize("size", [(32, 32), (37, 50)], ids=str)
@pytest.mark.parametrize("name", GEOMETRIC_NAMES)
def test_agreement_with_kornia(name: str, size: tuple[int, int]) -> None:
    transform = make(name)
    theta = generic_theta(transform, 2, seed=6)
    x = random_images(2, height=size[0], width=size[1], dtype=torch.float64)
    matrices = [in_corner_frame(FORWARD[name](t, *size), *size) for t in theta.tolist()]
    forward = torch.from_numpy(np.stack(matrices))
    if transform.projective:
        expected = kornia.geometry.warp_perspective(x, forward, size)
    else:
        expected = kornia.geometry.warp_affine(x, forward[:, :2], size)
    assert largest_difference(transform.apply(x, theta), expected) <= 1e-9


@pytest.mark.parametrize("quarters", [-1, 1, 2])
@pytest.mark.parametrize("side", [16, 37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_quarter_turns_are_rot90(quarters: int, side: int, dtype: torch.dtype) -> None:
    x = random_images(2, height=side, width=side, dtype=dtype)
    theta = torch.full((2, 1), quarters * torch.pi / 2, dtype=dtype)
    expected = torch.rot90(x, quarters, (2, 3))
    bound = 1e-4 if dtype == torch.float32 else 1e-12  # the angle is rounded to 1e-7, of 37 pixels
    assert largest_difference(Rotation().apply(x, theta), expected) <= bound


@pytest.mark.parametrize("degrees", [10.0, -35.0, 120.0])
@pytest.mark.parametrize("size", [(48, 48), (40, 64), (64, 40)], ids=str)
def test_rotation_turns_the_way_of_kornia_and_pillow(
    degrees: float, size: tuple[int, int]
) -> None:
    x = smooth_images(1, height=size[0], width=size[1])
    theta = row(np.deg2rad(degrees))
    out = Rotation().apply(x, theta)
    angle = torch.tensor([degrees], dtype=torch.float64)
    assert largest_difference(out, kornia.geometry.rotate(x, angle)) <= 1e-9
    picture = Image.fromarray(x[0, 0].float().numpy(), mode=None)
    turned = np.asarray(picture.rotate(degrees, resample=Image.Resampling.BILINEAR))
    # Pillow leaves pixels black that look even slightly outside: compare where all look inside.
    shown = Rotation().apply(torch.ones_like(x), theta)[0, 0] == 1
    inside = shown & torch.from_numpy(turned != 0)
    assert inside.sum() > 0.4 * inside.numel()
    assert largest_difference(out[0, 0][inside], torch.tensor(turned)[inside]) <= 1e-4


@pytest.mark.parametrize(
    ("signs", "axes"), [((-1.0, 1.0), (3,)), ((1.0, -1.0), (2,)), ((-1.0, -1.0), (2, 3))], ids=str
)
@pytest.mark.parametrize("size", [(16, 32), (37, 50)], ids=str)
def test_flip_is_torch_flip(
    signs: tuple[float, float], axes: tuple[int, ...], size: tuple[int, int]
) -> None:
    x = random_images(1, height=size[0], width=size[1])
    out = Flip(vertical=True).apply(x, row(*signs, dtype=torch.float32))
    assert largest_difference(out, x.flip(axes)) <= (0 if size == (16, 32) else 1e-5)


@pytest.mark.parametrize(
    ("flip", "rows"),
    [
        (Flip(), ((1.0, 1.0), (-1.0, 1.0))),
        (Flip(horizontal=False, vertical=True), ((1.0, 1.0), (1.0, -1.0))),
        (Flip(vertical=True), ((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0))),
    ],
    ids=["horizontal", "vertical", "both"],
)
def test_flip_offers_the_signs_that_were_asked_for(
    flip: Flip, rows: tuple[tuple[float, float], ...]
) -> None:
    assert flip.spaces["sign"].rows == rows  # type: ignore[union-attr]
    assert flip.columns == ("sign_x", "sign_y")


@pytest.mark.parametrize(("right", "down"), [(3, 0), (0, 2), (-4, 5), (-1, -7), (10, 0)])
@pytest.mark.parametrize("size", [(16, 32), (20, 25)], ids=str)
def test_translation_by_whole_pixels_is_a_padded_slice(
    right: int, down: int, size: tuple[int, int]
) -> None:
    height, width = size
    x = random_images(1, height=height, width=width, dtype=torch.float64)
    expected = F.pad(x, (right, -right, down, -down))
    out = Translate(0.5).apply(x, row(right / width, down / height))
    assert largest_difference(out, expected) <= 1e-12


def test_doubling_repeats_the_middle_as_interpolate_does() -> None:
    x = random_images(1, height=16, width=24, dtype=torch.float64)
    middle = x[..., 4:12, 6:18]
    expected = F.interpolate(middle, scale_factor=2, mode="bilinear", align_corners=False)
    out = Scale().apply(x, row(2.0))
    assert largest_difference(interior(out, 1), interior(expected, 1)) <= 1e-12


def test_halving_averages_pairs_of_pixels() -> None:
    x = random_images(1, height=16, width=24, dtype=torch.float64)
    out = Scale().apply(x, row(0.5))
    assert largest_difference(out[..., 4:12, 6:18], F.avg_pool2d(x, 2)) <= 1e-12
    assert not out[..., :3, :].any()


@pytest.mark.parametrize("size", [(32, 32), (37, 50)], ids=str)
@pytest.mark.parametrize(
    ("coordinate", "value", "same"),
    [
        (0, 0.2, (Translate(), (0.2, 0.0))),
        (1, -0.15, (Translate(), (0.0, -0.15))),
        (2, 0.6, (Rotation(), (0.6,))),
        (3, 0.25, (Scale(), (np.exp(0.25),))),
        (3, -0.25, (Scale(), (np.exp(-0.25),))),
    ],
    ids=["right", "down", "turn", "grow", "shrink"],
)
def test_a_single_coordinate_of_affine_is_a_simpler_transform(
    coordinate: int,
    value: float,
    same: tuple[Transform, tuple[float, ...]],
    size: tuple[int, int],
) -> None:
    x = random_images(1, height=size[0], width=size[1], dtype=torch.float64)
    theta = torch.zeros(1, 6, dtype=torch.float64)
    theta[0, coordinate] = value
    expected = same[0].apply(x, row(*same[1]))
    assert largest_difference(Affine().apply(x, theta), expected) <= 1e-10


@pytest.mark.parametrize(("shear", "moves"), [((0.25, 0.0), "right"), ((0.0, 0.25), "down")])
def test_shear_moves_the_lower_right_as_told(shear: tuple[float, float], moves: str) -> None:
    x = torch.zeros(1, 1, 33, 33, dtype=torch.float64)
    x[..., 24, 24] = 1.0  # eight pixels right of and below the middle
    out = Shear().apply(x, row(*shear))[0, 0]
    expected = (24, 26) if moves == "right" else (26, 24)
    assert divmod(int(out.argmax()), 33) == expected


def test_perspective_enlarges_the_side_of_the_larger_coordinate() -> None:
    x = torch.linspace(-1, 1, 33, dtype=torch.float64).expand(1, 1, 33, 33)
    out = Perspective().apply(x, row(0.3, 0.0), padding_mode="border")[0, 0, 16]
    # Output x looks at x / (1 + 0.3 x): steps are smaller on the right, so it is enlarged.
    assert (out[-1] - out[-2]) < (out[17] - out[16]) < (out[11] - out[10])


@pytest.mark.parametrize("name", GEOMETRIC_NAMES)
def test_any_number_of_channels_will_do(name: str) -> None:
    transform = make(name)
    theta = generic_theta(transform, 2)
    x = random_images(2, channels=5, dtype=torch.float64)
    alone = [transform.apply(x[:, c : c + 1], theta) for c in range(5)]
    assert largest_difference(transform.apply(x, theta), torch.cat(alone, dim=1)) <= 1e-12


def test_a_flip_along_no_axis_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must not both be False: nothing is left to choose"):
        Flip(horizontal=False, vertical=False)
