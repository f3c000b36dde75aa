"""The operations of augmentation policies: a transform, its magnitudes, a base for policies."""

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import radians, trunc
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
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
from instaaug.methods.simple import TransformAugmenter
from instaaug.shapes import Images, Matrices, Rows, Scalars, Theta, at_least_float32
from instaaug.spaces import Interval, Parameter, Space
from instaaug.transforms import LocalMask, Transform

__all__ = [
    "HOLE_PLACES",
    "LEVELS",
    "MIRRORED",
    "NARROW",
    "OPERATIONS",
    "RAND_OPERATIONS",
    "SIGNED",
    "WIDE",
    "DrawnOperations",
    "Interpolation",
    "Magnitudes",
    "Operations",
    "add_hole_places",
    "operation_index",
    "values_at",
]


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


def operation_index(name: str) -> int:
    """The place of an operation in :data:`OPERATIONS`.

    Example:
        >>> operation_index("identity")
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
        >>> negative = torch.tensor([[float(operation_index("invert")), 0.0]])
        >>> Operations(1).apply(torch.tensor([0.0, 0.25]).view(1, 1, 1, 2), negative)
        tensor([[[[1.0000, 0.7500]]]])
    """

    n_steps: int
    interpolation: Interpolation = "bilinear"
    name: ClassVar[str] = "operations"
    tells_matrix: ClassVar[bool] = False  # colors come between one warp and the next
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
                rows = (operation == operation_index(name)).nonzero().flatten()
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
    first, last = operation_index(GEOMETRIC[0]), operation_index(GEOMETRIC[-1])
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

    def value_for(name: str) -> Scalars:
        return torch.where(operation == operation_index(name), value, 0.0)

    zoom = 1 + value_for("zoom")
    flipped_zoom = torch.where(operation == operation_index("flip"), -zoom, zoom)
    parts = (
        _corner_shear(value_for("shear_x"), value_for("shear_y"), aspect),
        translation_matrix(
            torch.stack([value_for("translate_x"), value_for("translate_y")], dim=-1)
        ),
        rotation_matrix(value_for("rotate"), aspect=aspect),
        scale_matrix(torch.stack([flipped_zoom, zoom], dim=-1)),
    )
    return reduce(product, parts)


def _corner_shear(a: Scalars, b: Scalars, aspect: float) -> Matrices:
    """Read (x + a·y, y + b·x), with x and y counted from the upper left corner."""
    matrix = from_entries(1.0, a, a, b, 1.0, b * aspect, 0.0, 0.0, 1.0)
    return to_physical_frame(matrix, aspect)


LEVELS: Mapping[str, tuple[float, float]] = {
    "shear_x": (-0.3, 0.3),
    "shear_y": (-0.3, 0.3),
    "translate_x": (-0.45, 0.45),
    "translate_y": (-0.45, 0.45),
    "rotate": (-radians(30), radians(30)),
    "auto_contrast": (0.0, 0.0),
    "invert": (0.0, 0.0),
    "equalize": (0.0, 0.0),
    "solarize": (0.0, 256.0),
    "posterize": (4.0, 8.0),
    "contrast": (-0.9, 0.9),
    "color": (-0.9, 0.9),
    "brightness": (-0.9, 0.9),
    "sharpness": (-0.9, 0.9),
    "cutout": (0.0, 0.2),
}
"""The 15 operations of Fast AutoAugment and AdaAug, and their values at levels 0 and 1."""

MIRRORED = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
"""Operations that are done in the other direction half of the time."""


def values_at(
    operation: Int[Tensor, "*drawn"],
    level: Float[Tensor, "*drawn"],
    coin: Bool[Tensor, "*drawn"],
) -> Float[Tensor, "*drawn"]:
    """Values of operations at their levels, in the other direction where the coin says so.

    Arguments:
        operation: Places in :data:`~instaaug.methods.operations.OPERATIONS`.
        level: In [0, 1].
        coin: Whether an operation that may be mirrored is.

    Example:
        >>> turn = torch.tensor([operation_index("rotate"), operation_index("posterize")])
        >>> values_at(turn, torch.tensor([1.0, 0.6]), torch.tensor([True, True]))
        tensor([-0.5236,  6.0000])
    """
    ends = level.new_tensor([LEVELS.get(name, (0.0, 0.0)) for name in OPERATIONS])
    low, high = ends[operation].unbind(-1)
    value = low + (high - low) * level
    value = torch.where(operation == operation_index("posterize"), value.floor(), value)
    mirrored = torch.tensor([name in MIRRORED for name in OPERATIONS], device=level.device)
    return torch.where(mirrored[operation] & coin, -value, value)


RAND_OPERATIONS = tuple(
    name for name in OPERATIONS if name not in ("zoom", "invert", "cutout", "flip")
)
"""The 14 operations of RandAugment and TrivialAugment."""


@dataclass(frozen=True)
class Magnitudes:
    """The strongest magnitude of every operation; the n bins lie evenly between it and nothing.

    Arguments:
        shear: Largest slope.
        translate: Largest move, in pixels if ``in_pixels``, else as a share of the side. Moves are
            cut off to whole pixels of what comes out.
        rotate: Largest angle in radians.
        enhance: Largest change of the factor 1 of brightness, color, contrast and sharpness.
        fewest_bits: Fewest bits that posterize keeps.
        in_pixels: The unit of ``translate``.
    """

    shear: float
    translate: float
    rotate: float
    enhance: float
    fewest_bits: int
    in_pixels: bool = False

    def table(self, n_bins: int, *, height: int, width: int) -> Float[Tensor, "operations bins"]:
        """Value of every operation at every bin, without sign.

        Example:
            >>> table = NARROW.table(31, height=224, width=224)
            >>> round(float(table[OPERATIONS.index("shear_x"), 9]), 2)
            0.09
        """
        shares = [i / (n_bins - 1) for i in range(n_bins)]
        zero = [0.0] * n_bins
        rows = {
            "shear_x": [self.shear * s for s in shares],
            "shear_y": [self.shear * s for s in shares],
            "translate_x": [self._move(s, width) for s in shares],
            "translate_y": [self._move(s, height) for s in shares],
            "rotate": [self.rotate * s for s in shares],
            "posterize": [float(round(8 - (8 - self.fewest_bits) * s)) for s in shares],
            "solarize": [255 * (1 - s) for s in shares],
        }
        enhanced = [self.enhance * s for s in shares]
        rows |= dict.fromkeys(("brightness", "color", "contrast", "sharpness"), enhanced)
        return torch.tensor([rows.get(name, zero) for name in OPERATIONS])

    def _move(self, share: float, side: int) -> float:
        most = self.translate if self.in_pixels else self.translate * side
        return trunc(most * share + 1e-9) / side


NARROW = Magnitudes(shear=0.3, translate=150 / 331, rotate=radians(30), enhance=0.9, fewest_bits=4)
"""AutoAugment's and RandAugment's."""

WIDE = Magnitudes(
    shear=0.99, translate=32.0, rotate=radians(135), enhance=0.99, fewest_bits=2, in_pixels=True
)
"""TrivialAugment's "wide" ones."""


def add_hole_places(
    operation: Int[Tensor, "*drawn"], value: Float[Tensor, "*drawn"], generator: Generator | None
) -> Float[Tensor, "*drawn"]:
    """Values in which every ``cutout`` has a place for its hole, drawn uniformly.

    Arguments:
        operation: Places in :data:`~instaaug.methods.operations.OPERATIONS`.
        value: Their values; those of ``cutout`` are sides below 1.
        generator: Source of randomness.

    Example:
        >>> value = add_hole_places(
        ...     torch.tensor([operation_index("cutout")]), torch.tensor([0.25]), None
        ... )
        >>> value - value.floor()
        tensor([0.2500])
    """
    place = torch.randint(HOLE_PLACES, value.shape, generator=generator, device=value.device)
    return torch.where(operation == operation_index("cutout"), value + place, value)


class DrawnOperations(TransformAugmenter, ABC):
    """Draws operations and magnitudes for every input and every sample, and applies them.

    Where torchvision draws once per call, and so for a whole batch, every input has a draw of its
    own. θ is as in :class:`~instaaug.methods.operations.Operations`. With another ``size`` the
    input is resized first: operations act on what the model sees.

    Arguments:
        n_steps: Operations per image.
        magnitudes: Their ranges.
        n_bins: Magnitudes per operation.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width.
    """

    def __init__(
        self,
        n_steps: int,
        magnitudes: Magnitudes,
        n_bins: int,
        *,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        interpolation: Interpolation,
        padding_mode: PaddingMode,
        size: int | tuple[int, int] | None,
    ) -> None:
        operations = Operations(n_steps, interpolation)
        super().__init__(operations, mean=mean, std=std, padding_mode=padding_mode, size=size)
        if n_bins < 2:
            raise ArgumentError(f"`n_bins` must be at least 2: got {n_bins}. 31 is usual.")
        self.magnitudes, self.n_bins = magnitudes, n_bins

    def signed_theta(
        self,
        x: Images,
        operation: Int[Tensor, "*drawn steps"],
        magnitude_bin: Int[Tensor, "*drawn steps"],
        generator: Generator | None,
    ) -> Float[Tensor, "*drawn columns"]:
        """θ of operations at their bins, half of the signed ones in the other direction."""
        height, width = self.transform.size or (x.shape[-2], x.shape[-1])
        table = self.magnitudes.table(self.n_bins, height=height, width=width).to(x.device)
        value = table[operation, magnitude_bin]
        coin = torch.rand(value.shape, generator=generator, device=x.device) < 0.5
        signed = torch.tensor([name in SIGNED for name in OPERATIONS], device=x.device)
        value = torch.where(signed[operation] & coin, -value, value)
        return torch.stack([operation.to(value.dtype), value], dim=-1).flatten(-2)
