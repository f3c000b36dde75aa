"""Color transforms against colorsys, kornia and Pillow."""

from math import log

import kornia
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.spaces import Interval
from instaaug.transforms import (
    Brightness,
    Composition,
    Contrast,
    HSVJitter,
    Transform,
    WhiteBalance,
)
from tests.support.colors import NAMED, as_image, jittered
from tests.support.images import largest_difference, random_images

FACTORS = [0.0, 0.3, 1.0, 1.6, 2.0]


def as_picture(x: Tensor) -> Image.Image:
    return Image.fromarray((x[0].permute(1, 2, 0) * 255).round().byte().numpy())


def from_picture(picture: Image.Image) -> Tensor:
    flat = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return flat.view(picture.height, picture.width, 3).permute(2, 0, 1)[None] / 255


def eight_bit_image(seed: int = 0) -> Tensor:
    return (random_images(1, height=24, width=31, seed=seed) * 255).round() / 255


@pytest.mark.parametrize("colors", NAMED)
@pytest.mark.parametrize(
    "theta",
    [
        (-1 / 3, 1.0, 1.0), (0.5, 1.0, 1.0), (0.0, 2.0, 1.0), (0.17, 0.6, 1.4),
    ],
    ids=str,
)  # fmt: skip
def test_jitter_matches_colorsys(colors: str, theta: tuple[float, float, float]) -> None:
    x = as_image(NAMED[colors])
    out = HSVJitter().apply(x, torch.tensor([theta]))
    assert largest_difference(out, jittered(x, *theta)) <= 1e-5


def test_no_jitter_is_exactly_none_on_every_color() -> None:
    x = as_image([color for colors in NAMED.values() for color in colors])
    assert torch.equal(HSVJitter().apply(x, torch.tensor([[0.0, 1.0, 1.0]])), x)


@pytest.mark.parametrize("shift", [0.2, -0.41])
def test_hue_matches_kornia(shift: float) -> None:
    x = random_images(1, height=32, width=40)
    out = HSVJitter(saturation=0.0, value=0.0).apply(x, torch.tensor([[shift]]))
    expected = kornia.enhance.adjust_hue(x, shift * 2 * torch.pi)
    assert largest_difference(out, expected) <= 1e-5


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.7])
def test_saturation_matches_kornia(factor: float) -> None:
    x = random_images(1, height=32, width=40)
    out = HSVJitter(hue=0.0, value=0.0).apply(x, torch.tensor([[factor]]))
    assert largest_difference(out, kornia.enhance.adjust_saturation(x, factor)) <= 1e-5


def test_half_a_circle_either_way_is_the_same() -> None:
    x = random_images(1)
    there, back = (HSVJitter().apply(x, torch.tensor([[h, 1.0, 1.0]])) for h in (0.5, -0.5))
    assert largest_difference(there, back) <= 1e-5


@pytest.mark.parametrize(
    ("limits", "names"),
    [
        ((0.5, 1.0, 1.0), ("hue", "saturation", "value")),
        ((0.1, 0.0, 0.0), ("hue",)),
        ((0.0, 0.5, 0.0), ("saturation",)),
        ((0.0, 0.5, 0.2), ("saturation", "value")),
        ((0.3, 0.0, 0.2), ("hue", "value")),
    ],
    ids=str,
)
def test_a_limit_of_zero_leaves_the_parameter_out(
    limits: tuple[float, float, float], names: tuple[str, ...]
) -> None:
    jitter = HSVJitter(*limits)
    assert jitter.columns == names
    full = {"hue": 0.05, "saturation": 1.1, "value": 0.9}
    neutral = {"hue": 0.0, "saturation": 1.0, "value": 1.0}
    x = random_images(1)
    out = jitter.apply(x, torch.tensor([[full[name] for name in names]]))
    expected = jittered(x, *(full[k] if k in names else neutral[k] for k in full))
    assert largest_difference(out, expected) <= 1e-5


def test_factors_never_become_negative() -> None:
    space = HSVJitter(hue=0.25, saturation=3.0, value=0.5).spaces["hsv"]
    assert isinstance(space, Interval)
    bounds = [(p.low, p.high, p.identity, p.period) for p in space.parameters]
    assert bounds[:2] == [(-0.25, 0.25, 0.0, 1.0), (0.125, 8.0, 1.0, None)]
    assert [p.width for p in space.parameters[1:]] == pytest.approx([6 * log(2), log(2)])


@pytest.mark.parametrize("factor", FACTORS)
def test_brightness_matches_pillow(factor: float) -> None:
    x = eight_bit_image()
    expected = from_picture(ImageEnhance.Brightness(as_picture(x)).enhance(factor))
    out = Brightness().apply(x, torch.tensor([[factor]]))
    assert largest_difference(out, expected) <= 1.01 / 255


@pytest.mark.parametrize("factor", FACTORS)
def test_contrast_matches_pillow(factor: float) -> None:
    # Pillow rounds the mean to a whole number and the result too.
    x = eight_bit_image()
    expected = from_picture(ImageEnhance.Contrast(as_picture(x)).enhance(factor))
    out = Contrast().apply(x, torch.tensor([[factor]]))
    assert largest_difference(out, expected) <= 2.01 / 255


@pytest.mark.parametrize("factor", FACTORS)
def test_contrast_matches_kornia(factor: float) -> None:
    x = random_images(1, height=32, width=40)
    out = Contrast().apply(x, torch.tensor([[factor]]))
    expected = kornia.enhance.adjust_contrast_with_mean_subtraction(x, factor)
    assert largest_difference(out, expected) <= 1e-5


def test_no_contrast_is_the_gray_of_the_mean_luma() -> None:
    x = random_images(2) * 0.5
    red, green, blue = x.mean(dim=(2, 3)).unbind(1)
    gray = 0.299 * red + 0.587 * green + 0.114 * blue
    out = Contrast().apply(x, torch.zeros(2, 1))
    assert largest_difference(out, gray.view(2, 1, 1, 1).expand_as(x)) <= 1e-6


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_brightness_and_contrast_take_any_channels(channels: int) -> None:
    x = random_images(1, channels=channels) * 0.4 + 0.3
    bright = Brightness().apply(x, torch.tensor([[1.2]]))
    assert largest_difference(bright, x * 1.2) <= 1e-6
    mean = x.mean()
    flat = Contrast().apply(x, torch.tensor([[0.5]]))
    assert largest_difference(flat, mean + 0.5 * (x - mean)) <= 1e-6


def test_white_balance_multiplies_each_channel_and_clips() -> None:
    x = random_images(4)
    gains = torch.tensor([[2.0, 1.0, 0.5]] * 4)
    out = WhiteBalance().apply(x, gains)
    assert largest_difference(out, (x * gains[:, :, None, None]).clamp(0, 1)) <= 1e-7


def test_white_balance_takes_its_place_among_other_colors() -> None:
    x = random_images(4)
    parts: list[tuple[Transform, tuple[float, ...]]] = [
        (Brightness(), (0.8,)),
        (WhiteBalance(), (1.3, 1.0, 0.6)),
        (Contrast(), (0.7,)),
    ]
    one_by_one = x
    for transform, theta in parts:
        one_by_one = transform.apply(one_by_one, torch.tensor([theta] * 4))
    together = Composition(tuple(t for t, _ in parts)).apply(
        x, torch.tensor([[v for _, theta in parts for v in theta]] * 4)
    )
    assert largest_difference(together, one_by_one) <= 1e-6


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("kind", [HSVJitter, WhiteBalance])
def test_colors_of_what_is_not_rgb_are_refused(
    kind: type[HSVJitter | WhiteBalance], channels: int, composed: bool
) -> None:
    transform = Composition((kind(),)) if composed else kind()
    words = (
        rf"`x` must be RGB for {kind.name}: got {channels} channels\. "
        r"Use Brightness or Contrast for other images\."
    )
    with pytest.raises(ShapeError, match=words):
        transform.apply(random_images(1, channels=channels), transform.identity())


@pytest.mark.parametrize(
    "limits", [(0.6, 1.0, 1.0), (-0.1, 1.0, 1.0), (0.5, -1.0, 1.0), (0.5, 1.0, -0.2)], ids=str
)
def test_limits_of_jitter_beyond_the_circle_or_below_zero_are_refused(
    limits: tuple[float, float, float],
) -> None:
    words = (
        r"`hue` must lie in \[0, 0\.5\], `saturation` and `value` must not be negative: got "
        rf"{limits[0]}, {limits[1]}, {limits[2]}\. 0\.5 is half of the color circle\."
    )
    with pytest.raises(ArgumentError, match=words):
        HSVJitter(*limits)


def test_jitter_without_any_parameter_is_refused() -> None:
    words = (
        "`hue`, `saturation` and `value` must not all be 0: nothing is left to vary. "
        "Leave the transform out instead."
    )
    with pytest.raises(ArgumentError, match=words):
        HSVJitter(0.0, 0.0, 0.0)
