"""All charts that the folders of some runs have the numbers for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError
from instaaug.report.charts.band_sweep import draw_band_sweep
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.charts.leaderboard import draw_leaderboard
from instaaug.report.charts.shift_scatter import ShiftPoint, draw_shift_scatter
from instaaug.report.charts.training_curves import draw_training_curves
from instaaug.report.charts.weight_sweep import draw_weight_sweep
from instaaug.report.records.record_files import read_json
from instaaug.report.records.run_record import RunRecord, accuracy_of
from instaaug.report.records.sweeps import (
    band_sweep_bars,
    leaderboard_rows,
    reference_scores,
    tuned_scores,
    weight_sweep_points,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SHIFTED", "NamedFigure", "comparing_figures", "own_figures"]

SHIFTED = "shifted.json"
"""What ``instaaug evaluate RUN OTHER_DATA --json RUN/shifted.json`` leaves for the scatter."""

Bands = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class NamedFigure:
    """A figure with all that is written around it.

    Arguments:
        file: Its name without an ending.
        title: In words.
        words: What to see in it.
        drawing: The figure.
    """

    file: str
    title: str
    words: str
    drawing: "Figure"


def own_figures(record: RunRecord, bands: Bands) -> Iterator[NamedFigure]:
    """The charts of a single run.

    Arguments:
        record: The run.
        bands: By factor, the band of its entropy in nats.
    """
    with suppress(ArgumentError):  # there is nothing finite to draw
        yield NamedFigure(
            "training_curves",
            "Training",
            "Loss, entropy in its band, and the weight λ that keeps it there, by epoch.",
            draw_training_curves(record.history, bands=bands),
        )
    if curves := _cost_curves(record.scores):
        yield NamedFigure(
            "cost_curve",
            "Accuracy and cost",
            "What more views per image gain, with learned views and without.",
            draw_cost_curve(curves),
        )


def _cost_curves(scores: Mapping[str, Any]) -> dict[str, list[tuple[float, ...]]]:
    """Points by method; intervals for learned views alone, or there would be too many."""
    learned = {row["name"] for row in scores.get("comparisons", [])}
    curves: dict[str, list[tuple[float, ...]]] = {}
    for row in scores.get("rows", []):
        names = ("accuracy", "low", "high") if row["name"] in learned else ("accuracy",)
        point = (float(row["views"]), *(100 * float(row[name]) for name in names))
        curves.setdefault(str(row["name"]), []).append(point)
    return curves


def comparing_figures(records: Sequence[RunRecord]) -> Iterator[NamedFigure]:
    """The charts of several runs, as far as they can be compared."""
    makers: tuple[Callable[[Sequence[RunRecord]], NamedFigure | None], ...] = (
        *(_leaderboard, _weight_sweep, _band_sweep, _shift_scatter),
    )
    for make in makers:
        with suppress(ArgumentError):  # they differ in more than can be shown
            drawn = make(records)
            if drawn is not None:
                yield drawn


def _leaderboard(records: Sequence[RunRecord]) -> NamedFigure | None:
    rows = leaderboard_rows(records)
    if len(rows) < 2:
        return None
    scores = [score for record in records if (score := accuracy_of(record)) is not None]
    if len({score.n for score in scores}) > 1:
        return None  # they were scored on different images
    is_share = scores[0].measure == "top1"
    return NamedFigure(
        "leaderboard",
        "Leaderboard",
        "Every run, or group of seeds, the best first"
        + ("; lines are 95 % intervals." if is_share else "."),
        draw_leaderboard(
            rows,
            measure="accuracy (%)" if is_share else scores[0].measure,
            lower_is_better=not is_share,
        ),
    )


def _weight_sweep(records: Sequence[RunRecord]) -> NamedFigure | None:
    points = weight_sweep_points(records)
    if len(points) < 2:
        return None
    return NamedFigure(
        "weight_sweep",
        "Fixed λ",
        "Accuracy with a fixed weight of the entropy, beside the one that tunes itself.",
        draw_weight_sweep(
            points,
            tuned=tuned_scores(records) or None,
            none=reference_scores(records, "none") or None,
        ),
    )


def _band_sweep(records: Sequence[RunRecord]) -> NamedFigure | None:
    bars = band_sweep_bars(records)
    if len(bars) < 2:
        return None
    others = {name: reference_scores(records, name) for name in ("random", "none")}
    return NamedFigure(
        "band_sweep",
        "Entropy bands",
        "Accuracy by the band that the entropy is held in.",
        draw_band_sweep(bars, references={name: s for name, s in others.items() if s}),
    )


def _shift_scatter(records: Sequence[RunRecord]) -> NamedFigure | None:
    points = [point for record in records if (point := _shift_point(record)) is not None]
    if len(points) < 2:
        return None
    has_settings = any(point.settings for point in points)
    return NamedFigure(
        "shift_scatter",
        "In and out of distribution",
        "Accuracy, from images as they are, on those like in training and on others.",
        draw_shift_scatter(points, links=["strength"] if has_settings else []),
    )


def _shift_point(record: RunRecord) -> ShiftPoint | None:
    """Both accuracies of a run: trained under some lights and tested under others, or told so."""
    test = accuracy_of(record, "plain")
    if test is None or test.measure != "top1":
        return None
    inside: float | None = test.value
    outside: float | None = None
    file = record.path / SHIFTED
    if file.is_file():
        shifted = accuracy_of(replace(record, results={"test": read_json(file)}), "plain")
        outside = None if shifted is None else shifted.value
    elif record.config.get("data.options"):
        known = [row["validation/top1"] for row in record.history if "validation/top1" in row]
        inside, outside = known[-1] if known else None, test.value
    if inside is None or outside is None:
        return None
    return ShiftPoint(record.name, 100 * inside, 100 * outside, _settings(record))


def _settings(record: RunRecord) -> dict[str, float]:
    """The strength of random augmentation, which is what one sweeps."""
    if record.config.get("method.name") != "random":
        return {}
    return {"strength": float(record.config.get("method.strength", 1.0))}
