"""Methods that are compared: what they must have in common."""

from collections.abc import Mapping

import torch
from torch import Tensor

from instaaug.augmentation.observed import Observed
from instaaug.errors import ArgumentError
from instaaug.shapes import Images

__all__ = ["check_same_images"]

MOST_METHODS = 3
ROUNDING = 1 / 512  # half a step of 8-bit pixels, for images were normalized and back


def check_same_images(groups: Mapping[str, Observed]) -> Images:
    """The images that all methods were shown; raises if there are none, or others."""
    if not 1 <= len(groups) <= MOST_METHODS:
        raise ArgumentError(
            f"`groups` must hold 1 to {MOST_METHODS} methods: got {len(groups)}. Draw several "
            "figures."
        )
    first, *others = groups.values()
    if not all(_is_same(first.images, other.images) for other in others):
        raise ArgumentError(
            "`groups` must hold what methods make of the same images: got different ones. "
            "Observe each method with one batch."
        )
    return first.images


def _is_same(one: Images, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=ROUNDING)
