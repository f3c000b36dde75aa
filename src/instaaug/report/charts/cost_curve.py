"""Accuracy against views per image, or another cost: what is bought, and at what price."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import NamedLine, write_names
from instaaug.report.theme import BLUE, GREEN, INK, MUTED, RED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_cost_curve"]

WIDTH, HEIGHT = 6.6, 4.4
COLORS = (BLUE, RED, GREEN, "#8a4f8a", "#a67c00", INK, "#75808c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":")
TICKS = (1, 2, 4, 10, 30, 100, 300, 1000)
MOST_CURVES = len(COLORS) * len(LINES)

Number = float | int
Point = Sequence[Number]


def draw_cost_curve(
    curves: Mapping[str, Sequence[Point]],
    *,
    across: str = "views per image",
    ticks: Sequence[int] = TICKS,
) -> "Figure":
    """Draw accuracy in percent against views per image, or another cost, one line per method.

    Names stand at the ends of the lines; the first method has the strongest line. Colors, markers
    and dashes differ, so that a print in gray can be read. Where the mean number of views is not
    whole, as with early stopping, markers are hollow. A single point has no line.

    Arguments:
        curves: By method: points (views, accuracy) or (views, accuracy, low, high), the accuracy
            and the ends of its confidence interval in percent.
        across: What the horizontal axis counts.
        ticks: Where it has numbers.

    Raises:
        ArgumentError: If a point cannot be drawn.

    Example:
        >>> drawing = draw_cost_curve(
        ...     {
        ...         "uniform grid": [(1, 59.0), (4, 64.9), (10, 68.5)],
        ...         "learned": [(4, 66.8, 64.0, 69.0), (10, 69.7, 67.0, 72.0)],
        ...     }
        ... )
        >>> [text.get_text() for text in drawing.axes[0].texts]
        ['uniform grid', 'learned']
    """
    if not 1 <= len(curves) <= MOST_CURVES:
        raise ArgumentError(
            f"`curves` must hold 1 to {MOST_CURVES} methods: got {len(curves)}. Draw several "
            "figures."
        )
    lines = [_Curve.of(name, points, i) for i, (name, points) in enumerate(curves.items())]
    with figure(WIDTH, HEIGHT) as canvas:
        axes = canvas.add_subplot()
        for line in lines:
            _draw_line(axes, line)
        _dress(axes, lines, across, ticks)
        names = [NamedLine(c.name, c.views, c.accuracy, c.color) for c in lines]
        bars = [(c.views * 2, c.low + c.high) for c in lines if len(c.views) == 1]
        write_names(canvas, axes, names, others=bars)
    return canvas


@dataclass(frozen=True)
class _Curve:
    """One method, checked, its points in the order of their cost."""

    name: str
    views: list[float]
    accuracy: list[float]
    low: list[float]
    high: list[float]
    color: str
    marker: str
    dashes: str
    weight: float

    @classmethod
    def of(cls, name: str, points: Sequence[Point], index: int) -> "_Curve":
        """The curve that is drawn as number ``index``."""
        rows = sorted(_check_point(name, point) for point in points)
        if not rows:
            raise ArgumentError(f"`curves` must have a point per method: got none for {name!r}.")
        views, accuracy, low, high = (list(column) for column in zip(*rows, strict=True))
        repeats, k = divmod(index, len(COLORS))
        return cls(
            name,
            views,
            accuracy,
            low,
            high,
            color=COLORS[k],
            marker=MARKERS[(k + 3 * repeats) % len(MARKERS)],
            dashes=LINES[repeats],
            weight=1.7 if index else 2.6,
        )

    @property
    def has_band(self) -> bool:
        return any(high > low for low, high in zip(self.low, self.high, strict=True))


def _check_point(name: str, point: Point) -> tuple[float, float, float, float]:
    if len(point) not in (2, 4) or not all(isfinite(value) for value in point):
        raise ArgumentError(
            "`curves` must hold points (views, accuracy) or (views, accuracy, low, high), all "
            f"finite: got {tuple(point)} for {name!r}."
        )
    views, accuracy, low, high = (*point, point[1], point[1])[:4] if len(point) == 2 else point
    if views < 1 or not 0 <= low <= accuracy <= high <= 100:
        raise ArgumentError(
            "`curves` must hold points with views ≥ 1 and 0 ≤ low ≤ accuracy ≤ high ≤ 100 "
            f"percent: got {tuple(point)} for {name!r}. Multiply shares by 100."
        )
    return float(views), float(accuracy), float(low), float(high)


def _draw_line(axes: "Axes", line: _Curve) -> None:
    if line.has_band and len(line.views) > 1:
        axes.fill_between(
            line.views, line.low, line.high, color=line.color, alpha=0.13, linewidth=0
        )
    elif line.has_band:
        axes.vlines(line.views, line.low, line.high, color=line.color, linewidth=1)
    axes.plot(
        line.views, line.accuracy, color=line.color, lw=line.weight, ls=line.dashes, zorder=3
    )
    axes.scatter(
        line.views,
        line.accuracy,
        s=30,
        marker=line.marker,
        facecolors=["white" if views % 1 else line.color for views in line.views],
        edgecolors=line.color,
        linewidths=1.4,
        zorder=4,
    )


def _dress(axes: "Axes", lines: Sequence[_Curve], across: str, ticks: Sequence[int]) -> None:
    most = max(line.views[-1] for line in lines)
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.88, max(most, 2) * 1.13)
    shown = [tick for tick in ticks if tick <= max(most, 2)]
    axes.set_xticks(shown, [str(tick) for tick in shown])
    axes.set_xticks([], minor=True)
    means = any(views % 1 for line in lines for views in line.views)
    note = "hollow: mean, with early stopping" if means else "log scale"
    axes.set_xlabel(f"{across} ({note})", color=INK)
    axes.set_ylabel("accuracy (%)", color=INK)
    axes.margins(y=0.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(color=MUTED, labelcolor=INK)
    axes.grid(axis="y", color=MUTED, alpha=0.35, linewidth=0.6)
    axes.set_axisbelow(True)
