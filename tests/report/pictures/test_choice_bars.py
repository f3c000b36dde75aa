"""Bars are as long as their choices are probable."""

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from instaaug.report.pictures.ranges import draw_choices
from instaaug.report.pictures.sheet import sheet
from instaaug.report.theme import BLUE, MUTED
from tests.support.drawn import assert_words_are_readable


def bars(names: list[str], probs: list[float], *, learned: bool = True) -> Axes:
    with sheet(1.5, 1.2) as page:
        axes = page.panel(0.0, 0.0, 1.5, 1.2)
        draw_choices(axes, names, probs, learned=learned)
    return axes


def lengths(axes: Axes, color: str) -> list[float]:
    found = [p for p in axes.patches if isinstance(p, Rectangle)]
    return [p.get_width() / 0.96 for p in found if to_hex(p.get_facecolor()) == color]


def test_lengths_are_probabilities() -> None:
    axes = bars(["as it is", "mirrored"], [0.7, 0.3])
    assert lengths(axes, BLUE) == pytest.approx([0.7, 0.3])
    assert [t.get_text() for t in axes.texts] == ["as it is", "70%", "mirrored", "30%"]


def test_what_was_merely_drawn_has_another_color() -> None:
    axes = bars(["as it is", "mirrored"], [0.7, 0.3], learned=False)
    assert lengths(axes, MUTED) == pytest.approx([0.7, 0.3])
    assert not lengths(axes, BLUE)


def test_of_many_choices_the_likeliest_are_shown_and_the_sum_of_the_others() -> None:
    probs = [0.02] * 20 + [0.3, 0.2, 0.1]
    axes = bars([f"choice {i}" for i in range(23)], probs)
    assert lengths(axes, BLUE) == pytest.approx([0.3, 0.2, 0.1, 0.02, 0.38])
    words = [t.get_text() for t in axes.texts]
    assert words[-2:] == ["19 others", "38%"]
    assert_words_are_readable(axes.get_figure(root=True))
