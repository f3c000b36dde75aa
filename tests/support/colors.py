"""Colors that HSV conversions get wrong, and the conversion by Python's own colorsys."""

import colorsys
from itertools import product

import torch
from torch import Tensor

Color = tuple[int, ...]

LEVELS = (0, 1, 2, 21, 85, 127, 128, 170, 200, 254, 255)
CUBE: list[Color] = [tuple(17 * c for c in color) for color in product(range(16), repeat=3)]
GRAYS: list[Color] = [(c, c, c) for c in range(256)]
TWO_EQUAL: list[Color] = [
    color
    for a, b in product(LEVELS, repeat=2)
    for color in ((a, a, b), (a, b, a), (b, a, a))
    if a != b
]
NAMED: dict[str, list[Color]] = {
    "a dense cube": CUBE,
    "grays": GRAYS,
    "two equal channels": TWO_EQUAL,
    "black, white, primaries and trap 7": [
        (0, 0, 0), (255, 255, 255), (255, 21, 255), (255, 255, 21), (21, 255, 255),
        (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255),
        (1, 0, 0), (0, 0, 1), (255, 254, 254), (254, 255, 255),
    ],
}  # fmt: skip


def as_image(colors: list[Color], *, dtype: torch.dtype = torch.float32) -> Tensor:
    """One image of 8-bit colors in a row, scaled to [0, 1]."""
    return (torch.tensor(colors, dtype=torch.float64) / 255).to(dtype).T[None, :, None, :]


def jittered(x: Tensor, hue: float, saturation: float, value: float) -> Tensor:
    """HSV jitter of one image, color by color, through :mod:`colorsys`."""
    out = []
    for color in x[0].double().flatten(1).T.tolist():
        h, s, v = colorsys.rgb_to_hsv(*color)
        out.append(
            colorsys.hsv_to_rgb((h + hue) % 1.0, min(s * saturation, 1.0), min(v * value, 1.0))
        )
    return torch.tensor(out, dtype=torch.float64).T.reshape(x.shape)
