"""The operations that augmentation policies are made of, as one transform."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional import pixel_operations as pixels
from instaaug.functional.affine import (
    from_entries,
    product,
    rotation_matrix,
    scale_matrix,
    to_physical_frame,
    translation_matrix,
)
from instaaug.functional.warp import PaddingMode, warp
from instaaug.shapes import Images, Matrices, Rows, Scalars, Theta, at_least_float32
from instaaug.spaces import Interval, Parameter, Space
from instaaug.transforms import LocalMask, Transform

__all__ = ["HOLE_PLACES", "OPERATIONS", "SIGNED", "Interpolation", "Operations", "number_of"]

Interpolation = Literal["nearest", "bilinear"]
Numbers = Int[Tensor, " batch"]
MOST_STEPS = 100
GRAY = 0.5
HOLES_PER_SIDE = 16

HOLE_PLACES = HOLES_PER_SIDE**2
"""Where the hole of ``cutout`` may be: the centers of so many cells, row by row."""

WITHOUT_WARP: Mapping[str, Callable[[Images, Scalars], Images]] = {
    "brightness": lambda x, value: pixels.brightness(x, 1 + value),
    "color": lambda x, value: pixels.saturation(x, 1 + value),
    "contrast": lambda x, value: pixels.contrast(x, 1 + value),
    "sharpness": lambda x, value: pixels.sharpness(x, 1 + value),
    "posterize": pixels.posterize,
    "solarize": pixels.solarize,
    "auto_contrast": lambda x, _: pixels.autocontrast(x),
    "equalize": lambda x, _: pixels.equalize(x),
    "invert": lambda x, _: pixels.invert(x),
    "cutout": lambda x, value: LocalMask(fill=GRAY).apply(x, _hole(x, value)),
    "flip": lambda x, _: x.flip(-1),
}
GEOMETRIC = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate", "zoom")

OPERATIONS: tuple[str, ...] = ("identity", *GEOMETRIC, *WITHOUT_WARP)
"""Names of the operations; θ holds their place in this list."""

SIGNED = frozenset(GEOMETRIC) - {"zoom"} | {"brightness", "color", "contrast", "sharpness"}
"""Operations that policies do in either direction."""


def number_of(name: str) -> int:
    """The place of an operation in :data:`OPERATIONS`.

    Example:
        >>> number_of("identity")
        0
    """
    if name not in OPERATIONS:
        raise UnknownNameError("operation", name, OPERATIONS)
    return OPERATIONS.index(name)


@dataclass(frozen=True)
class Operations(Transform):
    r"""Operations one after the other, another sequence for every image.

    θ has two columns per step: which operation, by its place in :data:`OPERATIONS`, and its value
    v. Images lie in [0, 1]; what a warp finds outside of them is black, or ``padding_mode``.

    ================================  ===========================================================
    shear_x, shear_y                  slope v; the upper left corner rests
    translate_x, translate_y          by v image sides, right and down
    rotate                            by v radians, counterclockwise
    zoom                              enlarges by the factor 1 + v
    brightness, color, contrast,      Pillow's enhancement by the factor 1 + v
    sharpness
    posterize                         keeps v bits of 8
    solarize                          inverts what is at or above level v of 256
    cutout                            a mid-gray square; its side is v - ⌊v⌋ image widths, its
                                      place, of :data:`HOLE_PLACES`, is ⌊v⌋
    auto_contrast, equalize, invert,  take no value; flip swaps left and right
    flip
    ================================  ===========================================================

    Arguments:
        n_steps: Operations per image.
        interpolation: How a warp reads between pixels.

    Example:
        >>> negative = torch.tensor([[float(number_of("invert")), 0.0]])
        >>> Operations(1).apply(torch.tensor([0.0, 0.25]).view(1, 1, 1, 2), negative)
        tensor([[[[1.0000, 0.7500]]]])
    """

    n_steps: int
    interpolation: Interpolation = "bilinear"
    name: ClassVar[str] = "operations"
    needs_unit_range: ClassVar[bool] = True

    @override
    def __post_init__(self) -> None:
        if not 1 <= self.n_steps <= MOST_STEPS:
            raise ArgumentError(
                f"`n_steps` must be a whole number from 1 to {MOST_STEPS}: got {self.n_steps}. "
                "Policies have 1 or 2."
            )
        if self.interpolation not in ("nearest", "bilinear"):
            raise UnknownNameError("interpolation", self.interpolation, ("nearest", "bilinear"))
        super().__post_init__()

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        operation = Parameter("operation", 0.0, len(OPERATIONS) - 1.0, learned=False)
        value = Parameter("value", -256.0, 256.0, learned=False)
        return {f"step_{i + 1}": Interval((operation, value)) for i in range(self.n_steps)}

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        self.check_theta(x, theta)
        for operation, value in _steps(theta):
            out = x.clone()
            moved = _is_geometric(operation).nonzero().flatten()
            if len(moved):
                matrix = _matrix(operation[moved], value[moved], x.shape[-1] / x.shape[-2])
                mode = self.interpolation
                out[moved] = warp(x[moved], matrix, padding_mode=padding_mode, mode=mode)
            for name, change in WITHOUT_WARP.items():
                rows = (operation == number_of(name)).nonzero().flatten()
                if len(rows):
                    out[rows] = change(x[rows], value[rows])
            x = out
        return x

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return reduce(product, [_matrix(*step, aspect) for step in _steps(theta)])


def _steps(theta: Rows) -> list[tuple[Numbers, Scalars]]:
    pairs = at_least_float32(theta).unflatten(1, (-1, 2)).unbind(dim=1)
    return [(pair[:, 0].round().long(), pair[:, 1]) for pair in pairs]


def _is_geometric(operation: Numbers) -> Bool[Tensor, " batch"]:
    first, last = number_of(GEOMETRIC[0]), number_of(GEOMETRIC[-1])
    return (operation >= first) & (operation <= last)


def _hole(x: Images, value: Scalars) -> Float[Tensor, "batch 4"]:
    """The square as a box, whose place is the whole part of its value and whose side the rest."""
    place = value.floor()
    column, row = place.remainder(HOLES_PER_SIDE), (place / HOLES_PER_SIDE).floor()
    center = torch.stack([column, row.remainder(HOLES_PER_SIDE)], dim=-1) + 0.5
    width = 2 * (value - place)
    extent = torch.stack([width, width * x.shape[-1] / x.shape[-2]], dim=-1)
    return torch.cat([2 * center / HOLES_PER_SIDE - 1, extent], dim=-1)


def _matrix(operation: Numbers, value: Scalars, aspect: float) -> Matrices:
    """Output to input coordinates; the identity for operations on pixel values."""

    def given(name: str) -> Scalars:
        return torch.where(operation == number_of(name), value, 0.0)

    zoom = 1 + given("zoom")
    flipped_zoom = torch.where(operation == number_of("flip"), -zoom, zoom)
    parts = (
        _corner_shear(given("shear_x"), given("shear_y"), aspect),
        translation_matrix(torch.stack([given("translate_x"), given("translate_y")], dim=-1)),
        rotation_matrix(given("rotate"), aspect=aspect),
        scale_matrix(torch.stack([flipped_zoom, zoom], dim=-1)),
    )
    return reduce(product, parts)


def _corner_shear(a: Scalars, b: Scalars, aspect: float) -> Matrices:
    """Read (x + a·y, y + b·x), with x and y counted from the upper left corner."""
    matrix = from_entries(1.0, a, a, b, 1.0, b * aspect, 0.0, 0.0, 1.0)
    return to_physical_frame(matrix, aspect)
