"""Charts of sweeps: accuracy against a fixed λ, and against the entropy band."""

from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import (
    GRAY,
    NamedLine,
    log_ticks,
    quiet,
    set_log_ticks,
    write_names,
)
from instaaug.report.records import Part, RunRecord, read_record
from instaaug.report.run_figures import scored_runs, settings_key
from instaaug.report.theme import BLUE, INK, MUTED, RED, figure, save_figure
from instaaug.stats import mean_and_standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BandBar",
    "Level",
    "WeightPoint",
    "band_sweep_bars",
    "check_percents",
    "describe_seeds",
    "draw_band_sweep",
    "draw_levels",
    "draw_weight_sweep",
    "percent_scores",
    "reference_scores",
    "tuned_scores",
    "weight_sweep_points",
    "width_beside",
]

LETTER = 0.062  # inches
END = 0.985  # where the name of a level takes hold, as a share of the width

Number = float | int

BAND_WIDTH, BAND_HEIGHT = 6.6, 4.6
BAR, BEST_BAR, CAP = 2.2, 4.5, 7.0  # points
SHADES = ("#67737f", "#8f9ba8", "#b3bdc8")  # from the narrowest bands to the widest
DASHES = ("--", ":", "-.")

WEIGHT_WIDTH, WEIGHT_HEIGHT = 6.6, 4.0
MARGIN, SHARE = 1.25, 0.03  # factor between the last point and the edge; of all decades

AUGMENTATION = (
    "method.", "transforms", "entropy.", "crop.", "phi.", "padding_mode", "n_samples",
    "pretrain_epochs", "data.held_out_fraction", "views.",
)  # fmt: skip
"""First letters of settings in which different methods may differ and still be compared."""


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


def describe_seeds(counts: Sequence[int]) -> str:
    """What an error bar stands for, for the label of an axis.

    Arguments:
        counts: Numbers of seeds of everything that is drawn.

    Example:
        >>> describe_seeds([3, 3]), describe_seeds([1, 1]), describe_seeds([1, 5])
        (', mean ± s.e. of 3 seeds', '', ', mean ± s.e. of 1 to 5 seeds')
    """
    fewest, most = min(counts), max(counts)
    if most == 1:
        return ""
    return f", mean ± s.e. of {most if fewest == most else f'{fewest} to {most}'} seeds"


def check_percents(argument: str, scores: Sequence[Number]) -> tuple[float, ...]:
    """Scores in percent, one per seed, or an error that names the argument."""
    if not scores or not all(isfinite(score) and 0 <= score <= 100 for score in scores):
        raise ArgumentError(
            f"`{argument}` must hold a score in [0, 100] percent per seed, at least one: got "
            f"{tuple(scores)}. Multiply shares by 100."
        )
    return tuple(float(score) for score in scores)


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
        object.__setattr__(self, "scores", check_percents("scores", self.scores))

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
        Level(name, check_percents("references", scores), dashes=DASHES[i % len(DASHES)])
        for i, (name, scores) in enumerate((references or {}).items())
    ]
    best = max(bars, key=lambda bar: bar.mean)
    width = width_beside((level.name for level in levels), width=BAND_WIDTH)
    with figure(width, BAND_HEIGHT) as canvas:
        axes = canvas.add_subplot()
        _dress_bands(axes, bars)
        for bar in sorted(bars, key=lambda bar: bar.low - bar.high):  # narrow ones on top
            _draw_bar(axes, bar, BLUE if bar is best else _shade(bar, bars), is_best=bar is best)
        counts = [len(bar.scores) for bar in bars] + [len(level.scores) for level in levels]
        axes.set_ylabel(f"accuracy (%){describe_seeds(counts)}", color=INK)
        axes.margins(y=0.1)
        named = [_name_bar(best), *draw_levels(axes, levels)]
        others = [trace for bar in bars for trace in _bar_traces(bar)]
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


def _name_bar(bar: BandBar) -> NamedLine:
    middle = float(bar.low + bar.high) / 2
    width = f"{bar.low:g} to {bar.high:g}" if bar.low < bar.high else f"{bar.low:g}"
    words = f"{width} nats: {bar.mean:.1f}".replace("-", "−")
    return NamedLine(words, [middle], [bar.mean + bar.error], BLUE)


def _bar_traces(bar: BandBar) -> list[tuple[list[float], list[float]]]:
    """The lines of a bar, which no name may hide."""
    low, high = float(bar.low), float(bar.high)
    middle, mean, error = (low + high) / 2, bar.mean, bar.error
    return [([low, high], [mean, mean]), ([middle, middle], [mean - error, mean + error])]


def _dress_bands(axes: "Axes", bars: Sequence[BandBar]) -> None:
    quiet(axes)
    low, high = min(bar.low for bar in bars), max(bar.high for bar in bars)
    margin = 0.06 * (high - low) or 0.5
    axes.set_xlim(low - margin, high + margin)
    axes.set_xlabel("window of the entropy (nats)", color=INK)


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
        object.__setattr__(self, "scores", check_percents("scores", self.scores))


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
        none: Accuracies in percent without augmentation, one per seed.

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
    levels = _weight_levels(tuned, none)
    with figure(WEIGHT_WIDTH, WEIGHT_HEIGHT) as canvas:
        axes = canvas.add_subplot()
        places = _places(weights)
        _dress_weights(axes, weights, places)
        curve = _draw_points(axes, points, places)
        counts = [len(p.scores) for p in points] + [len(level.scores) for level in levels]
        axes.set_ylabel(f"accuracy (%){describe_seeds(counts)}", color=INK)
        axes.margins(y=0.1)
        names = [curve, *draw_levels(axes, levels)]
        write_names(canvas, axes, names)
    return canvas


def _weight_levels(tuned: Sequence[Number] | None, none: Sequence[Number] | None) -> list[Level]:
    levels = []
    if tuned is not None:
        levels.append(Level("tuned λ", check_percents("tuned", tuned), RED, "-"))
    if none is not None:
        levels.append(Level("no augmentation", check_percents("none", none)))
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


def _dress_weights(axes: "Axes", weights: Sequence[float], places: Sequence[float]) -> None:
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


def percent_scores(records: Sequence[RunRecord], *, part: Part | None = None) -> list[float]:
    """Top-1 accuracies of runs in percent; those that have none yet are left out.

    Arguments:
        records: The runs.
        part: Without or with test-time augmentation; if absent, with it where there is one.
    """
    return [100 * score.value for _, score in scored_runs(records, part, measure="top1")]


def tuned_scores(records: Sequence[RunRecord]) -> list[float]:
    """Accuracies in percent with the λ that tunes itself, of runs that are else like the fixed.

    None if those runs differ among themselves in more than their seed.
    """
    fixed, tuned = (
        [r for r in records if _is_learned(r) and _is_fixed(r) is is_fixed]
        for is_fixed in (True, False)
    )
    return _alike_scores(tuned, fixed, but=("entropy.rule", "entropy.weight"))


def reference_scores(records: Sequence[RunRecord], method: str) -> list[float]:
    """Accuracies in percent of another method, of runs that train the model as the learned ones.

    None if those runs differ among themselves in more than their seed.
    """
    others = [record for record in records if record.config.get("method.name") == method]
    return _alike_scores(others, [r for r in records if _is_learned(r)], but=AUGMENTATION)


def _alike_scores(
    records: Sequence[RunRecord], like: Sequence[RunRecord], *, but: Sequence[str]
) -> list[float]:
    wanted = {settings_key(record, ignore=but) for record in like}
    chosen = [record for record in records if settings_key(record, ignore=but) in wanted]
    return percent_scores(chosen) if len({settings_key(record) for record in chosen}) == 1 else []


def weight_sweep_points(
    records: Sequence[RunRecord], *, part: Part | None = None
) -> list[WeightPoint]:
    """A point for every fixed λ, its seeds together, from the runs with ``rule: fixed``.

    Arguments:
        records: Runs, of which others are left out.
        part: Without or with test-time augmentation; if absent, with it where there is one.

    Raises:
        ArgumentError: If the runs differ in more than λ and seed.
    """
    fixed = [r for r in records if _is_learned(r) and _is_fixed(r)]
    found = scored_runs(fixed, part, measure="top1")
    _check_alike([record for record, _ in found], but=("entropy.weight",))
    groups: dict[float, list[float]] = {}
    for record, score in found:
        groups.setdefault(_setting(record, "entropy.weight"), []).append(100 * score.value)
    return [WeightPoint(weight, groups[weight]) for weight in sorted(groups)]


def band_sweep_bars(records: Sequence[RunRecord], *, part: Part | None = None) -> list[BandBar]:
    """A bar for every entropy band, its seeds together, from runs that learned one factor.

    The band is the one that the results tell, else the setting ``entropy``.

    Arguments:
        records: Runs, of which those without a band in nats, or with a fixed λ, are left out.
        part: Without or with test-time augmentation; if absent, with it where there is one.

    Raises:
        ArgumentError: If the runs differ in more than band and seed.
    """
    tuned = [r for r in records if _is_learned(r) and not _is_fixed(r)]
    banded = [(record, band) for record in tuned if (band := _band(record)) is not None]
    _check_alike([record for record, _ in banded], but=("entropy.band", "entropy.diversity"))
    groups: dict[tuple[float, float], list[float]] = {}
    for record, band in banded:
        groups.setdefault(band, []).extend(percent_scores([record], part=part))
    return [BandBar(*band, scores) for band, scores in sorted(groups.items()) if scores]


def _is_fixed(record: RunRecord) -> bool:
    return record.config.get("entropy.rule") == "fixed"


def _is_learned(record: RunRecord) -> bool:
    return record.kind == "train" and record.config.get("method.name") == "instaaug"


def _check_alike(records: Sequence[RunRecord], *, but: Sequence[str]) -> None:
    """Raise unless the runs differ in nothing but the named settings."""
    keys = {settings_key(record, ignore=but): record for record in records}
    if len(keys) > 1:
        first, second, *_ = (dict(key) for key in keys)
        names = sorted(
            name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
        )
        runs = " and ".join(repr(record.name) for record in list(keys.values())[:2])
        raise ArgumentError(
            f"`records` must differ in {' and '.join(but)} and seed alone: {runs} differ in "
            f"{', '.join(names)} too. Leave one of them out."
        )


def _band(record: RunRecord) -> tuple[float, float] | None:
    if len(record.bands) == 1:
        return next(iter(record.bands.values()))
    entropy: Any = record.config.get("entropy.band")
    if isinstance(entropy, Mapping) and len(entropy) == 1:
        entropy = next(iter(entropy.values()))
    if record.bands or not isinstance(entropy, list) or len(entropy) != 2:
        return None
    low, high = (_number(record, "entropy.band", end) for end in entropy)
    return low, high


def _setting(record: RunRecord, name: str) -> float:
    return _number(record, name, record.config.get(name))


def _number(record: RunRecord, name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ArgumentError(
            f"`records` must have a number as their {name}: got {value!r:.60} in {record.name!r}."
        )
    return float(value)


def draw_sweeps(records: Sequence[RunRecord]) -> dict[str, "Figure"]:
    """Draw the sweeps that some runs belong to, by the name of the file.

    Arguments:
        records: Runs that differ in their fixed λ or in their band, and methods to compare with.
    """
    drawn = {}
    if len(points := weight_sweep_points(records)) > 1:
        drawn["weight_sweep"] = draw_weight_sweep(
            points,
            tuned=tuned_scores(records) or None,
            none=reference_scores(records, "none") or None,
        )
    if len(bars := band_sweep_bars(records)) > 1:
        others = {name: reference_scores(records, name) for name in ("random", "none")}
        references = {name: scores for name, scores in others.items() if scores}
        drawn["band_sweep"] = draw_band_sweep(bars, references=references)
    return drawn


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the charts of the runs that are named on the command line."""
    parser = ArgumentParser(prog="python -m paper.sweeps", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of finished runs")
    parser.add_argument("--out", type=Path, default=Path("sweeps"), help="folder to write to")
    options = parser.parse_args(arguments)
    for name, drawing in draw_sweeps([read_record(run) for run in options.runs]).items():
        for ending in ("png", "svg"):
            save_figure(drawing, options.out / f"{name}.{ending}")
            print(f"Look at {options.out / name}.{ending}.")


if __name__ == "__main__":
    main()
