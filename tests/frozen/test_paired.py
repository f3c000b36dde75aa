"""Intervals and the paired test agree with scipy, and claim no more than they may."""

from itertools import product
from math import comb

import pytest
import torch
from scipy import stats

from instaaug.errors import ArgumentError, ShapeError
from instaaug.frozen.paired import accuracy_interval, mcnemar_p_value, paired_difference

COUNTS = (0, 1, 2, 5, 17, 100)


@pytest.mark.parametrize(("b", "c"), [pair for pair in product(COUNTS, COUNTS) if sum(pair)])
def test_the_p_value_is_that_of_a_fair_coin(b: int, c: int) -> None:
    assert mcnemar_p_value(b, c) == pytest.approx(stats.binomtest(b, b + c).pvalue, rel=1e-9)


def test_without_a_difference_there_is_nothing_to_explain() -> None:
    assert mcnemar_p_value(0, 0) == 1.0
    assert mcnemar_p_value(30, 30) == 1.0


def test_large_counts_neither_overflow_nor_vanish() -> None:
    assert mcnemar_p_value(5000, 5000) == 1.0
    few = mcnemar_p_value(4500, 5500)
    assert few == pytest.approx(stats.binomtest(4500, 10_000).pvalue, rel=1e-6)
    assert 0 < few < 1e-20


@pytest.mark.parametrize("level", [0.001, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("n", [1, 5, 6, 20, 63, 200])
def test_the_test_never_errs_more_often_than_it_says(n: int, level: float) -> None:
    """By enumeration: over all outcomes of n fair coins, p ≤ level at most with that chance."""
    wrong = sum(comb(n, b) for b in range(n + 1) if mcnemar_p_value(b, n - b) <= level)
    assert wrong / 2**n <= level


def test_two_equal_methods_are_rarely_told_apart(generator: torch.Generator) -> None:
    """Simulated from images on.

    The test rejects with a chance of at most 5 %; 166 or more of 2,000 times would then have a
    chance below 1e-9.
    """
    n_rejected = 0
    difficulty = torch.rand(80, generator=generator)  # shared: the methods are correlated
    for _ in range(2000):
        first, second = torch.rand(2, 80, generator=generator) < difficulty
        n_rejected += paired_difference(first, second).p_value <= 0.05
    assert 20 <= n_rejected < 166  # and it does reject sometimes


def test_a_better_method_is_found(generator: torch.Generator) -> None:
    second = torch.rand(1000, generator=generator) < 0.6
    first = second | (torch.rand(1000, generator=generator) < 0.1)
    found = paired_difference(first, second)
    assert found.difference == pytest.approx(float(first.double().mean() - second.double().mean()))
    assert (found.only_first > 0, found.only_second) == (True, 0)
    assert found.p_value < 1e-6


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("right", "n"), [(0, 1), (1, 1), (0, 60), (60, 60), (7, 9), (590, 800)])
def test_the_interval_is_wilsons(right: int, n: int, confidence: float) -> None:
    wanted = stats.binomtest(right, n).proportion_ci(confidence, method="wilson")
    low, high = accuracy_interval(right, n, confidence=confidence)
    assert (low, high) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    assert 0 <= low <= right / n <= high <= 1


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(share: float) -> None:
    """By enumeration over all outcomes of 100 images; Wilson's is known to stay within 2 %."""
    n = 100
    binomial = stats.binom(n, share)
    covered = sum(
        binomial.pmf(k) for k in range(n + 1)
        if accuracy_interval(k, n)[0] <= share <= accuracy_interval(k, n)[1]
    )  # fmt: skip
    assert 0.93 <= covered <= 0.98


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ShapeError, match="`first` and `second` must be of the same images"):
        paired_difference([True], [True, False])
    with pytest.raises(ShapeError, match="at least one: got 0 and 0"):
        paired_difference([], [])
    with pytest.raises(ArgumentError, match="must be counts: got -1 and 2"):
        mcnemar_p_value(-1, 2)
    with pytest.raises(ArgumentError, match=r"`n_right` must lie in \[0, n\].*: got 3 of 2"):
        accuracy_interval(3, 2)
    with pytest.raises(ArgumentError, match=r"`confidence` must lie in \(0, 1\): got 1.0"):
        accuracy_interval(1, 2, confidence=1.0)
