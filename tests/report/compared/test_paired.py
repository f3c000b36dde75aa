"""Paired differences agree with scipy, Holm's p-values with the closed tests they stand for."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from instaaug.report.charts.over_seeds import t_p_value
from instaaug.report.compared.paired import SeedDifference, holm_p_values, seed_difference


@pytest.mark.parametrize("n", [2, 3, 4, 5, 10, 31])
def test_the_difference_is_that_of_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.6, 0.02, n).tolist(), rng.normal(0.59, 0.02, n).tolist()
    found = seed_difference(dict(enumerate(a)), dict(enumerate(b)))
    wanted = stats.ttest_rel(a, b)
    assert found.n == n
    assert found.mean == pytest.approx(np.mean(np.subtract(a, b)), rel=1e-9)
    assert found.p_value == pytest.approx(wanted.pvalue, abs=1e-12)
    assert found.interval == pytest.approx(tuple(wanted.confidence_interval(0.95)), rel=1e-9)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 10, 57])
@pytest.mark.parametrize("t", [0.0, 0.3, -1.0, 2.5, -12.0, 300.0])
def test_p_values_are_those_of_scipy(t: float, freedom: int) -> None:
    assert t_p_value(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-13)


def test_only_seeds_that_both_have_are_compared() -> None:
    found = seed_difference({0: 0.5, 1: 0.7, 5: 0.9}, {5: 0.8, 1: 0.5, 2: 0.0})
    assert found == seed_difference({1: 0.7, 5: 0.9}, {1: 0.5, 5: 0.8})
    assert found.n == 2
    assert found.mean == pytest.approx(0.15)


def test_no_common_seed_and_a_single_one_have_no_p_value() -> None:
    assert seed_difference({0: 0.5}, {1: 0.5}) == SeedDifference(0)
    assert seed_difference({0: 0.75, 1: 0.1}, {0: 0.5}) == SeedDifference(1, 0.25)


def test_equal_scores_have_a_p_value_of_one() -> None:
    scores = {0: 0.61, 1: 0.63, 2: 0.59}
    in_single = {seed: float(np.float32(score)) for seed, score in scores.items()}
    for other in (scores, in_single):
        assert seed_difference(scores, other) == SeedDifference(3, 0.0, (0.0, 0.0), 1.0)


def test_a_difference_that_never_varies_has_no_p_value_whatever_rounding_does() -> None:
    """0.62 - 0.61 and 0.74 - 0.73 are not the same float."""
    found = seed_difference({0: 0.62, 1: 0.74, 2: 0.51}, {0: 0.61, 1: 0.73, 2: 0.50})
    assert found.is_constant
    assert found.mean == pytest.approx(0.01)
    assert (found.interval, found.p_value) == (None, None)


def test_one_image_of_a_hundred_thousand_is_not_rounding() -> None:
    found = seed_difference({0: 0.5, 1: 0.5, 2: 0.50001}, {0: 0.5, 1: 0.5, 2: 0.5})
    assert found.p_value == pytest.approx(stats.ttest_1samp([0, 0, 1], 0).pvalue, abs=1e-9)


def test_swapping_two_methods_changes_the_sign_alone() -> None:
    a, b = {0: 0.5, 1: 0.6, 2: 0.8}, {0: 0.4, 1: 0.65, 2: 0.7}
    one, other = seed_difference(a, b), seed_difference(b, a)
    assert one.mean == pytest.approx(-(other.mean or 0))
    assert one.p_value == pytest.approx(other.p_value)


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_the_closed_test_of_bonferroni(seed: int) -> None:
    """Adjusted p: the largest Bonferroni p of any set of hypotheses that this one is in."""
    p = np.random.default_rng(seed).uniform(0, 0.4, 6).round(2).tolist()
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


def test_holm_of_none_and_of_one() -> None:
    assert holm_p_values([]) == []
    assert holm_p_values([0.2]) == [0.2]
