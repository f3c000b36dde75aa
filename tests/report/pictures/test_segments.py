"""Segments lie where their numbers say."""

import numpy as np
import pytest
from matplotlib.axes import Axes

from instaaug.report.pictures.ranges import START, STOP, Segment, draw_segments
from instaaug.report.pictures.sheet import sheet
from instaaug.report.theme import BLUE, INK
from instaaug.spaces import Parameter
from tests.support.drawn import assert_words_are_readable, dots_of

FACTOR = Parameter("factor", 0.0, 2.0, identity=1.0)


def drawn(*segments: Segment, room_for: int = 1) -> Axes:
    with sheet(1.8, 1.2) as page:
        axes = page.panel(0.0, 0.0, 1.8, 1.2)
        draw_segments(axes, segments, room_for=room_for)
    return axes


def lines(axes: Axes, color: str) -> list[np.ndarray]:
    return [np.asarray(line.get_xydata()) for line in axes.lines if line.get_color() == color]


def place(value: float) -> float:
    """In the panel, of a factor from 0 to 2."""
    return START + (STOP - START) * value / 2


def test_the_learned_range_the_identity_and_the_dots_are_on_one_scale() -> None:
    axes = drawn(Segment("scale", FACTOR, (0.5, 1.5), [0.5, 2.0, 7.0]))
    (learned,), (tick,) = lines(axes, BLUE), lines(axes, INK)
    assert learned[:, 0] == pytest.approx([place(0.5), place(1.5)])
    assert tick[:, 0] == pytest.approx([place(1.0)] * 2)
    dots = np.asarray(dots_of(axes)[0].get_offsets())[:, 0]
    assert dots == pytest.approx([place(0.5), STOP, STOP])  # what lies outside is at the end
    assert [t.get_text() for t in axes.texts] == ["scale", "×0.5 to ×1.5", "×0", "×2"]


def test_a_range_without_extent_is_still_seen() -> None:
    (learned,) = lines(drawn(Segment("scale", FACTOR, (1.0, 1.0), [])), BLUE)
    low, high = learned[:, 0]
    assert 0.01 < high - low < 0.05
    assert (low + high) / 2 == pytest.approx(place(1.0))


def test_without_a_range_nothing_is_thick() -> None:
    axes = drawn(Segment("scale", FACTOR, None, [1.0]))
    assert not lines(axes, BLUE)
    assert "to" not in " ".join(t.get_text() for t in axes.texts)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_words_of_several_segments_are_readable(n: int) -> None:
    wide = Parameter("strength", -1234.5, 1234.5)
    axes = drawn(*[Segment("translate", wide, (-1234.5, 1234.5), [0.0])] * n, room_for=3)
    figure = axes.get_figure(root=True)
    assert_words_are_readable(figure)
    heights = [line[0, 1] for line in lines(axes, BLUE)]
    assert heights == sorted(heights)  # from top to bottom, for the axis points down
    middle = sum(axes.get_ylim()) / 2
    assert middle == pytest.approx(n / 2)
