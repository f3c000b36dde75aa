"""A circular parameter as a dial: zero at the top, counterclockwise is positive."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instaaug.report.theme import BLUE, INK
from instaaug.report.units import unit_of
from instaaug.spaces import Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DIAL_REACH", "PALE", "Span", "draw_arc", "draw_dial", "draw_dots", "span_words"]

PALE = "#dbe2e9"
DIAL_REACH = 1.12  # of the panel, where the dial has a radius of 1
BAND, STROKE = 0.26, 0.14
DOTS = 0.66
SHORTEST = math.radians(4)  # so that an arc without extent is still seen

Span = tuple[float, float]


def draw_dial(
    axes: "Axes", parameter: Parameter, learned: Span | None, drawn: Sequence[float]
) -> None:
    """The admissible range as a pale band, the learned one as a strong arc.

    Dots were drawn; the tick is the value that changes nothing; the numbers are in degrees.

    Arguments:
        axes: Where to draw.
        parameter: Which one; it has a period.
        learned: Ends of the learned range, if there is one.
        drawn: Values that were drawn.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().add_subplot()
        >>> angle = Parameter("angle", -3.0, 3.0, period=2 * math.pi)
        >>> draw_dial(axes, angle, (-math.pi / 4, math.pi / 2), [0.1, 1.5])
        >>> axes.texts[0].get_text().split()
        ['−45°', 'to', '+90°']
    """
    assert parameter.period is not None  # noqa: S101
    turn = 2 * math.pi / parameter.period
    axes.set(xlim=(-DIAL_REACH, DIAL_REACH), ylim=(-DIAL_REACH, DIAL_REACH), aspect="equal")
    draw_arc(axes, (parameter.low * turn, parameter.high * turn), 1.0, BAND, facecolor=PALE)
    if learned is not None:
        arc = (learned[0] * turn, learned[1] * turn)
        draw_arc(axes, arc, 1.0 - (BAND - STROKE) / 2, STROKE, facecolor=BLUE)
    draw_dots(axes, [value * turn for value in drawn], DOTS)
    zero = parameter.identity * turn
    axes.plot(*_line(zero, 1 - BAND - 0.06, 1.06), color=INK, lw=1.6, solid_capstyle="butt")
    words = span_words(parameter, learned)
    axes.text(0, 0, words, ha="center", va="center", fontsize=6.5, linespacing=0.95)


def span_words(parameter: Parameter, learned: Span | None) -> str:
    """The ends of a learned range in people's units, in three lines; nothing if there is none."""
    if learned is None:
        return ""
    low, high = (unit_of(parameter).write(end) for end in learned)
    return f"{low}\nto\n{high}"


def draw_arc(axes: "Axes", ends: Span, radius: float, thickness: float, **style: Any) -> None:
    """A piece of a ring, in radians counterclockwise from the top; ``radius`` is its outer one."""
    from matplotlib.patches import Wedge

    low, high = ends
    if high - low < SHORTEST:
        low, high = (low + high - SHORTEST) / 2, (low + high + SHORTEST) / 2
    start, stop = math.degrees(low) + 90, math.degrees(min(high, low + 2 * math.pi)) + 90
    style = {"edgecolor": "none", "clip_on": False, **style}
    axes.add_patch(Wedge((0, 0), radius, start, stop, width=thickness, **style))


def draw_dots(axes: "Axes", angles: Sequence[float], radius: float) -> None:
    """Drawn values, as dots on a circle."""
    places = [_point(angle, radius) for angle in angles]
    x, y = zip(*places, strict=True) if places else ((), ())
    axes.scatter(x, y, s=5, color=INK, alpha=0.6, linewidths=0)


def _point(angle: float, radius: float) -> tuple[float, float]:
    return -radius * math.sin(angle), radius * math.cos(angle)


def _line(angle: float, start: float, stop: float) -> tuple[list[float], list[float]]:
    (x0, y0), (x1, y1) = _point(angle, start), _point(angle, stop)
    return [x0, x1], [y0, y1]
