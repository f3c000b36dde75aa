"""Is it luck? Intervals for an accuracy, and the exact test of two methods on the same images."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError

__all__ = ["PairedDifference", "accuracy_interval", "mcnemar_p_value", "paired_difference"]


@dataclass(frozen=True)
class PairedDifference:
    """How often one method is right where the other is wrong.

    Arguments:
        n: Images that both have predicted.
        only_first: Images that only the first method gets right.
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
        """Probability of a difference as large as this one, or larger, if there were none."""
        return mcnemar_p_value(self.only_first, self.only_second)


def paired_difference(
    first: Sequence[bool] | Tensor, second: Sequence[bool] | Tensor
) -> PairedDifference:
    """Compare two methods that have predicted the same images.

    Arguments:
        first: Whether the first method is right, image by image.
        second: Whether the second is, in the same order.

    Example:
        >>> found = paired_difference([True, True, True, False], [True, False, False, False])
        >>> found.difference, found.p_value
        (0.5, 0.5)
    """
    a, b = ([bool(value) for value in right] for right in (first, second))
    if len(a) != len(b) or not a:
        raise ShapeError(
            "`first` and `second` must be of the same images, at least one: got "
            f"{len(a)} and {len(b)}."
        )
    return PairedDifference(
        n=len(a),
        only_first=sum(x and not y for x, y in zip(a, b, strict=True)),
        only_second=sum(y and not x for x, y in zip(a, b, strict=True)),
    )


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    r"""The exact two-sided p-value of McNemar's test.

    Images on which both methods agree say nothing. If the methods are equally good, each of the
    other :math:`n = b + c` images is as likely to favor one as the other, so that

    .. math:: p = \min\Bigl(1,\; 2 \sum_{k=0}^{\min(b, c)} \binom{n}{k} 2^{-n}\Bigr).

    It is computed in whole numbers, and so right to the last digit.

    Arguments:
        only_first: b, the images that only the first method gets right.
        only_second: c, those that only the second gets right.

    References:
        | Note on the sampling error of the difference between correlated proportions
        | (McNemar, 1947)

    Example:
        >>> mcnemar_p_value(0, 5)  # five coins, all the same: 2 / 2⁵
        0.0625
    """
    if min(only_first, only_second) < 0:
        raise ArgumentError(
            f"`only_first` and `only_second` must be counts: got {only_first} and {only_second}."
        )
    n = only_first + only_second
    term = total = 1  # C(n, 0)
    for k in range(min(only_first, only_second)):
        term = term * (n - k) // (k + 1)
        total += term
    return min(1.0, 2 * total / 2**n)


def accuracy_interval(n_right: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    r"""Wilson's interval for the share of images that a method gets right.

    With :math:`\hat p` right of n and the normal quantile z of the confidence, its ends are

    .. math:: \frac{\hat p + \frac{z^2}{2n} \pm z \sqrt{\frac{\hat p (1 - \hat p)}{n}
              + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}.

    Unlike the textbook interval it stays in [0, 1] and has a width where all are right.

    Arguments:
        n_right: Images predicted right.
        n: All images.
        confidence: Of the interval.

    References:
        | Probable inference, the law of succession, and statistical inference (Wilson, 1927)

    Example:
        >>> low, high = accuracy_interval(8, 10)
        >>> round(low, 3), round(high, 3)
        (0.49, 0.943)
    """
    if not 0 <= n_right <= n or n < 1:
        raise ArgumentError(
            f"`n_right` must lie in [0, n] with n ≥ 1: got {n_right} of {n}. Score some images."
        )
    if not 0 < confidence < 1:
        raise ArgumentError(f"`confidence` must lie in (0, 1): got {confidence}. 0.95 is usual.")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = n_right / n
    middle = share + z**2 / (2 * n)
    half = z * (share * (1 - share) / n + z**2 / (4 * n**2)) ** 0.5
    scale = 1 + z**2 / n
    low, high = (middle - half) / scale, (middle + half) / scale
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # but for rounding, it is so
