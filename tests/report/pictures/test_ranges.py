"""Dials, segments and bars show what is admissible, learned and drawn."""

from dataclasses import replace
from math import cos, pi, sin

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle, Wedge

from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.report.pictures.ranges import (
    PALE,
    START,
    STOP,
    Segment,
    Span,
    draw_choices,
    draw_dial,
    draw_ranges,
    draw_segments,
)
from instaaug.report.pictures.sheet import sheet
from instaaug.report.theme import BLUE, INK, MUTED
from instaaug.spaces import Parameter
from tests.support.drawn import assert_words_are_readable, dots_of
from tests.support.observations import looked_at, photos

ANGLE = Parameter("angle", -pi / 2, pi / 2, period=2 * pi)
HUE = Parameter("hue", -0.5, 0.5, period=1.0)

FACTOR = Parameter("factor", 0.0, 2.0, identity=1.0)


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


def test_a_range_without_extent_is_still_seen_segments() -> None:
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


def test_every_parameter_is_a_column() -> None:
    seen = looked_at(T.Rotation(), T.Translate(), T.Flip(), T.HSVJitter(), images=photos(3))
    figure = draw_ranges(seen, titles=["a", "b", "c"])
    headings = [text.get_text() for text in figure.texts]
    assert headings[:11] == [
        "input", "rotation", "angle", "translate", "right", "down", "flip", "probability",
        "hsv jitter", "hue", "saturation",
    ]  # fmt: skip
    assert len(figure.axes) == 3 * (1 + 7 + 1)
    assert_words_are_readable(figure)


def test_ranges_of_inputs_are_on_one_scale() -> None:
    seen = looked_at(T.Scale(min_factor=0.5, max_factor=4.5), images=photos(2))
    (factor,) = seen.factors
    low, high = torch.tensor([[0.5], [1.5]]), torch.tensor([[1.5], [4.5]])  # logarithmic
    figure = draw_ranges(replace(seen, factors=(replace(factor, low=low, high=high),)))
    middle = (START + STOP) / 2
    for axes, ends in ((figure.axes[1], (START, middle)), (figure.axes[4], (middle, STOP))):
        (thick,) = [line for line in axes.lines if line.get_color() == BLUE]
        assert np.asarray(thick.get_xdata()) == pytest.approx(ends)


def test_each_parameter_has_its_own_range() -> None:
    seen = looked_at(T.Translate(max_shift=0.5), images=photos(1))
    (factor,) = seen.factors
    low, high = torch.tensor([[-0.5, 0.1]]), torch.tensor([[-0.1, 0.4]])
    figure = draw_ranges(replace(seen, factors=(replace(factor, low=low, high=high),)))
    right, down = ([t.get_text() for t in axes.texts][1] for axes in figure.axes[1:3])
    assert (right, down) == ("−0.5 to −0.1", "+0.1 to +0.4")


def test_boxes_are_left_out() -> None:
    figure = draw_ranges(looked_at(T.Crop(), T.Blur()))
    assert "crop" not in [text.get_text() for text in figure.texts]


def test_what_cannot_be_drawn_is_refused() -> None:
    seen = looked_at(T.Scale())
    with pytest.raises(ArgumentError, match="with ranges or choices: got crop"):
        draw_ranges(looked_at(T.Crop()))
    with pytest.raises(ArgumentError, match="`n_samples` must be at least 1: got 0"):
        draw_ranges(seen, n_samples=0)
    many = replace(seen, factors=seen.factors * 12)
    with pytest.raises(ArgumentError, match="fewer parameters to be drawn side by side: got 12"):
        draw_ranges(many)
