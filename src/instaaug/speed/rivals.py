"""Kornia, the library whose augmentations come nearest to ours, if it is installed."""

from collections.abc import Callable
from importlib.util import find_spec

from torch import Tensor

__all__ = ["has_kornia", "kornia_augmentations"]


def has_kornia() -> bool:
    """Whether there is somebody to compare with."""
    return find_spec("kornia") is not None


def kornia_augmentations(side: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Its random crops, rotations and color changes, one draw per image; none without kornia."""
    if not has_kornia():
        return {}
    from kornia.augmentation import ColorJiggle, RandomResizedCrop, RandomRotation

    full = (0.0, 2.0)
    return {
        "kornia, random crops": RandomResizedCrop((side, side), scale=(0.16, 1.0), p=1.0),
        "kornia, random rotation": RandomRotation(180.0, p=1.0),
        "kornia, random colors": ColorJiggle(saturation=full, hue=(-0.5, 0.5), p=1.0),
    }
