"""Small constants, made where they are needed."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["constant", "per_channel"]


def constant(values: Sequence[float | int], *, like: Tensor) -> Float[Tensor, " n"]:
    """A few numbers on the device and in the precision of ``like``.

    Each is filled in by the device itself: to copy a list there, as ``new_tensor`` does, the host
    would wait until the device has done all that it was told before.

    Example:
        >>> constant((0.5, 0.25), like=torch.zeros(1, dtype=torch.float64))
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    return torch.stack([like.new_full((), value) for value in values])


def per_channel(values: Sequence[float | int], *, like: Tensor) -> Float[Tensor, "1 n 1 1"]:
    """A number for each channel of images."""
    return constant(values, like=like).view(1, -1, 1, 1)
