"""How strong operations are at levels from 0 to 1, as searched policies have them."""

from collections.abc import Mapping
from math import radians

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from instaaug.methods.operations import OPERATIONS, number_of

__all__ = ["LEVELS", "MIRRORED", "values_at"]

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
        >>> turn = torch.tensor([number_of("rotate"), number_of("posterize")])
        >>> values_at(turn, torch.tensor([1.0, 0.6]), torch.tensor([True, True]))
        tensor([-0.5236,  6.0000])
    """
    ends = level.new_tensor([LEVELS.get(name, (0.0, 0.0)) for name in OPERATIONS])
    low, high = ends[operation].unbind(-1)
    value = low + (high - low) * level
    value = torch.where(operation == number_of("posterize"), value.floor(), value)
    mirrored = torch.tensor([name in MIRRORED for name in OPERATIONS], device=level.device)
    return torch.where(mirrored[operation] & coin, -value, value)
