"""Accuracy against the entropy band: every band is a bar over its own interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import Level, draw_levels, quiet, seeds_in_words, width_beside
from instaaug.report.charts.end_labels import NamedLine, write_names
from instaaug.report.charts.over_seeds import checked_percents
from instaaug.report.theme import BLUE, INK, figure
from instaaug.stats import mean_and_standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BandBar", "draw_band_sweep"]

WIDTH, HEIGHT = 6.6, 4.6
BAR, BEST_BAR, CAP = 2.2, 4.5, 7.0  # points
SHADES = ("#67737f", "#8f9ba8", "#b3bdc8")  # from the narrowest bands to the widest
DASHES = ("--", ":", "-.")
Number = float | int


@dataclass(frozen=True)
class BandBar:
    """What one entropy band reaches.

    Arguments:
        low: H_min in nats.
        high: H_max in nats.
        scores: Accuracy in percent, one per seed.
    """

    low: Number
    high: Number
    scores: Sequence[Number]

    def __post_init__(self) -> None:
        if not (isfinite(self.low) and isfinite(self.high) and self.low <= self.high):
            raise ArgumentError(
                f"`low` and `high` must be finite with low ≤ high: got {self.low} and "
                f"{self.high} nats."
            )
        object.__setattr__(self, "scores", checked_percents("scores", self.scores))

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return mean_and_standard_error([float(score) for score in self.scores])[0]

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return mean_and_standard_error([float(score) for score in self.scores])[1]


def draw_band_sweep(
    bars: Sequence[BandBar], *, references: Mapping[str, Sequence[Number]] | None = None
) -> "Figure":
    """Draw every band as a bar from H_min to H_max, as high as its accuracy.

    The best one is thick, blue and labeled; of the others, narrow bands are darker than wide ones.
    Whiskers are one standard error. A band without width is a diamond.

    Arguments:
        bars: One per band.
        references: By name: accuracies in percent of other methods, one per seed; levels.

    Raises:
        ArgumentError: If there is nothing to draw, or a band comes twice.

    Example:
        >>> drawing = draw_band_sweep(
        ...     [BandBar(2.0, 3.0, [65.3]), BandBar(3.0, 4.0, [65.8])],
        ...     references={"random crops": [64.0]},
        ... )
        >>> [text.get_text() for text in drawing.axes[0].texts]
        ['3 to 4 nats: 65.8', 'random crops 64.0']
    """
    bands = [(bar.low, bar.high) for bar in bars]
    if not bars or len(set(bands)) < len(bands):
        raise ArgumentError(
            f"`bars` must hold each band once, and at least one: got {bands}. Give the seeds of a "
            "band as one bar."
        )
    levels = [
        Level(name, checked_percents("references", scores), dashes=DASHES[i % len(DASHES)])
        for i, (name, scores) in enumerate((references or {}).items())
    ]
    best = max(bars, key=lambda bar: bar.mean)
    width = width_beside((level.name for level in levels), width=WIDTH)
    with figure(width, HEIGHT) as canvas:
        axes = canvas.add_subplot()
        _dress(axes, bars)
        for bar in sorted(bars, key=lambda bar: bar.low - bar.high):  # narrow ones on top
            _draw_bar(axes, bar, BLUE if bar is best else _shade(bar, bars), is_best=bar is best)
        counts = [len(bar.scores) for bar in bars] + [len(level.scores) for level in levels]
        axes.set_ylabel(f"accuracy (%){seeds_in_words(counts)}", color=INK)
        axes.margins(y=0.1)
        named = [_named(best), *draw_levels(axes, levels)]
        others = [trace for bar in bars for trace in _traces(bar)]
        write_names(canvas, axes, named, others=others)
    return canvas


def _shade(bar: BandBar, bars: Sequence[BandBar]) -> str:
    """By the rank of its width, so that a wide band can be told from narrow ones in a row."""
    widths = sorted({round(other.high - other.low, 9) for other in bars})
    return SHADES[min(widths.index(round(bar.high - bar.low, 9)), len(SHADES) - 1)]


def _draw_bar(axes: "Axes", bar: BandBar, color: str, *, is_best: bool) -> None:
    from matplotlib.patheffects import Normal, withStroke

    width, order = (BEST_BAR, 5) if is_best else (BAR, 4)
    low, middle, high = bar.low, (bar.low + bar.high) / 2, bar.high
    if low == high:
        axes.scatter([middle], [bar.mean], s=36, marker="D", color=color, zorder=order)
    else:
        halo = [withStroke(linewidth=width + 1.2, foreground="white"), Normal()]
        style: dict[str, Any] = {"color": color, "zorder": order}
        axes.plot(
            [low, high],
            [bar.mean] * 2,
            lw=width,
            solid_capstyle="butt",
            path_effects=halo,
            **style,
        )
        axes.scatter([low, high], [bar.mean] * 2, s=CAP**2, marker="|", lw=BAR / 2, **style)
    if bar.error:
        ends = bar.mean - bar.error, bar.mean + bar.error
        axes.vlines(middle, *ends, color=color, lw=1.2, zorder=order)


def _named(bar: BandBar) -> NamedLine:
    middle = float(bar.low + bar.high) / 2
    width = f"{bar.low:g} to {bar.high:g}" if bar.low < bar.high else f"{bar.low:g}"
    words = f"{width} nats: {bar.mean:.1f}".replace("-", "−")
    return NamedLine(words, [middle], [bar.mean + bar.error], BLUE)


def _traces(bar: BandBar) -> list[tuple[list[float], list[float]]]:
    """The lines of a bar, which no name may hide."""
    low, high = float(bar.low), float(bar.high)
    middle, mean, error = (low + high) / 2, bar.mean, bar.error
    return [([low, high], [mean, mean]), ([middle, middle], [mean - error, mean + error])]


def _dress(axes: "Axes", bars: Sequence[BandBar]) -> None:
    quiet(axes)
    low, high = min(bar.low for bar in bars), max(bar.high for bar in bars)
    margin = 0.06 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)
    axes.set_xlabel("entropy band, from H$_{min}$ to H$_{max}$ (nats)", color=INK)
