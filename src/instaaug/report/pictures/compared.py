"""Methods that are compared: what they must have in common."""

from collections.abc import Mapping

import torch

from instaaug.augmentation.observed import Observed
from instaaug.errors import ArgumentError
from instaaug.shapes import Images

__all__ = ["check_same_images"]

MOST_METHODS = 3


def check_same_images(groups: Mapping[str, Observed]) -> Images:
    """The images that all methods were shown; raises if there are none, or others."""
    if not 1 <= len(groups) <= MOST_METHODS:
        raise ArgumentError(
            f"`groups` must hold 1 to {MOST_METHODS} methods: got {len(groups)}. Draw several "
            "figures."
        )
    first, *others = groups.values()
    if not all(torch.equal(first.images, other.images) for other in others):
        raise ArgumentError(
            "`groups` must hold what methods make of the same images: got different ones. "
            "Observe each method with one batch."
        )
    return first.images
