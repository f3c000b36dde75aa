"""The same settings with several seeds: mean, standard error, and Student's interval."""

from collections.abc import Sequence
from math import atan, cos, isfinite, pi, sin, sqrt, tan
from statistics import fmean, stdev

from instaaug.errors import ArgumentError

__all__ = ["checked_percents", "mean_and_error", "seed_interval", "t_p_value", "t_quantile"]

Number = float | int
HALVINGS = 100  # of an angle: more than a float can hold


def checked_percents(argument: str, scores: Sequence[Number]) -> tuple[float, ...]:
    """Scores in percent, one per seed, or an error that names the argument."""
    if not scores or not all(isfinite(score) and 0 <= score <= 100 for score in scores):
        raise ArgumentError(
            f"`{argument}` must hold a score in [0, 100] percent per seed, at least one: got "
            f"{tuple(scores)}. Multiply shares by 100."
        )
    return tuple(float(score) for score in scores)


def mean_and_error(scores: Sequence[float]) -> tuple[float, float]:
    """The mean over seeds, and its standard error; that of a single seed is taken as 0.

    Example:
        >>> mean_and_error([60.0, 62.0, 64.0, 66.0])  # √(20 / 3 / 4)
        (63.0, 1.290994...)
    """
    error = stdev(scores) / sqrt(len(scores)) if len(scores) > 1 else 0.0
    return fmean(scores), error


def seed_interval(scores: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval for the mean over all seeds there could be.

    Arguments:
        scores: One per seed, two or more.
        confidence: Of the interval.

    Example:
        >>> low, high = seed_interval([60.0, 62.0, 64.0])
        >>> round(low, 2), round(high, 2)  # 62 ± 4.30 · 2 / √3
        (57.03, 66.97)
    """
    if len(scores) < 2:
        raise ArgumentError(
            f"`scores` must be of two seeds or more: got {len(scores)}. One seed says nothing of "
            "the others."
        )
    mean, error = mean_and_error(scores)
    half = t_quantile((1 + confidence) / 2, len(scores) - 1) * error
    return mean - half, mean + half


def t_quantile(probability: float, freedom: int) -> float:
    r"""Where Student's distribution has reached a probability.

    With :math:`\theta = \arctan(t / \sqrt \nu)` its distribution function is a finite sum of
    powers of :math:`\cos\theta`, which is inverted by halving.

    Arguments:
        probability: In (0, 1).
        freedom: ν, the degrees of freedom.

    References:
        | Handbook of Mathematical Functions (Abramowitz and Stegun, 1964), 26.7.3 and 26.7.4

    Example:
        >>> round(t_quantile(0.975, 1), 3), round(t_quantile(0.975, 2), 3)
        (12.706, 4.303)
    """
    if not 0 < probability < 1 or freedom < 1:
        raise ArgumentError(
            "`probability` must lie in (0, 1) and `freedom` be at least 1: got "
            f"{probability} and {freedom}."
        )
    inside = abs(2 * probability - 1)
    low, high = 0.0, pi / 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, freedom) < inside else (low, middle)
    return (1 if probability >= 0.5 else -1) * sqrt(freedom) * tan(low)


def t_p_value(t: float, freedom: int) -> float:
    """The probability of a value of Student's distribution as far from 0 as this one, or farther.

    It is right to some 1e-15, in absolute terms.

    Arguments:
        t: The value, of either sign.
        freedom: ν, the degrees of freedom, 1 or more.

    Example:
        >>> round(t_p_value(1.0, 1), 6), round(t_p_value(-4.302653, 2), 6)
        (0.5, 0.05)
    """
    return min(1.0, max(0.0, 1 - _inside(atan(abs(t) / sqrt(freedom)), freedom)))


def _inside(angle: float, freedom: int) -> float:
    """The probability of |t| < √ν tan(angle)."""
    odd = freedom % 2
    term = cos(angle) if odd else 1.0
    total = 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (k - 1) / k
    return 2 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
