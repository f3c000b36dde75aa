"""Scores with as many digits as their errors deserve, alike in a whole column."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median

__all__ = ["Digits", "digits_for", "p_in_digits", "ratio_in_digits"]

SMALL_ERROR = 0.0025  # of a share: above it, a second decimal of the percentage says nothing
MOST_DECIMALS, PLAIN = 6, 1e6  # beyond, numbers are written with a power of ten
SMALLEST_P = 0.001
Number = float | int


@dataclass(frozen=True)
class Digits:
    """How the scores of a table are written.

    Arguments:
        scale: What they are multiplied with, 100 for percent.
        decimals: How many, or None for a power of ten.
    """

    scale: float
    decimals: int | None

    def write(self, value: float, *, signed: bool = False) -> str:
        """A number, with a plus if it is positive and its sign matters.

        Example:
            >>> Digits(100.0, 1).write(0.6519), Digits(1.0, 2).write(-0.001, signed=True)
            ('65.2', '0.00')
        """
        scaled = value * self.scale
        text = f"{scaled:.2e}" if self.decimals is None else f"{scaled:.{self.decimals}f}"
        is_zero = float(text) == 0
        sign = "+" if signed and scaled > 0 and not is_zero else ""
        return (text.lstrip("-") if is_zero else sign + text).replace("-", "−")


def digits_for(means: Sequence[float], errors: Sequence[float], *, is_share: bool) -> Digits:
    """Digits down to those of the usual error, or three of the largest score if none is known.

    Shares have one decimal in percent, or two if errors are small.

    Example:
        >>> digits_for([0.652, 0.611], [0.0123, 0.009], is_share=True)
        Digits(scale=100.0, decimals=1)
        >>> digits_for([3.41], [], is_share=False)
        Digits(scale=1.0, decimals=2)
    """
    known = [error for error in errors if error > 0]
    if is_share:
        return Digits(100.0, 2 if known and median(known) < SMALL_ERROR else 1)
    largest = max(map(abs, means), default=0.0)
    wanted = 2 - floor(log10(largest or 1.0))
    if known:
        wanted = 1 - floor(log10(median(known)))
    if largest >= PLAIN or wanted > MOST_DECIMALS:
        return Digits(1.0, None)
    return Digits(1.0, max(0, wanted))


def p_in_digits(p: Number) -> str:
    """A p-value, never as nought.

    Example:
        >>> p_in_digits(0.00001), p_in_digits(0.0312), p_in_digits(0.348)
        ('<0.001', '0.031', '0.35')
    """
    if p < SMALLEST_P:
        return f"<{SMALLEST_P}"
    return f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"


def ratio_in_digits(ratio: Number) -> str:
    """How many times as much.

    Example:
        >>> ratio_in_digits(1.234), ratio_in_digits(41.7), ratio_in_digits(12345)
        ('1.23×', '41.7×', '12,345×')
    """
    if ratio >= 100:
        return f"{ratio:,.0f}×"
    return f"{ratio:.1f}×" if ratio >= 10 else f"{ratio:.2f}×"
