"""Axes of charts: quiet looks, log scales in plain numbers, and names at the ends of lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from instaaug.report.theme import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

__all__ = [
    "GRAY",
    "NamedLine",
    "log_ticks",
    "quiet",
    "set_log_ticks",
    "spread_apart",
    "write_names",
]

GRAY = "#616e7c"
"""For what is drawn but is not the point; darker than ``MUTED``, so that text can be read."""

LEADS = (("1",), ("1", "2", "5"), ("1", "1.5", "2", "3", "4", "5", "6", "7", "8", "9"))
FEW_TICKS, MANY_TICKS = 4, 8

NAME_FONT = 8.5  # points, like all that follows
LEADING = 11.5  # from line to line of names
NAME_ROOM = 7.0  # between a point and its name
MARKER = 5.0  # radius of one, in pixels
BETWEEN = 24  # steps at which a line is tested for being hidden
NEAR_EDGE = 0.9  # share of the width of the axes
DISTANCES = (1.0, 2.0, 3.2)  # of a name from its point, in rooms; far ones only if they hide less
DETOUR = 4  # how many hidden steps a farther place is worth
SIDES = (
    (1, 0, "left", "center"), (0, 1, "center", "bottom"), (0, -1, "center", "top"),
    (1, 1, "left", "bottom"), (1, -1, "left", "top"), (-1, 1, "right", "bottom"),
    (-1, -1, "right", "top"), (-1, 0, "right", "center"),
)  # fmt: skip


Side = tuple[int, int, str, str]


def quiet(axes: "Axes", *, grid: Literal["x", "y", "both"] = "y") -> None:
    """No frame, faint grid, everything in ink."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color=MUTED, labelcolor=INK)
    axes.grid(axis=grid, color=MUTED, alpha=0.35, linewidth=0.6)
    axes.set_axisbelow(True)


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: as many as can be read on a log scale.

    Arguments:
        low: Smallest value that is shown.
        high: Largest.

    Example:
        >>> log_ticks(0.04, 3.0), log_ticks(1e-4, 40.0)
        ([0.05, 0.1, 0.2, 0.5, 1.0, 2.0], [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0])
    """
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    for leads in LEADS:
        ticks = [float(f"{lead}e{power}") for power in powers for lead in leads]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= FEW_TICKS:
            break
    return ticks[:: ceil(len(ticks) / MANY_TICKS)] if ticks else [low]


def set_log_ticks(axis: "Axis", ticks: Sequence[float], *, words: Sequence[str] = ()) -> None:
    """Label these places of a log scale, and no others.

    Arguments:
        axis: On a log scale.
        ticks: Where.
        words: What to write; the plain numbers if absent.
    """
    axis.set_ticks(ticks, words or [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


@dataclass(frozen=True)
class NamedLine:
    """A line on the axes, and what to write at its end.

    Arguments:
        name: What it is called.
        x: Horizontal coordinates of its points, from left to right.
        y: Vertical coordinates of its points.
        color: Of the line and its name.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    color: str


def write_names(
    canvas: "Figure",
    axes: "Axes",
    lines: Sequence[NamedLine],
    *,
    others: Sequence[tuple[Sequence[float], Sequence[float]]] = (),
) -> None:
    """Write each name at the end of its line.

    Lines that reach the right edge have theirs beside the axes, moved apart where they would
    touch. Other names stand where they hide least. The layout is settled by this and stays.

    Arguments:
        canvas: The figure.
        axes: With all lines drawn and limits set.
        lines: What to name.
        others: Coordinates of further lines that should not be hidden.
    """
    texts = [_name(axes, line) for line in lines]
    outside = [_is_near_edge(axes, line) for line in lines]
    for text, is_outside in zip(texts, outside, strict=True):
        text.set_in_layout(is_outside)
    at_edge = [text for text, is_outside in zip(texts, outside, strict=True) if is_outside]
    _write_at_edge(canvas, axes, at_edge)
    drawn = [*((line.x, line.y) for line in lines), *others]
    traces = np.concatenate([_trace(axes, x, y) for x, y in drawn])
    markers = np.concatenate([_trace(axes, line.x, line.y, between=1) for line in lines])
    boxes = [text.get_window_extent() for text in at_edge]
    inside = [text for text, is_outside in zip(texts, outside, strict=True) if not is_outside]
    for text in sorted(inside, key=lambda text: -len(text.get_text())):  # the hardest first
        boxes.append(_write_beside_point(axes, text, traces, markers, boxes))


def _name(axes: "Axes", line: NamedLine) -> "Annotation":
    from matplotlib.patheffects import withStroke

    return axes.annotate(
        line.name,
        (line.x[-1], line.y[-1]),
        xytext=(0, 0),
        textcoords="offset points",
        fontsize=NAME_FONT,
        color=line.color,
        va="center",
        annotation_clip=False,
        zorder=6,
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
    )


def _is_near_edge(axes: "Axes", line: NamedLine) -> bool:
    end = axes.transData.transform((line.x[-1], line.y[-1]))
    return bool(axes.transAxes.inverted().transform(end)[0] > NEAR_EDGE)


def spread_apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Values next to the wanted ones, in least squares, with at least ``gap`` between any two.

    Example:
        >>> spread_apart([0.0, 10.0, 10.0], 4.0)
        [0.0, 8.0, 12.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[tuple[float, int]] = []  # means of neighbors that touch, and how many they are
    for rank, i in enumerate(order):
        mean, count = wanted[i] - rank * gap, 1
        while groups and groups[-1][0] > mean:
            other, members = groups.pop()
            mean = (mean * count + other * members) / (count + members)
            count += members
        groups.append((mean, count))
    means = [mean for mean, count in groups for _ in range(count)]
    places = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        places[i] = means[rank] + rank * gap
    return places


def _write_at_edge(canvas: "Figure", axes: "Axes", texts: Sequence["Annotation"]) -> None:
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    for text in texts:  # roughly, for the layout to leave room
        text.set(x=1.012, y=text.xy[1])
        text.set_anncoords(("axes fraction", "data"))
    if not isinstance(canvas.get_layout_engine(), PlaceHolderLayoutEngine):  # settled by none yet
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")
    points = canvas.dpi / 72
    ends = [axes.transData.transform(text.xy) for text in texts]
    frame = axes.get_window_extent()
    heights = spread_apart([float(y) for _, y in ends], LEADING * points)
    heights = _push_within(heights, LEADING * points, frame.y0, frame.y1)
    back = axes.transData.inverted()
    for text, (x, y), height in zip(texts, ends, heights, strict=True):
        text.set_y(float(back.transform((x, height))[1]))
        if abs(height - y) > 0.3 * LEADING * points:
            _draw_leader(axes, text, (x, y), height)


def _push_within(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Push what is too high down, then what is too low up, and keep the gaps."""
    held = list(places)
    order = sorted(range(len(held)), key=lambda i: held[i])
    for rank, i in enumerate(reversed(order)):
        held[i] = min(held[i], high - rank * gap)
    for rank, i in enumerate(order):
        held[i] = max(held[i], low + rank * gap)
    return held


def _draw_leader(
    axes: "Axes", text: "Annotation", end: tuple[float, float], height: float
) -> None:
    """A thin line from the end of a line to its name."""
    edge = axes.get_window_extent().x1
    back = axes.transData.inverted()
    start = (end[0] + (edge - end[0]) * 0.35, end[1])
    (x0, y0), (x1, y1) = back.transform([start, (edge, height)])
    axes.plot([x0, x1], [y0, y1], color=text.get_color(), lw=0.7, clip_on=False)


def _write_beside_point(
    axes: "Axes", text: "Annotation", traces: Any, markers: Any, boxes: Sequence["Bbox"]
) -> "Bbox":
    frame = axes.get_window_extent()

    def cost(spot: tuple[float, Side]) -> float:
        box = _move_name(text, *spot)
        hidden = _n_inside(traces, box) + 3 * DETOUR * _n_inside(markers, box.padded(MARKER))
        touched = sum(box.overlaps(other) for other in boxes)
        outside = not (frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1))
        return hidden + DETOUR * spot[0] + 100 * touched + 1000 * outside

    return _move_name(text, *min(product(DISTANCES, SIDES), key=cost))


def _move_name(text: "Annotation", distance: float, side: Side) -> "Bbox":
    """Where a name is after it has moved to one side of its point."""
    right, up, ha, va = side
    step = NAME_ROOM * distance * (0.7 if right and up else 1.0)
    text.set(x=step * right, y=step * up, ha=ha, va=va)
    return text.get_window_extent()


def _trace(axes: "Axes", x: Sequence[float], y: Sequence[float], *, between: int = BETWEEN) -> Any:
    """Points along a line, in pixels."""
    corners = axes.transData.transform(np.column_stack([x, y]))
    stops = np.linspace(0, len(corners) - 1, between * len(corners))
    index = np.arange(len(corners))
    return np.column_stack([np.interp(stops, index, corners[:, k]) for k in (0, 1)])


def _n_inside(points: Any, box: "Bbox") -> int:
    x, y = points.T
    inside = (x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)
    return int(inside.sum())
