"""Accuracy against a fixed λ, beside the λ that tunes itself: the paper's ablation of tuning."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import (
    GRAY,
    Level,
    draw_levels,
    log_ticks,
    quiet,
    seeds_in_words,
    set_log_ticks,
)
from instaaug.report.charts.end_labels import NamedLine, write_names
from instaaug.report.charts.over_seeds import checked_percents
from instaaug.report.theme import BLUE, INK, MUTED, RED, figure
from instaaug.stats import mean_and_standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["WeightPoint", "draw_weight_sweep"]

WIDTH, HEIGHT = 6.6, 4.0
MARGIN, SHARE = 1.25, 0.03  # factor between the last point and the edge; of all decades
Number = float | int


@dataclass(frozen=True)
class WeightPoint:
    """What one fixed λ reaches.

    Arguments:
        weight: λ, 0 or more.
        scores: Accuracy in percent, one per seed.
    """

    weight: Number
    scores: Sequence[Number]

    def __post_init__(self) -> None:
        if not isfinite(self.weight) or self.weight < 0:
            raise ArgumentError(f"`weight` must be finite and 0 or more: got {self.weight}.")
        object.__setattr__(self, "weight", float(self.weight))
        object.__setattr__(self, "scores", checked_percents("scores", self.scores))


def draw_weight_sweep(
    points: Sequence[WeightPoint],
    *,
    tuned: Sequence[Number] | None = None,
    none: Sequence[Number] | None = None,
) -> "Figure":
    """Draw accuracy against fixed λ on a log scale, and the tuned λ as a level.

    Small dots are single seeds, large ones their mean, bars and bands one standard error. A λ of
    0, which a log scale has no place for, stands apart at the left.

    Arguments:
        points: One per λ, in any order.
        tuned: Accuracies in percent with the λ that tunes itself, one per seed.
        none: Accuracies without augmentation, likewise.

    Raises:
        ArgumentError: If there is nothing to draw, or a λ comes twice.

    Example:
        >>> sweep = [WeightPoint(0.1, [60.1]), WeightPoint(0.2, [64.5]), WeightPoint(1.0, [58.0])]
        >>> drawing = draw_weight_sweep(sweep, tuned=[66.0])
        >>> [text.get_text() for text in drawing.axes[0].texts]
        ['fixed λ, at best 64.5', 'tuned λ 66.0']
    """
    points = sorted(points, key=lambda point: point.weight)
    weights = [float(point.weight) for point in points]
    if not points or len(set(weights)) < len(weights):
        raise ArgumentError(
            f"`points` must hold each λ once, and at least one: got {weights}. Give the seeds of "
            "a λ as one point."
        )
    levels = _levels(tuned, none)
    with figure(WIDTH, HEIGHT) as canvas:
        axes = canvas.add_subplot()
        places = _places(weights)
        _dress(axes, weights, places)
        curve = _draw_points(axes, points, places)
        counts = [len(p.scores) for p in points] + [len(level.scores) for level in levels]
        axes.set_ylabel(f"accuracy (%){seeds_in_words(counts)}", color=INK)
        axes.margins(y=0.1)
        names = [curve, *draw_levels(axes, levels)]
        write_names(canvas, axes, names)
    return canvas


def _levels(tuned: Sequence[Number] | None, none: Sequence[Number] | None) -> list[Level]:
    levels = []
    if tuned is not None:
        levels.append(Level("tuned λ", checked_percents("tuned", tuned), RED, "-"))
    if none is not None:
        levels.append(Level("no augmentation", checked_percents("none", none)))
    return levels


def _places(weights: Sequence[float]) -> list[float]:
    """Where to draw each λ: at itself, but for 0, which has a place of its own at the left."""
    positive = [weight for weight in weights if weight] or [1.0]
    apart = max(3.0, (positive[-1] / positive[0]) ** 0.15)
    return [weight or positive[0] / apart for weight in weights]


def _draw_points(
    axes: "Axes", points: Sequence[WeightPoint], places: Sequence[float]
) -> NamedLine:
    means, errors = zip(
        *(mean_and_standard_error(list(map(float, p.scores))) for p in points), strict=True
    )
    start = 1 if points[0].weight == 0 and len(points) > 1 else 0
    axes.plot(places[start:], means[start:], color=BLUE, lw=2, zorder=3)
    for place, mean, error, point in zip(places, means, errors, points, strict=True):
        if len(point.scores) > 1:
            seeds = len(point.scores)
            axes.scatter([place] * seeds, point.scores, s=9, color=GRAY, alpha=0.6, lw=0, zorder=4)
            axes.vlines(place, mean - error, mean + error, color=BLUE, lw=1.6, zorder=4)
    axes.scatter(places, means, s=34, color=BLUE, edgecolors="white", linewidths=0.8, zorder=5)
    name = f"fixed λ, at best {max(means):.1f}"
    return NamedLine(name, places[start:], means[start:], BLUE)


def _dress(axes: "Axes", weights: Sequence[float], places: Sequence[float]) -> None:
    quiet(axes)
    axes.set_xscale("log")
    margin = max(MARGIN, (places[-1] / places[0]) ** SHARE)
    axes.set_xlim(places[0] / margin, places[-1] * margin)
    axes.set_xlabel("fixed weight of the entropy, λ (log scale)", color=INK)
    positive = [weight for weight in weights if weight]
    ticks = log_ticks(positive[0] / margin, positive[-1] * margin) if positive else []
    words = [f"{tick:g}" for tick in ticks]
    if len(positive) < len(weights):  # a λ of 0
        ticks, words = [places[0], *ticks], ["0", *words]
        if positive:
            cut = (places[0] * places[1]) ** 0.5
            axes.axvline(cut, color=MUTED, lw=1, ls=(0, (1, 3)), zorder=1)
    set_log_ticks(axes.xaxis, ticks, words=words)
