"""Ranges of parameters as dials and segments, choices as bars; and a figure of them all."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.errors import ArgumentError
from instaaug.report.pictures.rows import ColumnGroup, InputRows, PanelColumn, sample_column
from instaaug.report.pictures.sheet import shorten
from instaaug.report.theme import BLUE, INK, MUTED
from instaaug.report.units import choice_names, humanize, percent, unit_of
from instaaug.spaces import Choices, Interval, Parameter

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DIAL_REACH",
    "PALE",
    "Scalar",
    "Segment",
    "Span",
    "choice_column",
    "describe_span",
    "dial_column",
    "draw_arc",
    "draw_choices",
    "draw_dial",
    "draw_dots",
    "draw_ranges",
    "draw_segments",
    "scalars",
    "segment_columns",
]

PALE = "#dbe2e9"
DIAL_REACH = 1.12  # of the panel, where the dial has a radius of 1
RING, ARC = 0.26, 0.14
DOT_RADIUS = 0.66
SHORTEST_ARC = math.radians(4)  # so that an arc without extent is still seen

Span = tuple[float, float]

START, STOP = 0.2, 0.8  # the segment, as shares of the panel; its limits stand beside it
THICK, THIN = 4.5, 1.6  # points
LABEL_ROOM = 3.0  # pixels between a label and its numbers
SHORTEST_SEGMENT = 0.02  # of the panel, so that a range without extent is still seen
QUIET = "#5f6b78"

MOST_BARS = 5
THICKNESS = 0.34
LEAST_BARS = 3  # bars of few choices are as thick as those of three

MOST_DOTS = 24
MOST_SEGMENTS = 4  # in one panel
LEAST_SEGMENTS = 3  # the panel is divided into as many parts at least
SEGMENTS, BARS = 1.65, 1.2  # widths, in heights of a panel

HIGHEST_TILE, LEAST_TILE = 0.95, 0.75  # inches: rows are low, so that neighbors are close
SEGMENT = 1.9  # width, in heights


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
    draw_arc(axes, (parameter.low * turn, parameter.high * turn), 1.0, RING, facecolor=PALE)
    if learned is not None:
        arc = (learned[0] * turn, learned[1] * turn)
        draw_arc(axes, arc, 1.0 - (RING - ARC) / 2, ARC, facecolor=BLUE)
    draw_dots(axes, [value * turn for value in drawn], DOT_RADIUS)
    zero = parameter.identity * turn
    axes.plot(*_line(zero, 1 - RING - 0.06, 1.06), color=INK, lw=1.6, solid_capstyle="butt")
    words = describe_span(parameter, learned)
    axes.text(0, 0, words, ha="center", va="center", fontsize=6.5, linespacing=0.95)


def describe_span(parameter: Parameter, learned: Span | None) -> str:
    """The ends of a learned range in people's units, in three lines; nothing if there is none."""
    if learned is None:
        return ""
    low, high = (unit_of(parameter).write(end) for end in learned)
    return f"{low}\nto\n{high}"


def draw_arc(axes: "Axes", ends: Span, radius: float, thickness: float, **style: Any) -> None:
    """A piece of a ring, in radians counterclockwise from the top; ``radius`` is its outer one."""
    from matplotlib.patches import Wedge

    low, high = ends
    if high - low < SHORTEST_ARC:
        low, high = (low + high - SHORTEST_ARC) / 2, (low + high + SHORTEST_ARC) / 2
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
        p = self.parameter
        inside = min(max(value, p.low), p.high)
        share = (p.coordinate(inside) - p.coordinate(p.low)) / p.width
        return START + share * (STOP - START)


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
        >>> factor = Parameter("factor", 0.5, 2.0, identity=1.0, multiplicative=True)
        >>> draw_segments(axes, [Segment("brightness", factor, (0.8, 1.25), [0.9])])
        >>> [text.get_text() for text in axes.texts]
        ['brightness', '×0.8 to ×1.25', '×0.5', '×2']
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
        shorten(label, numbers.get_window_extent().x0 - label.get_window_extent().x0 - LABEL_ROOM)
    axes.plot([START, STOP], [y, y], color=PALE, lw=THIN * 2, solid_capstyle="butt")
    for x, end, side in ((START - 0.03, p.low, "right"), (STOP + 0.03, p.high, "left")):
        axes.text(x, y, unit.write(end), fontsize=5.5, color=QUIET, va="center", ha=side)
    if segment.learned is not None:
        low, high = (segment.place(end) for end in segment.learned)
        more = max(SHORTEST_SEGMENT - (high - low), 0.0) / 2
        axes.plot([low - more, high + more], [y, y], color=BLUE, lw=THICK, solid_capstyle="butt")
    zero = segment.place(p.identity)
    axes.plot([zero, zero], [y - 0.16, y + 0.16], color=INK, lw=1.2)
    places = [segment.place(value) for value in segment.drawn]
    axes.scatter(places, [y + 0.26] * len(places), s=4, color=INK, alpha=0.6, linewidths=0)


def draw_choices(
    axes: "Axes", names: Sequence[str], probs: Sequence[float], *, learned: bool = True
) -> None:
    """A bar per choice, its name above and its probability at the end.

    Of many choices, the likeliest are shown, and the sum of the others.

    Arguments:
        axes: Where to draw.
        names: What each choice does.
        probs: Of each choice.
        learned: Whether these are probabilities, or shares of what was drawn.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().add_subplot()
        >>> draw_choices(axes, ["as it is", "mirrored"], [0.75, 0.25])
        >>> [text.get_text() for text in axes.texts]
        ['as it is', '75%', 'mirrored', '25%']
    """
    rows = list(zip(names, probs, strict=True))
    if len(rows) > MOST_BARS:
        rows.sort(key=lambda row: -row[1])
        rest = rows[MOST_BARS - 1 :]
        words = f"{len(rest)} others"
        rows = [*rows[: MOST_BARS - 1], (words, sum(p for _, p in rest))]
    above = max(LEAST_BARS - len(rows), 0) / 2
    color = BLUE if learned else MUTED
    axes.set(xlim=(0, 1), ylim=(len(rows) + above, -above))
    for y, (name, p) in enumerate(rows):
        axes.text(0.02, y + 0.25, name, fontsize=7, color=INK, va="center", parse_math=False)
        axes.text(0.98, y + 0.25, percent(p), fontsize=7, color=INK, va="center", ha="right")
        axes.barh(y + 0.65, 0.96, height=THICKNESS, left=0.02, color=PALE)
        axes.barh(y + 0.65, 0.96 * p, height=THICKNESS, left=0.02, color=color)


@dataclass(frozen=True)
class Scalar:
    """One scalar of θ, for all inputs.

    Arguments:
        label: What to call it.
        parameter: Where it may lie.
        low: Lower end of the range of each input; None where there is no range.
        high: Upper end.
        drawn: What was drawn, a column per input.
    """

    label: str
    parameter: Parameter
    low: Float[Tensor, " batch"] | None
    high: Float[Tensor, " batch"] | None
    drawn: Float[Tensor, "n batch"]

    def span(self, i: int) -> Span | None:
        """The range of an input."""
        if self.low is None or self.high is None:
            return None
        return float(self.low[i]), float(self.high[i])

    def values(self, i: int) -> list[float]:
        """The samples of an input, as many as can be distinguished."""
        return self.drawn[:MOST_DOTS, i].tolist()

    @property
    def is_circular(self) -> bool:
        """Whether it is drawn as a dial."""
        return self.parameter.period is not None


def scalars(factor: ObservedFactor, *, alone: bool = True) -> list[Scalar]:
    """The scalars of a factor on intervals; what is never learned, a seed, is left out.

    Arguments:
        factor: The factor; one of another kind has no scalars.
        alone: Whether the factor's name stands nearby, so that labels need not say it.
    """
    if not isinstance(factor.space, Interval):
        return []
    learned = [(d, p) for d, p in enumerate(factor.space.parameters) if p.learned]
    found = []
    for d, parameter in learned:
        label = parameter.name if alone else factor.name
        if not alone and len(learned) > 1:
            label = f"{factor.name} {parameter.name}"
        low, high = (None if ends is None else ends[:, d] for ends in (factor.low, factor.high))
        found.append(Scalar(humanize(label), parameter, low, high, factor.theta[..., d]))
    return found


def dial_column(scalar: Scalar) -> PanelColumn:
    """A circular scalar."""

    def draw(axes: "Axes", i: int) -> None:
        draw_dial(axes, scalar.parameter, scalar.span(i), scalar.values(i))

    return PanelColumn(scalar.label, 1.0, draw)


def segment_columns(found: Sequence[Scalar]) -> Iterator[PanelColumn]:
    """Scalars with ends, as many to a panel as fit."""
    if not found:
        return
    n_columns = -(-len(found) // MOST_SEGMENTS)
    n_each = -(-len(found) // n_columns)
    for start in range(0, len(found), n_each):
        part = found[start : start + n_each]
        yield PanelColumn("", SEGMENTS, partial(_draw_scalars, part, max(n_each, LEAST_SEGMENTS)))


def _draw_scalars(found: Sequence[Scalar], room_for: int, axes: "Axes", i: int) -> None:
    segments = [Segment(s.label, s.parameter, s.span(i), s.values(i)) for s in found]
    draw_segments(axes, segments, room_for=room_for)


def choice_column(factor: ObservedFactor, choices: Choices) -> PanelColumn:
    """The probabilities of choices, or how often each was drawn."""
    names = choice_names(choices)
    probs = factor.probs
    if probs is None:
        rows = factor.theta.new_tensor(choices.rows)
        probs = (factor.theta[..., None, :] == rows).all(dim=-1).float().mean(dim=0)

    def draw(axes: "Axes", i: int) -> None:
        draw_choices(axes, names, probs[i].tolist(), learned=factor.probs is not None)

    return PanelColumn("drawn" if factor.probs is None else "probability", BARS, draw)


def draw_ranges(
    observed: Observed, *, titles: Sequence[str] | None = None, n_samples: int = 4
) -> "Figure":
    """Show for each input the learned range of every parameter, and samples.

    The thin part of a segment is admissible, the thick part learned; the tick is the value that
    changes nothing; dots were drawn. Circular parameters are dials, choices are bars. Angles are
    in degrees, factors have a "×". Boxes are left out; ``draw_crops`` and ``draw_inputs`` show
    them.

    Arguments:
        observed: At most 12 inputs.
        titles: A line per input.
        n_samples: Samples of each input.

    Raises:
        ArgumentError: If there is no parameter to show, or more than fit.

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.augmentation.observed import observe
        >>> seen = observe(InstaAug([T.Rotation(), T.Scale()]), torch.rand(2, 3, 32, 32))
        >>> [text.get_text() for text in draw_ranges(seen).texts]
        ['input', 'rotation', 'angle', 'scale', 'factor', 'samples', '']
    """
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    pairs = ((factor.name, tuple(_range_columns(factor))) for factor in observed.factors)
    groups = [ColumnGroup(humanize(name), columns) for name, columns in pairs if columns]
    if not groups:
        raise ArgumentError(
            "`observed` must have a factor with ranges or choices: got "
            f"{', '.join(factor.name for factor in observed.factors) or 'none'}. Draw others "
            "with draw_inputs."
        )
    columns = min(n_samples, len(observed.samples))
    samples = sample_column(observed.samples, lines=1, columns=columns)
    groups.append(ColumnGroup("samples", (samples,)))
    rows = InputRows(observed.images, groups, titles, highest=HIGHEST_TILE)
    if rows.tile < LEAST_TILE:
        raise ArgumentError(
            "`observed` must have fewer parameters to be drawn side by side: got "
            f"{sum(len(group.columns) for group in groups) - 1}. Draw some of them: "
            "dataclasses.replace(observed, factors=observed.factors[:3])."
        )
    return rows.draw()


def _range_columns(factor: ObservedFactor) -> Iterator[PanelColumn]:
    if isinstance(factor.space, Choices):
        yield choice_column(factor, factor.space)
    for scalar in scalars(factor):
        if scalar.is_circular:
            yield dial_column(scalar)
        else:
            yield PanelColumn(scalar.label, SEGMENT, partial(_draw_lone_segment, scalar))


def _draw_lone_segment(scalar: Scalar, axes: "Axes", i: int) -> None:
    segment = Segment("", scalar.parameter, scalar.span(i), scalar.values(i))
    draw_segments(axes, [segment], room_for=2)
