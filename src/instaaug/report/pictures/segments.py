"""Parameters with ends as segments: what is admissible, what was learned, what was drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instaaug.report.pictures.dials import PALE, Span
from instaaug.report.pictures.sheet import shorten
from instaaug.report.theme import BLUE, INK
from instaaug.report.units import unit_of
from instaaug.spaces import Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Segment", "draw_segments"]

START, STOP = 0.2, 0.8  # the segment, as shares of the panel; its limits stand beside it
BAR, ADMISSIBLE = 4.5, 1.6  # points
ROOM = 3.0  # pixels between a label and its numbers
SHORTEST = 0.02  # of the panel, so that a range without extent is still seen
QUIET = "#5f6b78"


@dataclass(frozen=True)
class Segment:
    """One scalar of θ for one input.

    Arguments:
        label: What to call it.
        parameter: Which one.
        learned: Ends of the learned range, if there is one.
        drawn: Values that were drawn.
    """

    label: str
    parameter: Parameter
    learned: Span | None
    drawn: Sequence[float]

    def place(self, value: float) -> float:
        """Where a value lies in the panel, from 0 to 1."""
        share = (value - self.parameter.low) / self.parameter.width
        return START + min(max(share, 0.0), 1.0) * (STOP - START)


def draw_segments(axes: "Axes", segments: Sequence[Segment], *, room_for: int = 1) -> None:
    """Segments below one another.

    The thin line is admissible, the thick one learned; the tick is the value that changes
    nothing, dots were drawn.

    Arguments:
        axes: Where to draw.
        segments: From top to bottom.
        room_for: How many the panel is divided into, if it is more than there are; the segments
            then stand in its middle.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().add_subplot()
        >>> factor = Parameter("factor", 0.0, 2.0, identity=1.0)
        >>> draw_segments(axes, [Segment("brightness", factor, (0.5, 1.25), [0.7])])
        >>> [text.get_text() for text in axes.texts]
        ['brightness', '×0.5 to ×1.25', '×0', '×2']
    """
    above = max(room_for - len(segments), 0) / 2
    axes.set(xlim=(0, 1), ylim=(len(segments) + above, -above))
    for row, segment in enumerate(segments):
        _draw_segment(axes, segment, row + 0.62)


def _draw_segment(axes: "Axes", segment: Segment, y: float) -> None:
    p, unit = segment.parameter, unit_of(segment.parameter)
    style: dict[str, Any] = {"fontsize": 6.5, "va": "center", "parse_math": False}
    label = axes.text(0.02, y - 0.36, segment.label, color=INK, **style)
    if segment.learned is not None:
        words = " to ".join(unit.write(end) for end in segment.learned)
        numbers = axes.text(0.98, y - 0.36, words, color=BLUE, ha="right", **style)
        shorten(label, numbers.get_window_extent().x0 - label.get_window_extent().x0 - ROOM)
    axes.plot([START, STOP], [y, y], color=PALE, lw=ADMISSIBLE * 2, solid_capstyle="butt")
    for x, end, side in ((START - 0.03, p.low, "right"), (STOP + 0.03, p.high, "left")):
        axes.text(x, y, unit.write(end), fontsize=5.5, color=QUIET, va="center", ha=side)
    if segment.learned is not None:
        low, high = (segment.place(end) for end in segment.learned)
        more = max(SHORTEST - (high - low), 0.0) / 2
        axes.plot([low - more, high + more], [y, y], color=BLUE, lw=BAR, solid_capstyle="butt")
    zero = segment.place(p.identity)
    axes.plot([zero, zero], [y - 0.16, y + 0.16], color=INK, lw=1.2)
    places = [segment.place(value) for value in segment.drawn]
    axes.scatter(places, [y + 0.26] * len(places), s=4, color=INK, alpha=0.6, linewidths=0)
