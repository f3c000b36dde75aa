"""Finding the tensor among what a model returns."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

__all__ = ["Output", "picked"]

Output = Callable[[Any], Tensor]
"""Picks the tensor out of what a model returns."""


def picked(returned: object, output: Output | None = None) -> object:
    """What ``output`` picks; without it the tensor, if there is no doubt which; else all of it.

    Example:
        >>> picked({"loss": 0.1, "logits": "these"})
        'these'
    """
    if output is not None:
        return output(returned)
    if isinstance(returned, Tensor):
        return returned
    if isinstance(returned, Mapping) and "logits" in returned:
        return returned["logits"]
    if isinstance(found := getattr(returned, "logits", None), Tensor):
        return found
    if isinstance(returned, tuple | list) and returned and isinstance(returned[0], Tensor):
        return returned[0]
    return returned
