"""Scores of several seeds."""

from collections.abc import Sequence
from math import isfinite

from instaaug.errors import ArgumentError

__all__ = ["checked_percents"]

Number = float | int


def checked_percents(argument: str, scores: Sequence[Number]) -> tuple[float, ...]:
    """Scores in percent, one per seed, or an error that names the argument."""
    if not scores or not all(isfinite(score) and 0 <= score <= 100 for score in scores):
        raise ArgumentError(
            f"`{argument}` must hold a score in [0, 100] percent per seed, at least one: got "
            f"{tuple(scores)}. Multiply shares by 100."
        )
    return tuple(float(score) for score in scores)
