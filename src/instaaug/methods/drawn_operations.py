"""What policies of drawn operations have in common: ranges of magnitudes, signs, rendering."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from math import radians, trunc

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.augmentation.settings import as_composition
from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import (
    HOLE_PLACES,
    OPERATIONS,
    SIGNED,
    Interpolation,
    Operations,
    number_of,
)
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Rendered

__all__ = [
    "NARROW",
    "RAND_OPERATIONS",
    "WIDE",
    "DrawnOperations",
    "Magnitudes",
    "with_hole_places",
]

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


def with_hole_places(
    operation: Int[Tensor, "*drawn"], value: Float[Tensor, "*drawn"], generator: Generator | None
) -> Float[Tensor, "*drawn"]:
    """Values in which every ``cutout`` has a place for its hole, drawn uniformly.

    Arguments:
        operation: Places in :data:`~instaaug.methods.operations.OPERATIONS`.
        value: Their values; those of ``cutout`` are sides below 1.
        generator: Source of randomness.

    Example:
        >>> value = with_hole_places(
        ...     torch.tensor([number_of("cutout")]), torch.tensor([0.25]), None
        ... )
        >>> value - value.floor()
        tensor([0.2500])
    """
    place = torch.randint(HOLE_PLACES, value.shape, generator=generator, device=value.device)
    return torch.where(operation == number_of("cutout"), value + place, value)


class DrawnOperations(SimpleAugmenter, ABC):
    """Draws operations and magnitudes for every input and every sample, and applies them.

    Where torchvision draws once per call, and so for a whole batch, every input has a draw of its
    own. θ is as in :class:`~instaaug.methods.operations.Operations`. With another ``size`` the
    input is resized first: operations act on what the model sees.

    Arguments:
        n_steps: Operations per image.
        magnitudes: Their ranges.
        n_bins: Magnitudes per operation.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation, likewise.
        interpolation: How a warp reads between pixels.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Side, or height and width, of what comes out.
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
        super().__init__()
        if n_bins < 2:
            raise ArgumentError(f"`n_bins` must be at least 2: got {n_bins}. 31 is usual.")
        operations = Operations(n_steps, interpolation)
        self.transform = as_composition(operations, mean=mean, std=std, size=size)
        self.magnitudes, self.n_bins = magnitudes, n_bins
        self.padding_mode: PaddingMode = padding_mode

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

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        return self.transform.apply(x, theta, padding_mode=self.padding_mode)
