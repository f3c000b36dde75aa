"""Confidence intervals and significance tests, computed by scipy.

scipy.stats takes the better part of a second to import, so functions import it when called.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import numpy as np

from instaaug.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CONFIDENCE",
    "McNemarTest",
    "PairedTTest",
    "RankCorrelation",
    "bootstrap_interval",
    "holm_p_values",
    "mcnemar_p_value",
    "mcnemar_test",
    "mean_and_standard_error",
    "paired_p_value",
    "paired_t_test",
    "spearman",
    "t_interval",
    "wilson_interval",
]

CONFIDENCE = 0.95
ROUNDING = 1e-6  # of the largest value: what single precision leaves of no difference
N_RESAMPLES = 2000
RESAMPLED_AT_ONCE = 2_000_000  # numbers in memory
DECIMALS = 6  # values that agree to so many decimals are ties, so that rounding is not ranked

Interval = tuple[float, float]
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def mean_and_standard_error(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error, which is 0 for a single value.

    Example:
        >>> mean_and_standard_error([60.0, 62.0, 64.0, 66.0])  # √(20 / 3 / 4)
        (63.0, 1.290994...)
    """
    error = stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0
    return fmean(values), error


def t_interval(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Interval:
    """Student's t interval for the mean of the population that the values are drawn from.

    Arguments:
        values: Two or more independent ones, such as the scores of different seeds.
        confidence: Of the interval.

    Example:
        >>> low, high = t_interval([60.0, 62.0, 64.0])
        >>> round(low, 2), round(high, 2)  # 62 ± 4.30 · 2 / √3
        (57.03, 66.97)
    """
    from scipy import stats

    _check_confidence(confidence)
    if len(values) < 2:
        raise ArgumentError(
            f"`values` must be two or more: got {len(values)}. One value says nothing about the "
            "spread of others."
        )
    mean, error = mean_and_standard_error(values)
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * error
    return mean - half, mean + half


@dataclass(frozen=True)
class PairedTTest:
    """Student's paired t-test of first less second.

    Arguments:
        n: Number of pairs.
        mean: Mean difference.
        interval: Its 95 % t interval.
        p_value: Two-sided.
    """

    n: int
    mean: float
    interval: Interval
    p_value: float


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> PairedTTest:
    r"""Compare two methods measured on the same images, or with the same seeds.

    With the mean :math:`\bar d` and standard deviation s of the n differences,
    :math:`t = \bar d \sqrt n / s` follows Student's distribution with n - 1 degrees of freedom
    if nothing but chance makes the difference. If all differences are equal, s is 0 and t is not
    defined; p is then that of the exact sign test, :math:`2^{1 - n}`, or 1 if they are 0.
    Differences that agree to six digits count as equal, for rounding is no evidence.

    Arguments:
        first: One number per image or seed.
        second: The numbers to compare with, in the same order.

    Example:
        >>> found = paired_t_test([0.62, 0.66, 0.7], [0.61, 0.64, 0.67])
        >>> round(found.mean, 6), round(found.p_value, 4)  # t = 2√3 with 2 degrees of freedom
        (0.02, 0.0742)
    """
    from scipy import stats

    _check_pairs(len(first), len(second), fewest=2)
    differences = [float(a - b) for a, b in zip(first, second, strict=True)]
    n = len(differences)
    mean, error = mean_and_standard_error(differences)
    rounding = ROUNDING * max(*map(abs, first), *map(abs, second))
    if max(differences) - min(differences) <= rounding:
        if abs(mean) <= rounding:
            return PairedTTest(n, 0.0, (0.0, 0.0), 1.0)
        return PairedTTest(n, mean, (mean, mean), 0.5 ** (n - 1))
    p_value = 2 * float(stats.t.sf(abs(mean) / error, n - 1))
    return PairedTTest(n, mean, t_interval(differences), p_value)


@dataclass(frozen=True)
class McNemarTest:
    """McNemar's exact test of two classifiers on the same images.

    Arguments:
        n: Number of images.
        only_first: Images that only the first classifier gets right.
        only_second: Images that only the second gets right.
    """

    n: int
    only_first: int
    only_second: int

    @property
    def difference(self) -> float:
        """Accuracy of the first less that of the second."""
        return (self.only_first - self.only_second) / self.n

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return mcnemar_p_value(self.only_first, self.only_second)


def mcnemar_test(
    first: "Sequence[bool] | Tensor", second: "Sequence[bool] | Tensor"
) -> McNemarTest:
    """Compare two classifiers by the images that only one of them gets right.

    Arguments:
        first: Whether the first classifier is right, image by image.
        second: Whether the second is, in the same order.

    Example:
        >>> found = mcnemar_test([True, True, True, False], [True, False, False, False])
        >>> found.difference, found.p_value
        (0.5, 0.5)
    """
    a, b = (np.array([bool(value) for value in right]) for right in (first, second))
    _check_pairs(len(a), len(b), fewest=1)
    return McNemarTest(len(a), only_first=int((a & ~b).sum()), only_second=int((b & ~a).sum()))


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    r"""The exact two-sided p-value of McNemar's test.

    Images on which both classifiers agree carry no information. If they are equally good, each of
    the other :math:`n = b + c` images is as likely to favor one as the other, so that

    .. math:: p = \min\Bigl(1,\; 2 \sum_{k=0}^{\min(b, c)} \binom{n}{k} 2^{-n}\Bigr).

    Arguments:
        only_first: b, the images that only the first classifier gets right.
        only_second: c, those that only the second gets right.

    References:
        | Note on the sampling error of the difference between correlated proportions
        | (McNemar, 1947)

    Example:
        >>> round(mcnemar_p_value(0, 5), 12)  # five coins, all the same: 2 / 2⁵
        0.0625
    """
    if min(only_first, only_second) < 0:
        raise ArgumentError(
            f"`only_first` and `only_second` must be counts: got {only_first} and {only_second}."
        )
    if only_first == only_second:
        return 1.0
    from scipy import stats

    return float(stats.binomtest(only_first, only_first + only_second).pvalue)


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p-value of a difference between two models' scores on the same images.

    It is McNemar's if all scores are 0 or 1, else that of the normal approximation.

    Arguments:
        first: The score of every image.
        second: The scores to compare with, in the same order.

    Example:
        >>> round(paired_p_value([1.0] * 5, [0.0] * 5), 12)
        0.0625
    """
    if set(first) | set(second) <= {0.0, 1.0}:
        return mcnemar_test([s == 1 for s in first], [s == 1 for s in second]).p_value
    from scipy import stats

    _check_pairs(len(first), len(second), fewest=1)
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean = fmean(differences)
    error = sqrt(fmean((d - mean) ** 2 for d in differences) / len(differences))
    return 2 * float(stats.norm.sf(abs(mean) / error)) if error else 1.0


def wilson_interval(n_right: int, n: int, *, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval for a proportion, such as an accuracy.

    Unlike the textbook interval it stays in [0, 1] and has a width where all are right.

    Arguments:
        n_right: Images predicted right.
        n: All images.
        confidence: Of the interval.

    References:
        | Probable inference, the law of succession, and statistical inference (Wilson, 1927)

    Example:
        >>> low, high = wilson_interval(8, 10)
        >>> round(low, 3), round(high, 3)
        (0.49, 0.943)
    """
    if not 0 <= n_right <= n or n < 1:
        raise ArgumentError(
            f"`n_right` must lie in [0, n] with n ≥ 1: got {n_right} of {n}. Score some images."
        )
    _check_confidence(confidence)
    from scipy import stats

    test = stats.binomtest(n_right, n)
    low, high = test.proportion_ci(confidence_level=confidence, method="wilson")
    share = n_right / n
    return max(0.0, min(float(low), share)), min(1.0, max(float(high), share))  # despite rounding


def holm_p_values(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number by Holm's method, which scipy does not have.

    The smallest of m is multiplied by m, the next by m - 1 and so on, and none may be smaller
    than one before it. If there is no difference anywhere, the probability of *any* adjusted
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


def bootstrap_interval(
    statistic: Callable[..., Array],
    *samples: Array,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """The percentile bootstrap interval of a statistic of paired samples.

    scipy.stats.bootstrap computes the same; this one draws with torch, whose draws are the same
    on every platform, and ignores resamples in which the statistic is not finite.

    Arguments:
        statistic: Maps resamples, one per row, to one number per row.
        samples: Arrays of the same length, resampled together.
        seed: Decides the resamples.
        n_resamples: How many to draw.
        confidence: Of the interval.

    Example:
        >>> bootstrap_interval(lambda rows: rows.mean(axis=1), np.array([1.0, 1.0, 1.0]))
        (1.0, 1.0)
    """
    import torch

    _check_confidence(confidence)
    n = len(samples[0])
    generator = torch.Generator().manual_seed(seed)
    step = max(1, RESAMPLED_AT_ONCE // n)
    found = []
    for start in range(0, n_resamples, step):
        size = (min(step, n_resamples - start), n)
        rows = torch.randint(n, size, generator=generator).numpy()
        found.append(statistic(*(sample[rows] for sample in samples)))
    values = np.concatenate(found)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    low, high = np.quantile(values[np.isfinite(values)], tails).tolist()
    return low, high


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rank correlation.

    Arguments:
        value: ρ; None if one of the two variables is constant.
        interval: Of 95 %, from the percentiles of the bootstrap.
    """

    value: float | None
    interval: Interval | None


def spearman(x: "Sequence[float] | Tensor", y: "Sequence[float] | Tensor") -> RankCorrelation:
    """Spearman's ρ with a bootstrap interval; ties get their mean rank.

    Arguments:
        x: One number per image, three or more.
        y: Another, in the same order.

    Example:
        >>> spearman([1.0, 2.0, 3.0, 9.0], [0.1, 0.2, 0.4, 0.3])
        RankCorrelation(value=0.8, interval=(..., 1.0))
    """
    _check_pairs(len(x), len(y), fewest=3)
    a, b = (np.asarray(v, dtype=np.float64).round(DECIMALS) for v in (x, y))
    if min(np.ptp(a), np.ptp(b)) == 0:
        return RankCorrelation(None, None)
    low, high = bootstrap_interval(_rank_correlations, a, b)
    value = float(_rank_correlations(a[None], b[None])[0])
    return RankCorrelation(round(value, 12), (round(low, 12), round(high, 12)))


def _rank_correlations(x: Array, y: Array) -> Array:
    """Spearman's ρ of every row; NaN where one of the two is constant."""
    from scipy import stats

    a, b = (stats.rankdata(v, axis=1) - (v.shape[1] + 1) / 2 for v in (x, y))
    with np.errstate(invalid="ignore"):
        correlations: Array = (a * b).sum(axis=1) / np.sqrt(
            (a**2).sum(axis=1) * (b**2).sum(axis=1)
        )
    return correlations


def _check_pairs(n_first: int, n_second: int, *, fewest: int) -> None:
    if n_first != n_second or n_first < fewest:
        raise ShapeError(
            f"Both samples must be of the same images or seeds, at least {fewest}: got {n_first} "
            f"and {n_second}."
        )


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ArgumentError(f"`confidence` must lie in (0, 1): got {confidence}. 0.95 is usual.")
