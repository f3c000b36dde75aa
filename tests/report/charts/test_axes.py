"""Ticks of log scales are round, few, and within what is shown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instaaug.report.charts.axes import log_ticks


@settings(max_examples=60, deadline=None)
@given(st.floats(-12, 9), st.floats(0.2, 15))
def test_ticks_are_few_and_within(start: float, decades: float) -> None:
    low, high = 10.0**start, 10.0 ** (start + decades)
    ticks = log_ticks(low, high)
    assert 1 <= len(ticks) <= 8
    assert all(low <= tick <= high for tick in ticks)
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.008, 3.75, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]),
        (0.5, 2000.0, [1.0, 10.0, 100.0, 1000.0]),
        (0.3, 0.46, [0.3, 0.4]),
        (1e-6, 1e4, [1e-6, 1e-4, 1e-2, 1.0, 100.0, 10000.0]),
        (1.01, 1.02, [1.01]),
    ],
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == ticks
