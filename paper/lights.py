"""The 46 lights of RawFooT, simulated, so that any texture can be seen under each of them.

A data source for ``instaaug.data.load_data``, and with it for ``instaaug train``::

    load_data(
        "paper.lights:relit",
        options={"source": "textures", "train_lights": "1-4", "test_lights": "5-46"},
    )
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.rawfoot import D45, choose_lights, group_of_light, is_rawfoot_photo
from instaaug.errors import ArgumentError, DataError, ShapeError
from instaaug.shapes import at_least_float32

__all__ = [
    "LIGHTS",
    "Light",
    "channel_gains",
    "daylight_chromaticity",
    "planckian_chromaticity",
    "relight",
    "relit",
    "relit_set",
]

PerImage = int | Literal["all"]

PRIMARIES = {"red": (1.0, 0.0, 0.0), "green": (0.0, 1.0, 0.0), "blue": (0.0, 0.0, 1.0)}
XYZ_TO_RGB = (  # IEC 61966-2-1, the sRGB standard
    (3.2406, -1.5372, -0.4986),
    (-0.9689, 1.8758, 0.0415),
    (0.0557, -0.2040, 1.0570),
)
RENAMED_KELVIN = 1.4388 / 1.4380  # D65 was named before Planck's constant c₂ was corrected

# Assumed geometry; paper/rawfoot_lights.md says why.
DISTANCE = 4.0  # of a light from the middle of the sample, in half-widths of the sample
STRIP = (-12.0, -6.0, 0.0, 6.0, 12.0)  # degrees: the lit part of a monitor is not a point
STRAY = 0.05  # share of the light that comes from everywhere
MONITORS = math.pi / 4  # where the two monitors stand, from the normal, when both are lit


@dataclass(frozen=True)
class Light:
    """A condition of light: a color from everywhere, or from one side, or two from two sides.

    Arguments:
        number: RawFooT's number of the condition, from 1 to 46.
        name: For people.
        color: ``"D40"`` to ``"D95"`` (daylight of 4000 K to 9500 K), ``"L27"`` to ``"L65"`` (a
            lamp of 2700 K to 6500 K), ``"red"``, ``"green"`` or ``"blue"``.
        other: The color that comes from the right, if the two sides differ.
        angle: Between the incoming light and the normal of the sample, in radians; the light then
            comes from the left alone.
        intensity: Share of full power.
    """

    number: int
    name: str
    color: str
    other: str | None = None
    angle: float | None = None
    intensity: float = 1.0

    def gains(self, width: int) -> Float[Tensor, "3 width"]:
        """What each channel of linear RGB is multiplied with, from the left to the right."""
        gains = channel_gains(self.color)[:, None].expand(3, width)
        if self.other is not None:
            from_left = _irradiance(MONITORS, width)
            share = from_left / (from_left + from_left.flip(0))
            gains = share * gains + (1 - share) * channel_gains(self.other)[:, None]
        if self.angle is not None:
            strip = [self.angle + math.radians(degrees) for degrees in STRIP]
            direct = torch.stack([_irradiance(angle, width) for angle in strip]).mean(dim=0)
            gains = gains * (STRAY + (1 - STRAY) * direct)
        return gains * self.intensity


def _irradiance(angle: float, width: int) -> Float[Tensor, " width"]:
    """Light of a point to the left: inverse square times cosine; 1 straight above the middle."""
    left, height = DISTANCE * math.sin(angle), max(DISTANCE * math.cos(angle), 0.0)
    x = (torch.arange(width, dtype=torch.float64) * 2 + 1) / width - 1
    return DISTANCE**2 * height / ((x + left) ** 2 + height**2) ** 1.5


def daylight_chromaticity(kelvin: float) -> tuple[float, float]:
    """CIE 1931 (x, y) of daylight of 4000 K to 25 000 K (the CIE's daylight locus).

    Example:
        >>> x, y = daylight_chromaticity(6504.0)
        >>> round(x, 4), round(y, 4)
        (0.3127, 0.3291)
    """
    _check_kelvin(kelvin, 4000)
    t = 1000 / kelvin
    if kelvin <= 7000:
        x = ((-4.6070 * t + 2.9678) * t + 0.09911) * t + 0.244063
    else:
        x = ((-2.0064 * t + 1.9018) * t + 0.24748) * t + 0.237040
    return x, (-3.000 * x + 2.870) * x - 0.275


def planckian_chromaticity(kelvin: float) -> tuple[float, float]:
    """CIE 1931 (x, y) of a black body of 1667 K to 25 000 K (the cubics of Kim et al., 2002).

    Example:
        >>> x, y = planckian_chromaticity(2856.0)  # the CIE's illuminant A
        >>> round(x, 2), round(y, 2)
        (0.45, 0.41)
    """
    _check_kelvin(kelvin, 1667)
    t = 1000 / kelvin
    if kelvin <= 4000:
        x = ((-0.2661239 * t - 0.2343589) * t + 0.8776956) * t + 0.179910
    else:
        x = ((-3.0258469 * t + 2.1070379) * t + 0.2226347) * t + 0.240390
    if kelvin <= 2222:
        y = ((-1.1063814 * x - 1.34811020) * x + 2.18555832) * x - 0.20219683
    elif kelvin <= 4000:
        y = ((-0.9549476 * x - 1.37418593) * x + 2.09137015) * x - 0.16748867
    else:
        y = ((3.0817580 * x - 5.87338670) * x + 3.75112997) * x - 0.37001483
    return x, y


def _check_kelvin(kelvin: float, lowest: int) -> None:
    if not lowest <= kelvin <= 25000:
        raise ArgumentError(
            f"`kelvin` must lie in [{lowest}, 25000], where the formula holds: got {kelvin:g}."
        )


def channel_gains(color: str) -> Float[Tensor, " 3"]:
    """How strong a light is in linear red, green and blue, compared with D65; the largest is one.

    A monitor makes a color by dimming channels, never by brightening one: hence the largest is
    one, and no pixel is clipped.

    Example:
        >>> channel_gains("D65").tolist()
        [1.0, 1.0, 1.0]
    """
    if color in PRIMARIES:
        return torch.tensor(PRIMARIES[color], dtype=torch.float64)
    kind, digits = color[:1], color[1:]
    if kind not in ("D", "L") or not digits.isdecimal():
        raise ArgumentError(
            "`color` must be D or L and hundreds of kelvins, or red, green or blue: "
            f"got {color!r}. Write 'D65' for daylight of 6500 K, 'L27' for a lamp of 2700 K."
        )
    kelvin = 100 * float(digits)
    if kind == "D":
        x, y = daylight_chromaticity(kelvin * RENAMED_KELVIN)
    else:
        x, y = planckian_chromaticity(kelvin)
    rgb = _linear_rgb(x, y) / _linear_rgb(*daylight_chromaticity(6500 * RENAMED_KELVIN))
    return rgb.clamp(min=0) / rgb.max()


def _linear_rgb(x: float, y: float) -> Float[Tensor, " 3"]:
    matrix = torch.tensor(XYZ_TO_RGB, dtype=torch.float64)
    return matrix @ torch.tensor([x / y, 1.0, (1 - x - y) / y], dtype=torch.float64)


def _make_lights() -> tuple[Light, ...]:
    percent = [("D65", None, None, share) for share in (1.0, 0.75, 0.5, 0.25)]
    directions = [("D65", None, angle, 1.0) for angle in (24, 30, 36, 42, 48, 54, 60, 66, 90)]
    daylights = [(f"D{hundreds}", None, None, 1.0) for hundreds in range(40, 100, 5)]
    lamps = [(f"L{hundreds}", None, None, 1.0) for hundreds in (27, 30, 40, 50, 57, 65)]
    both = [(color, None, angle, 1.0) for color in ("D65", "D95", "L27") for angle in (24, 60, 90)]
    pairs = (("D65", "D95"), ("D65", "L27"), ("D95", "L27"))
    mixtures = [(left, right, None, 1.0) for left, right in pairs]
    pure = [(color, None, None, 1.0) for color in PRIMARIES]
    rows = [*percent, *directions, *daylights, *lamps, *both, *mixtures, *pure]
    return tuple(_make_light(number, *row) for number, row in enumerate(rows, start=1))


def _make_light(
    number: int, color: str, other: str | None, degrees: int | None, intensity: float
) -> Light:
    name = color if other is None else f"{color} + {other}"
    name += "" if degrees is None else f" from {degrees}°"
    name += f" at {intensity:.0%}" if number <= 4 else ""
    angle = None if degrees is None else math.radians(degrees)
    return Light(number, name, color, other=other, angle=angle, intensity=intensity)


LIGHTS: tuple[Light, ...] = _make_lights()
"""RawFooT's conditions in order, ``LIGHTS[0]`` being number 1."""


def relight(images: Tensor, light: Light) -> Tensor:
    """Images as they would look under ``light``, had they been taken under D65 from everywhere.

    Pixels are decoded to linear RGB, each channel is multiplied with the strength of the light in
    it (von Kries) at that column, and the product is clipped and encoded again. There are no
    shadows and no highlights: the relief of the sample is not known.

    Arguments:
        images: sRGB, either in [0, 1] or 8-bit numbers; the result is of the same kind.
        light: One of :data:`LIGHTS`, or one of your own.

    Shape:
        - ``images`` and the result: ``(B, 3, H, W)``

    Example:
        >>> gray = torch.full((1, 3, 4, 4), 0.5)
        >>> relight(gray, LIGHTS[44 - 1])[0, :, 0, 0]  # pure red
        tensor([0.5000, 0.0000, 0.0000])
    """
    if images.ndim != 4 or images.shape[1] != 3:
        raise ShapeError(
            "`images` must be a batch of color images (B, 3, H, W): got shape "
            f"{tuple(images.shape)}. Light has no color in a grayscale image."
        )
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise ShapeError(
            f"`images` must be 8-bit numbers or floating point in [0, 1]: got {images.dtype}."
        )
    gains = light.gains(images.shape[3])
    if bool((gains == 1).all()):
        return images.clone()
    bits = images.dtype == torch.uint8
    encoded = images.float() / 255 if bits else at_least_float32(images)
    lit = _srgb_to_linear(encoded) * gains[:, None, :].to(encoded)
    result = _linear_to_srgb(lit.clamp(0, 1))
    return (result * 255).round().to(torch.uint8) if bits else result.to(images.dtype)


def _srgb_to_linear(srgb: Tensor) -> Tensor:
    return torch.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def _linear_to_srgb(linear: Tensor) -> Tensor:
    bright = 1.055 * linear.clamp(min=0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(linear <= 0.0031308, linear * 12.92, bright)


def relit(
    source: Any,
    train_lights: str | int | Sequence[int] = D45,
    test_lights: str | int | Sequence[int] = "1-46",
    *,
    n_train_lights: int | None = None,
    lights_per_image: int = 1,
    seed: int = 0,
    **options: Any,
) -> DataSplits:
    """A data set, trained under some simulated lights and tested under others.

    The lights are dealt out evenly at random. Validation images are lit as training images are.
    Test images under the paper's easy and hard lights are scored apart, too.

    Arguments:
        source: Color images, taken under something like daylight; see ``load_data``.
        train_lights: Numbers of :data:`LIGHTS`, from 1 to 46, or text such as ``"1-4,7"``.
        test_lights: Numbers of the lights of the test images.
        n_train_lights: How many of ``train_lights`` are trained under, drawn by the seed; all of
            them if None.
        lights_per_image: How many lights each test image is seen under; other images under one.
        seed: Decides the split, the lights, and which image is seen under which light.
        options: Further arguments of ``load_data``.

    Raises:
        ArgumentError: If the source is RawFooT itself, whose lights are real.
    """
    train = choose_lights(train_lights, n_train_lights, seed=seed)
    test = choose_lights(test_lights, argument="test_lights")
    splits = load_data(source, seed=seed, **options)
    return replace(
        splits,
        train=relit_set(splits.train, train, per_image=1, seed=seed),
        validation=splits.validation
        and relit_set(splits.validation, train, per_image=1, seed=seed),
        test=relit_set(splits.test, test, per_image=lights_per_image, seed=seed),
    )


def relit_set(
    data: LabeledImages,
    lights: str | Sequence[int],
    *,
    per_image: PerImage = "all",
    seed: int = 0,
) -> LabeledImages:
    """A data set under other lights, to train under some and be tested under others.

    Arguments:
        data: Color images, taken under something like daylight.
        lights: Numbers of :data:`LIGHTS`, from 1 to 46, or text such as ``"1-4,7"``.
        per_image: ``"all"``: every image under every light, all images of the first light first;
            a number: every image that often, the lights dealt out evenly at random.
        seed: For a number.
    """
    numbers = choose_lights(lights, argument="lights")
    _check(data, per_image)
    n = len(data)
    if per_image == "all":
        image, light = np.tile(np.arange(n), len(numbers)), np.repeat(numbers, n)
    else:
        image, light = np.tile(np.arange(n), per_image), np.resize(numbers, n * per_image)
        np.random.default_rng(seed).shuffle(light)
    pixels = np.empty((len(image), *data.images.shape[1:]), dtype=np.uint8)
    for number in sorted(set(numbers)):
        for rows in _batches(np.flatnonzero(light == number)):
            x, _ = data.__getitems__(image[rows].tolist())
            pixels[rows] = relight(x, LIGHTS[number - 1]).permute(0, 2, 3, 1).numpy()
    where = b"" if data.rows is None else data.rows.tobytes()
    key = sha256(f"{data.fingerprint} {numbers} {per_image} {seed} ".encode() + where)
    return replace(
        data,
        images=pixels,
        targets=data.targets[torch.from_numpy(image)],
        names=[f"{data.name(int(i))} under light {k}" for i, k in zip(image, light, strict=True)],
        groups=[group_of_light(int(k)) for k in light],
        fingerprint=key.hexdigest(),
        rows=None,
    )


def _batches(rows: np.ndarray, size: int = 256) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _check(data: LabeledImages, per_image: PerImage) -> None:
    if per_image != "all" and per_image < 1:
        raise ArgumentError(f"`per_image` must be 'all', or 1 or more: got {per_image!r}.")
    if data.images.shape[3] != 3:
        raise DataError(
            f"`data` must have three channels: got {data.images.shape[3]}. "
            "Light has no color in a grayscale image."
        )
    if len(data) and is_rawfoot_photo(data.name(0)):
        raise ArgumentError(
            f"`source` must be images under one light: got RawFooT ({data.name(0)}), which was "
            "photographed under all 46. Choose among its real lights with the options of the "
            "data set rawfoot, as in --data.options.train_lights 15."
        )
