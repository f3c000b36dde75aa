"""Two methods with the same seeds: their difference, its interval and its p-value."""

from collections.abc import Mapping
from dataclasses import dataclass

from instaaug.stats import paired_t_test

__all__ = ["SeedDifference", "seed_difference"]

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
    """Compare two methods by Student's paired t-test over the seeds that both have.

    A seed that makes both methods better or worse cancels out.

    One seed has neither interval nor p-value. Scores that agree for every seed have p = 1. A
    difference that is the same for every seed but not 0 has neither interval nor p-value:
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
    ours, others = ([float(scores[seed]) for seed in seeds] for scores in (first, second))
    if n == 1:
        return SeedDifference(n, ours[0] - others[0])
    test = paired_t_test(ours, others)
    if test.mean and test.interval[0] == test.interval[1]:
        return SeedDifference(n, test.mean, is_constant=True)
    return SeedDifference(n, test.mean, test.interval, test.p_value)
