"""Two methods with the same seeds: their difference, its interval and its p-value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from instaaug.report.charts.over_seeds import mean_and_error, t_p_value, t_quantile

__all__ = ["CONFIDENCE", "SeedDifference", "holm_p_values", "seed_difference"]

CONFIDENCE = 0.95
ALIKE = 1e-6  # of the largest score: what single precision may have left of no difference at all
Number = float | int


@dataclass(frozen=True)
class SeedDifference:
    """One method less another, over the seeds that both have.

    Arguments:
        n: How many seeds these are.
        mean: Of the difference, if there is a seed.
        interval: Student's, for the difference over all seeds there could be.
        p_value: Of the paired t-test, two-sided.
        is_constant: Whether the difference is the same with every seed, but not nought.
    """

    n: int
    mean: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    is_constant: bool = False


def seed_difference(first: Mapping[int, Number], second: Mapping[int, Number]) -> SeedDifference:
    r"""Compare two methods by Student's paired test.

    With the differences :math:`d_1 \dots d_n` of the seeds that both have, their mean
    :math:`\bar d` and standard deviation s, :math:`t = \bar d \sqrt n / s` has Student's
    distribution with n - 1 degrees of freedom if there is no difference but chance.
    A seed that makes both methods better or worse cancels out.

    One seed has neither interval nor p-value. Scores that agree for every seed have p = 1. A
    difference that is the same for every seed but not nought has neither interval nor p-value:
    the formula would say 0, yet accuracies are counts, and three equal ones are no wonder.

    Arguments:
        first: Scores by seed.
        second: Those to compare with.

    Example:
        >>> found = seed_difference({0: 0.62, 1: 0.66, 2: 0.7}, {2: 0.67, 1: 0.64, 0: 0.61})
        >>> found.n, round(found.mean, 6), round(found.p_value, 4)  # t = 2√3 with ν = 2
        (3, 0.02, 0.0742)
    """
    seeds = sorted(set(first) & set(second))
    n = len(seeds)
    if not n:
        return SeedDifference(n)
    differences = [float(first[seed] - second[seed]) for seed in seeds]
    mean, error = mean_and_error(differences)
    if n == 1:
        return SeedDifference(n, mean)
    none = ALIKE * max(max(abs(first[seed]), abs(second[seed])) for seed in seeds)
    if max(differences) - min(differences) <= none:
        if abs(mean) > none:
            return SeedDifference(n, mean, is_constant=True)
        return SeedDifference(n, 0.0, (0.0, 0.0), 1.0)
    half = _reach(n - 1) * error
    return SeedDifference(n, mean, (mean - half, mean + half), t_p_value(mean / error, n - 1))


@cache
def _reach(freedom: int) -> float:
    """Half the width of Student's interval, in standard errors."""
    return t_quantile((1 + CONFIDENCE) / 2, freedom)


def holm_p_values(p_values: Sequence[Number]) -> list[float]:
    r"""P-values that allow for how many there are, by Holm's method.

    The smallest of m is multiplied by m, the next by m - 1 and so on, and none may be smaller
    than one before it. Among methods without a difference, the probability of *any* adjusted
    p-value below 5 % is then 5 % or less, however the tests depend on each other.

    Arguments:
        p_values: In any order, which is kept.

    References:
        | A simple sequentially rejective multiple test procedure (Holm, 1979)

    Example:
        >>> holm_p_values([0.04, 0.01, 0.5])
        [0.08, 0.03, 0.5]
    """
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for n_smaller, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        least = max(least, min(1.0, (len(p_values) - n_smaller) * p_values[i]))
        adjusted[i] = least
    return adjusted
