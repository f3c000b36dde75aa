"""Between images as a model takes them and the same images with pixels in [0, 1]."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.constants import per_channel
from instaaug.shapes import Images

__all__ = ["UnitRange"]


@dataclass(frozen=True)
class UnitRange:
    """Undoes the normalization of images, and does it again.

    Arguments:
        mean: Per-channel mean the images were normalized with; None if they were not.
        std: Per-channel standard deviation, likewise.

    Example:
        >>> pixels = UnitRange(mean=(0.5,), std=(0.25,))
        >>> x = torch.tensor([-2.0, 0.0, 2.0]).view(1, 1, 1, 3)
        >>> pixels.entered(x).flatten()
        tensor([0.0000, 0.5000, 1.0000])
        >>> torch.equal(pixels.left(pixels.entered(x)), x)
        True
    """

    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if (self.mean is None) != (self.std is None):
            raise ArgumentError("`mean` and `std` must be given together: got one of the two.")
        if self.std is not None and not all(value > 0 for value in self.std):
            raise ArgumentError(
                f"`std` must be above 0 in every channel: got {tuple(self.std)}. A constant "
                "channel may have 1."
            )

    def entered(self, x: Images) -> Images:
        """Images as they were before they were normalized, clipped to [0, 1]."""
        if self.mean is not None and self.std is not None:
            x = torch.addcmul(_per_channel(self.mean, x), x, _per_channel(self.std, x))
        return x.clamp(0, 1)

    def left(self, x: Images) -> Images:
        """Images in [0, 1], normalized."""
        if self.mean is None or self.std is None:
            return x
        return (x - _per_channel(self.mean, x)) / _per_channel(self.std, x)


def _per_channel(values: Sequence[float], x: Images) -> Float[Tensor, "1 _ 1 1"]:
    if len(values) not in (1, x.shape[1]):
        raise ShapeError(
            f"`mean` and `std` must have one value per channel: got {len(values)} for "
            f"{x.shape[1]} channels. A single value serves all channels."
        )
    return per_channel(values, like=x)
