"""Intervals and tests agree with closed forms and enumerations, and claim no more than that."""

from itertools import combinations
from math import comb, sqrt
from statistics import stdev

import numpy as np
import pytest
import torch
from scipy import stats

from instaaug.errors import ArgumentError, ShapeError
from instaaug.stats import (
    bootstrap_interval,
    holm_p_values,
    mcnemar_p_value,
    mcnemar_test,
    mean_and_standard_error,
    paired_p_value,
    paired_t_test,
    spearman,
    t_interval,
    wilson_interval,
)


def test_the_t_interval_is_the_mean_and_so_many_standard_errors() -> None:
    scores = [61.0, 64.0, 62.5, 66.0]
    low, high = t_interval(scores)
    assert (low + high) / 2 == pytest.approx(63.375)
    assert (high - low) / 2 == pytest.approx(3.1824463 * stdev(scores) / 2, rel=1e-6)


def test_one_value_has_no_error_and_no_interval() -> None:
    assert mean_and_standard_error([60.0]) == (60.0, 0.0)
    with pytest.raises(ArgumentError, match="`values` must be two or more: got 1"):
        t_interval([60.0])


def test_the_paired_t_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.6, 0.02, 7).tolist(), rng.normal(0.59, 0.02, 7).tolist()
    found, wanted = paired_t_test(a, b), stats.ttest_rel(a, b)
    assert found.n == 7
    assert found.mean == pytest.approx(np.mean(np.subtract(a, b)), rel=1e-9)
    assert found.p_value == pytest.approx(wanted.pvalue, rel=1e-9)
    assert found.interval == pytest.approx(tuple(wanted.confidence_interval(0.95)), rel=1e-9)


def test_a_constant_difference_has_the_p_value_of_the_sign_test() -> None:
    """Also where rounding makes it vary: 0.62 - 0.61 and 0.74 - 0.73 are not the same float."""
    found = paired_t_test([0.62, 0.74, 0.51, 0.4], [0.61, 0.73, 0.50, 0.39])
    assert found.mean == pytest.approx(0.01)
    assert found.interval == pytest.approx((0.01, 0.01))
    assert found.p_value == stats.binomtest(4, 4).pvalue == 0.125


def test_equal_values_have_a_p_value_of_one() -> None:
    found = paired_t_test([0.3, 0.7], [0.1 + 0.2, 0.7])  # 0.30000000000000004
    assert (found.mean, found.interval, found.p_value) == (0.0, (0.0, 0.0), 1.0)


@pytest.mark.parametrize(("b", "c"), [(0, 1), (1, 5), (17, 5), (100, 17)])
def test_mcnemars_p_value_is_that_of_a_fair_coin(b: int, c: int) -> None:
    tail = sum(comb(b + c, k) for k in range(min(b, c) + 1))
    assert mcnemar_p_value(b, c) == pytest.approx(2 * tail / 2 ** (b + c), rel=1e-9)


@pytest.mark.parametrize("count", [0, 30, 5000])
def test_without_a_difference_there_is_nothing_to_explain(count: int) -> None:
    assert mcnemar_p_value(count, count) == 1.0


@pytest.mark.parametrize("level", [0.01, 0.05])
@pytest.mark.parametrize("n", [5, 6, 63])
def test_mcnemars_test_never_errs_more_often_than_it_says(n: int, level: float) -> None:
    """By enumeration: over all outcomes of n fair coins, p ≤ level at most with that chance."""
    wrong = sum(comb(n, b) for b in range(n + 1) if mcnemar_p_value(b, n - b) <= level)
    assert wrong / 2**n <= level


def test_a_better_classifier_is_found(generator: torch.Generator) -> None:
    second = torch.rand(1000, generator=generator) < 0.6
    first = second | (torch.rand(1000, generator=generator) < 0.1)
    found = mcnemar_test(first, second)
    assert found.difference == pytest.approx(float(first.double().mean() - second.double().mean()))
    assert (found.only_first > 0, found.only_second) == (True, 0)
    assert found.p_value < 1e-6


def test_scores_between_0_and_1_are_compared_by_the_normal_approximation() -> None:
    first, second = [0.3, 0.8, 0.6, 1.0], [0.2, 0.9, 0.1, 0.4]
    d = np.subtract(first, second)
    z = d.mean() / (d.std() / 2)
    assert paired_p_value(first, second) == pytest.approx(2 * stats.norm.sf(z), rel=1e-9)
    assert paired_p_value(first, first) == 1.0


@pytest.mark.parametrize(("right", "n"), [(0, 1), (60, 60), (590, 800)])
def test_wilsons_interval_solves_its_equation(right: int, n: int) -> None:
    """The ends are where the share is z standard errors away, at the error of the ends."""
    low, high = wilson_interval(right, n)
    assert 0 <= low <= right / n <= high <= 1
    for end in {low, high} - {0.0, 1.0}:
        z = abs(right / n - end) / sqrt(end * (1 - end) / n)
        assert z == pytest.approx(stats.norm.ppf(0.975), rel=1e-9)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_wilsons_interval_covers_the_truth_about_as_often_as_it_says(share: float) -> None:
    """By enumeration over all outcomes of 100 images; it is known to stay within 2 %."""
    n = 100
    masses, intervals = stats.binom(n, share).pmf, [wilson_interval(k, n) for k in range(n + 1)]
    covered = sum(masses(k) for k, (low, high) in enumerate(intervals) if low <= share <= high)
    assert 0.93 <= covered <= 0.98


def test_holm_is_the_closed_test_of_bonferroni() -> None:
    """Adjusted p: the largest Bonferroni p of any set of hypotheses that this one is in."""
    p = np.random.default_rng(0).uniform(0, 0.4, 6).round(2).tolist()
    wanted = [
        max(
            min(1.0, size * min(p[j] for j in chosen))
            for size in range(1, len(p) + 1)
            for chosen in combinations(range(len(p)), size)
            if i in chosen
        )
        for i in range(len(p))
    ]
    assert holm_p_values(p) == pytest.approx(wanted)
    assert (holm_p_values([]), holm_p_values([0.2])) == ([], [0.2])


def test_the_bootstrap_interval_of_a_mean_is_nearly_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(0, 1, 500)
    low, high = bootstrap_interval(lambda rows: rows.mean(axis=1), values)
    half = 1.96 * values.std(ddof=1) / sqrt(500)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)


@pytest.mark.parametrize("decimals", [3, 0])  # few ties, and many
def test_spearman_is_the_correlation_of_ranks(decimals: int) -> None:
    x, noise = np.random.default_rng(0).normal(size=(2, 60))
    x, y = x.round(decimals), (x + noise).round(decimals)
    found = spearman(x.tolist(), y.tolist())
    assert found.value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)


def test_the_interval_of_spearman_is_as_wide_as_theory_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of Fisher's z: √(1 + ρ²/2) / √(n - 3), by Bonett and Wright; the bootstrap is near to it."""
    monkeypatch.setattr("instaaug.stats.RESAMPLED_AT_ONCE", 500 * 300)  # in several parts
    x, noise = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 500)))
    found = spearman(x, x + noise)
    assert found.value is not None
    assert found.interval is not None
    low, high = np.arctanh(found.interval)
    error = sqrt((1 + found.value**2 / 2) / (len(x) - 3))
    assert (high - low) / (2 * 1.96 * error) == pytest.approx(1.0, abs=0.15)
    assert found.interval[0] < found.value < found.interval[1]
    assert spearman(x, x + noise) == found


def test_a_constant_has_no_correlation() -> None:
    x = torch.randn(10, dtype=torch.float64)
    noise = 0.5 + 1e-9 * x  # what rounding leaves of a constant
    assert spearman(x, noise).value is None
    assert spearman(noise, x).interval is None


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ShapeError, match="of the same images or seeds, at least 1: got 1 and 2"):
        mcnemar_test([True], [True, False])
    with pytest.raises(ShapeError, match="at least 1: got 0 and 0"):
        mcnemar_test([], [])
    with pytest.raises(ShapeError, match="at least 2: got 1 and 1"):
        paired_t_test([0.5], [0.5])
    with pytest.raises(ShapeError, match="at least 3: got 2 and 2"):
        spearman([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ArgumentError, match="must be counts: got -1 and 2"):
        mcnemar_p_value(-1, 2)
    with pytest.raises(ArgumentError, match=r"`n_right` must lie in \[0, n\].*: got 3 of 2"):
        wilson_interval(3, 2)
    with pytest.raises(ArgumentError, match=r"`confidence` must lie in \(0, 1\): got 1.0"):
        wilson_interval(1, 2, confidence=1.0)
