"""What the charts of numbers share: quiet axes, log scales in plain numbers, and levels."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Literal

from instaaug.report.charts.end_labels import NamedLine
from instaaug.report.theme import INK, MUTED
from instaaug.stats import mean_and_standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "GRAY",
    "Level",
    "draw_levels",
    "log_ticks",
    "quiet",
    "seeds_in_words",
    "set_log_ticks",
    "width_beside",
]

GRAY = "#616e7c"
"""For what is drawn but is not the point; darker than ``MUTED``, so that text can be read."""

LEADS = (("1",), ("1", "2", "5"), ("1", "1.5", "2", "3", "4", "5", "6", "7", "8", "9"))
FEW_TICKS, MANY_TICKS = 4, 8
LETTER = 0.062  # inches
END = 0.985  # where the name of a level takes hold, as a share of the width


@dataclass(frozen=True)
class Level:
    """A score that does not depend on x: a horizontal line with its name.

    Arguments:
        name: What has this score.
        scores: In percent, one per seed.
        color: Of line and name.
        dashes: Of the line.
    """

    name: str
    scores: tuple[float, ...]
    color: str = GRAY
    dashes: str = "--"


def draw_levels(axes: "Axes", levels: Sequence[Level]) -> list[NamedLine]:
    """Draw a line per level, with a band of one standard error; what to name is returned.

    Arguments:
        axes: With its limits in x set.
        levels: What to draw.
    """
    named = []
    for level in levels:
        mean, error = mean_and_standard_error(level.scores)
        if error:
            axes.axhspan(mean - error, mean + error, color=level.color, alpha=0.15, lw=0, zorder=1)
        axes.axhline(mean, color=level.color, ls=level.dashes, lw=1.5, zorder=2)
        edge = axes.transAxes.transform((END, 0.0))
        x = float(axes.transData.inverted().transform(edge)[0])
        named.append(NamedLine(f"{level.name} {mean:.1f}", [x], [mean], level.color))
    return named


def width_beside(names: Iterable[str], *, width: float, room: int = 24) -> float:
    """The width of a figure with names at its right: more than ``width`` if they are long.

    Arguments:
        names: What will be written beside the axes.
        width: In inches, for usual names.
        room: How many letters these may have.
    """
    return width + LETTER * max(0, max(map(len, names), default=0) - room)


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


def seeds_in_words(counts: Sequence[int]) -> str:
    """What an error bar stands for, for the label of an axis.

    Arguments:
        counts: Numbers of seeds of everything that is drawn.

    Example:
        >>> seeds_in_words([3, 3]), seeds_in_words([1, 1]), seeds_in_words([1, 5])
        (', mean ± s.e. of 3 seeds', '', ', mean ± s.e. of 1 to 5 seeds')
    """
    fewest, most = min(counts), max(counts)
    if most == 1:
        return ""
    return f", mean ± s.e. of {most if fewest == most else f'{fewest} to {most}'} seeds"
