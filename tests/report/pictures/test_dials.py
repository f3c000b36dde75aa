"""A dial shows the admissible and the learned range, and what was drawn, at their angles."""

from math import cos, pi, sin

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Wedge

from instaaug.report.pictures.ranges import PALE, Span, draw_dial
from instaaug.report.pictures.sheet import sheet
from instaaug.report.theme import BLUE
from instaaug.spaces import Parameter

ANGLE = Parameter("angle", -pi / 2, pi / 2, period=2 * pi)
HUE = Parameter("hue", -0.5, 0.5, period=1.0)


def dial(parameter: Parameter, learned: Span | None, drawn: list[float]) -> Axes:
    with sheet(2.0, 2.0) as page:
        axes = page.panel(0.0, 0.0, 2.0, 2.0)
        draw_dial(axes, parameter, learned, drawn)
    return axes


def arc(axes: Axes, color: str) -> tuple[float, float]:
    (found,) = [w for w in axes.patches if to_hex(w.get_facecolor()) == color]
    assert isinstance(found, Wedge)
    return found.theta1, found.theta2


@pytest.mark.parametrize(("parameter", "turn"), [(ANGLE, 1.0), (HUE, 1 / (2 * pi))])
def test_zero_is_at_the_top_and_positive_is_counterclockwise(
    parameter: Parameter, turn: float
) -> None:
    axes = dial(parameter, (-pi / 4 * turn, pi / 3 * turn), [0.0, pi / 6 * turn])
    assert arc(axes, BLUE) == pytest.approx((45, 150))  # from the right, as matplotlib has it
    assert [t.get_text() for t in axes.texts] == ["−45°\nto\n+60°"]
    dots = np.asarray(axes.collections[0].get_offsets())
    radius = dots[0, 1]
    np.testing.assert_allclose(dots, [(0, radius), (-radius * sin(pi / 6), radius * cos(pi / 6))])


def test_what_is_admissible_lies_below() -> None:
    assert arc(dial(ANGLE, None, []), PALE) == pytest.approx((0, 180))
    low, high = arc(dial(HUE, None, []), PALE)
    assert high - low == pytest.approx(360)


def test_a_range_without_extent_is_still_seen() -> None:
    low, high = arc(dial(ANGLE, (0.3, 0.3), []), BLUE)
    assert 2 < high - low < 8
    assert (low + high) / 2 - 90 == pytest.approx(np.degrees(0.3))


def test_without_a_range_there_are_only_dots() -> None:
    axes = dial(ANGLE, None, [0.1])
    assert len(axes.patches) == 1
    assert axes.texts[0].get_text() == ""
