"""Slopes of what grows."""

import pytest

from benchmarks.scaling import slope


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_slope_is_the_power(power: float) -> None:
    sizes = [1.0, 3.0, 10.0, 50.0]
    assert slope(sizes, [0.2 * size**power for size in sizes]) == pytest.approx(power)
