"""Operations on pixels held against Pillow's, on noise of every level."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from instaaug.functional import pixel_operations as P
from tests.support.images import largest_difference, random_images

SIZES = [(16, 16), (31, 18), (64, 40)]
EVERY_SIZE = pytest.mark.parametrize("size", SIZES, ids=str)
ENHANCERS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], type]] = {
    "brightness": (P.brightness, ImageEnhance.Brightness),
    "contrast": (P.contrast, ImageEnhance.Contrast),
    "saturation": (P.saturation, ImageEnhance.Color),
    "sharpness": (P.sharpness, ImageEnhance.Sharpness),
}
ROUNDED = {"brightness": 0.0, "contrast": 1.0, "saturation": 0.5, "sharpness": 0.5}
"""By how many levels Pillow rounds the picture that it leads away from."""


def pictures(size: tuple[int, int] = (31, 18), *, low: int = 0, high: int = 255) -> Tensor:
    """Three pictures of whole levels; channels differ in their range."""
    x = random_images(3, height=size[0], width=size[1], seed=3)
    ends = torch.tensor([[low, high], [low + 10, high - 20], [low + 60, high - 60]]).float()
    first, last = ends[:, 0].view(1, 3, 1, 1), ends[:, 1].view(1, 3, 1, 1)
    return (first + x * (last - first)).round() / 255


def photos(n: int = 2) -> Tensor:
    """Smooth pictures, whose histograms are far from flat."""
    waves = torch.linspace(0, 3, 48).sin()
    x = torch.stack([waves[:, None] * waves, waves[:, None].flip(0) * waves, waves * waves.flip(0)
                     + 0 * waves[:, None]])  # fmt: skip
    return (x[None] ** torch.arange(1.0, n + 1).view(n, 1, 1, 1) * 255).round() / 255


def with_pillow(x: Tensor, change: Callable[[Image.Image, int], Image.Image]) -> Tensor:
    out = []
    for i, image in enumerate(x):
        levels = (image * 255).round().byte().permute(1, 2, 0).numpy()
        out.append(torch.from_numpy(np.array(change(Image.fromarray(levels), i))))
    return torch.stack(out).permute(0, 3, 1, 2).float() / 255


@pytest.mark.parametrize("factors", [(0.0, 0.5, 1.0), (1.9, 0.01, 4.0)], ids=str)
@pytest.mark.parametrize("name", ENHANCERS)
@EVERY_SIZE
def test_enhancing_is_pillows_up_to_its_rounding(
    name: str, factors: tuple[float, ...], size: tuple[int, int]
) -> None:
    # Pillow cuts the result off to a whole level, and rounds the other picture, which is counted
    # |1 - factor| times.
    x, (ours, theirs) = pictures(size), ENHANCERS[name]
    out = ours(x, torch.tensor(factors))
    expected = with_pillow(x, lambda image, i: theirs(image).enhance(factors[i]))
    for row, other, factor in zip(out, expected, factors, strict=True):
        tolerance = (1 + ROUNDED[name] * abs(1 - factor)) / 255 + 1e-6
        assert largest_difference(row, other) <= tolerance


@pytest.mark.parametrize("name", ENHANCERS)
def test_a_factor_of_one_changes_nothing(name: str) -> None:
    x = pictures()
    out = ENHANCERS[name][0](x, torch.ones(3))
    assert largest_difference(out, x) <= 1e-6


@pytest.mark.parametrize("bits", [(1, 2, 3), (4, 5, 6), (7, 8, 4)], ids=str)
@EVERY_SIZE
def test_posterizing_is_pillows(bits: tuple[int, ...], size: tuple[int, int]) -> None:
    x = pictures(size)
    out = P.posterize(x, torch.tensor(bits).float())
    expected = with_pillow(x, lambda image, i: ImageOps.posterize(image, bits[i]))
    assert largest_difference(out, expected) <= 1e-6


@pytest.mark.parametrize("thresholds", [(0, 1, 85), (128, 170, 254), (255, 256, 40)], ids=str)
@EVERY_SIZE
def test_solarizing_is_pillows(thresholds: tuple[int, ...], size: tuple[int, int]) -> None:
    x = pictures(size)
    out = P.solarize(x, torch.tensor(thresholds).float())
    expected = with_pillow(x, lambda image, i: ImageOps.solarize(image, thresholds[i]))
    assert largest_difference(out, expected) <= 1e-6


@EVERY_SIZE
def test_inverting_is_pillows(size: tuple[int, int]) -> None:
    x = pictures(size)
    expected = with_pillow(x, lambda image, _: ImageOps.invert(image))
    assert largest_difference(P.invert(x), expected) <= 1e-6


@pytest.mark.parametrize(
    "x",
    [pictures((64, 40)), pictures((16, 16)), pictures((8, 8)), pictures((90, 90)), photos()],
    ids=["64×40", "too small", "far too small", "90×90", "smooth"],
)
def test_equalizing_is_pillows(x: Tensor) -> None:
    expected = with_pillow(x, lambda image, _: ImageOps.equalize(image))
    assert largest_difference(P.equalize(x), expected) <= 1e-6


@pytest.mark.parametrize("x", [pictures(high=200, low=20), photos()], ids=["noise", "smooth"])
def test_autocontrast_is_pillows_up_to_its_rounding(x: Tensor) -> None:
    expected = with_pillow(x, lambda image, _: ImageOps.autocontrast(image))
    out = P.autocontrast(x)
    assert largest_difference(out, expected) <= 1 / 255 + 1e-6
    assert torch.equal(out.amin(dim=(2, 3)), torch.zeros(len(x), 3))
    assert torch.equal(out.amax(dim=(2, 3)), torch.ones(len(x), 3))


@pytest.mark.parametrize("operation", [P.autocontrast, P.equalize])
def test_a_plain_color_stays_as_it_is(operation: Callable[[Tensor], Tensor]) -> None:
    # Rounding errors of a normalization must not be stretched to full contrast.
    plain = torch.full((2, 3, 20, 20), 0.4) + 1e-7 * random_images(2, height=20, width=20)
    assert torch.equal(operation(plain), plain)


def test_levels_do_not_depend_on_the_rounding_of_a_normalization() -> None:
    x, mean, std = pictures((40, 40)), 0.44, 0.27
    again = ((x - mean) / std) * std + mean
    assert not torch.equal(x, again)
    half = torch.full((3,), 100.0)
    assert largest_difference(P.solarize(again, half), P.solarize(x, half)) <= 1e-6
    assert torch.equal(P.posterize(again, half / 25), P.posterize(x, half / 25))
    assert torch.equal(P.equalize(again), P.equalize(x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", P.__all__)
def test_the_precision_stays(name: str, dtype: torch.dtype) -> None:
    operation = getattr(P, name)
    setting = [] if name in ("invert", "equalize", "autocontrast") else [torch.full((3,), 1.5)]
    out = operation(pictures().to(dtype), *setting)
    assert out.dtype == dtype
    assert out.isfinite().all()
    assert out.min() >= 0
    assert out.max() <= 1


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("name", P.__all__)
def test_pictures_need_not_be_rgb(name: str, channels: int) -> None:
    x = random_images(2, channels=channels, height=9, width=2 if name == "sharpness" else 9)
    setting = [] if name in ("invert", "equalize", "autocontrast") else [torch.ones(2)]
    assert getattr(P, name)(x, *setting).shape == x.shape


@pytest.mark.parametrize("name", [*ENHANCERS, "invert", "autocontrast"])
def test_what_is_not_rounded_has_a_gradient(name: str) -> None:
    x = pictures().requires_grad_()
    setting = [] if name in ("invert", "autocontrast") else [torch.full((3,), 0.8)]
    getattr(P, name)(x, *setting).square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0
