"""Intervals over seeds agree with tables and closed forms."""

from statistics import stdev

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.over_seeds import (
    checked_percents,
    mean_and_error,
    seed_interval,
    t_quantile,
)


@pytest.mark.parametrize(
    ("freedom", "table"),  # of the 97.5 % point, as printed in any textbook
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042)],
)
def test_quantiles_are_those_of_the_tables(freedom: int, table: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(table, abs=6e-4)
    assert t_quantile(0.025, freedom) == pytest.approx(-table, abs=6e-4)
    assert t_quantile(0.5, freedom) == pytest.approx(0.0, abs=1e-9)


def test_quantiles_with_closed_forms_are_exact() -> None:
    """tan(π(p - 1/2)) for one degree of freedom, (2p - 1)/√(2p(1 - p)) for two."""
    assert t_quantile(0.75, 1) == pytest.approx(1.0, rel=1e-12)
    assert t_quantile(0.9, 2) == pytest.approx(0.8 / 0.18**0.5, rel=1e-12)


def test_many_degrees_of_freedom_are_nearly_normal() -> None:
    assert t_quantile(0.975, 2000) == pytest.approx(1.95996, abs=2e-3)


def test_the_interval_is_the_mean_and_so_many_errors() -> None:
    scores = [61.0, 64.0, 62.5, 66.0]
    low, high = seed_interval(scores)
    assert (low + high) / 2 == pytest.approx(63.375)
    assert (high - low) / 2 == pytest.approx(3.1824463 * stdev(scores) / 2, rel=1e-6)


def test_one_seed_has_no_error_and_no_interval() -> None:
    assert mean_and_error([60.0]) == (60.0, 0.0)
    with pytest.raises(ArgumentError, match="`scores` must be of two seeds or more: got 1"):
        seed_interval([60.0])


@pytest.mark.parametrize("scores", [[], [float("nan")], [-1.0], [100.1], [50, float("inf")]])
def test_scores_that_are_no_percentages_are_refused(scores: list[float]) -> None:
    with pytest.raises(ArgumentError, match=r"`tuned` must hold .* Multiply shares by 100"):
        checked_percents("tuned", scores)


@pytest.mark.parametrize(("probability", "freedom"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_impossible_quantiles_are_refused(probability: float, freedom: int) -> None:
    with pytest.raises(ArgumentError, match="`probability` must lie in"):
        t_quantile(probability, freedom)
