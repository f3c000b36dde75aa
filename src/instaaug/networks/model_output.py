"""Finding the tensor among what a model returns."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from instaaug.errors import ShapeError

__all__ = ["Output", "picked", "rows_of"]

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


def rows_of(returned: object, n_inputs: int, output: Output | None = None) -> Tensor:
    """What :func:`picked` picks; raise unless that is a tensor with one row per input."""
    found = picked(returned, output)
    if isinstance(found, Tensor) and found.ndim and len(found) == n_inputs:
        return found
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    who = "`model` must return" if output is None else "`output` must pick"
    raise ShapeError(
        f"{who} a tensor with one row per input, {n_inputs} here: got {got}. Pick the tensor with "
        'output=, such as output=lambda o: o["logits"].'
    )
