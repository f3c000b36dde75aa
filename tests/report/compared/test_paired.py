"""Paired differences agree with scipy, Holm's p-values with the closed tests they stand for."""

import numpy as np
import pytest
from scipy import stats

from instaaug.report.comparison import SeedDifference, seed_difference


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
