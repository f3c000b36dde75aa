"""All charts that can be drawn from the folders of some runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instaaug.errors import ArgumentError
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.charts.leaderboard import LeaderboardRow, draw_leaderboard
from instaaug.report.charts.training_curves import draw_training_curves
from instaaug.report.records import Part, RunRecord, Score, accuracy_of
from instaaug.stats import mean_and_standard_error, t_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "NamedFigure",
    "comparison_figures",
    "leaderboard_rows",
    "run_figures",
    "scored_runs",
    "settings_key",
]

MACHINE = (
    "seed", "threads", "trainer.accelerator", "trainer.devices", "trainer.num_nodes",
    "trainer.strategy", "trainer.precision", "trainer.log_every_n_steps",
    "trainer.checkpoint_minutes", "trainer.compile", "trainer.threads", "data.cache_dir",
    "data.root",
)  # fmt: skip
"""First letters of settings in which runs may differ and still repeat each other."""

SAME_IMAGES = (
    "data.source", "data.options", "data.test_fraction", "data.split", "data.path_column",
    "data.target_column",
)  # fmt: skip

Key = tuple[tuple[str, str], ...]

Bands = Mapping[str, tuple[float, float]]


def leaderboard_rows(
    records: Sequence[RunRecord], *, part: Part | None = None
) -> list[LeaderboardRow]:
    """A row for every group of runs that differ in their seed alone, the best first.

    A name is the method and the settings that tell it from other groups of the same method.
    Accuracies are in percent. Several seeds give their mean and Student's 95 % interval; a single
    one has Wilson's interval over the test images.

    Arguments:
        records: Runs on the same data; those that have not finished are left out.
        part: Without or with test-time augmentation; if absent, with it where there is one.

    Raises:
        ArgumentError: If the runs are of different data, or scored in different ways.
    """
    found = scored_runs(records, part)
    compared: dict[str, set[str]] = {
        name: {str(record.config.get(name)) for record, _ in found} for name in SAME_IMAGES
    }
    compared["scores"] = {score.measure for _, score in found}
    for what, values in compared.items():
        if len(values) > 1:
            raise ArgumentError(
                f"`records` must be comparable: got the {what} {', '.join(sorted(values))}. Make "
                "a leaderboard of each."
            )
    groups: dict[tuple[str, int | None, Key], list[tuple[RunRecord, Score]]] = {}
    for record, score in found:
        key = (_method(record), score.n_samples, settings_key(record))
        groups.setdefault(key, []).append((record, score))
    names = _leaderboard_names(list(groups.values()))
    scores = [[score for _, score in members] for members in groups.values()]
    rows = [_leaderboard_row(name, members) for name, members in zip(names, scores, strict=True)]
    is_error = any(score.measure != "top1" for _, score in found)
    return sorted(rows, key=lambda row: row.score if is_error else -row.score)


def _leaderboard_row(name: str, scores: Sequence[Score]) -> LeaderboardRow:
    scale = 100 if scores[0].measure == "top1" else 1
    values = [scale * score.value for score in scores]
    mean, _ = mean_and_standard_error(values)
    low = high = mean
    if len(values) > 1:
        low, high = t_interval(values)
    elif scores[0].interval is not None:
        low, high = (scale * end for end in scores[0].interval)
    return LeaderboardRow(name, mean, min(low, mean), max(high, mean))


def _leaderboard_names(groups: Sequence[Sequence[tuple[RunRecord, Score]]]) -> list[str]:
    """The method of each group, and what tells it from others of the same method.

    Where some have more seeds than others, how many: their intervals are of different kinds.
    """
    firsts = [members[0] for members in groups]
    some_differ = len({len(members) for members in groups}) > 1
    names = []
    for (record, score), members in zip(firsts, groups, strict=True):
        settings = dict(settings_key(record))
        rivals = [
            dict(settings_key(other)) for other, _ in firsts if _method(other) == _method(record)
        ]
        details = [
            f"{name} {_write_setting(record.config[name])}"
            for name in record.config
            if any(rival.get(name) != settings.get(name) for rival in rivals)
        ]
        views = [] if score.n_samples is None else [f"{score.n_samples} samples at test time"]
        seeds = [f"{len(members)} seed{'s' * (len(members) > 1)}"] if some_differ else []
        names.append(", ".join([_method(record), *details, *views, *seeds]))
    return names


def _write_setting(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_write_setting, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _method(record: RunRecord) -> str:
    return str(record.config.get("method.name", "learned views"))


def scored_runs(
    records: Sequence[RunRecord], part: Part | None, *, measure: str | None = None
) -> list[tuple[RunRecord, Score]]:
    """Runs that have a score, with it."""
    pairs = [(record, accuracy_of(record, part)) for record in records]
    found = [(record, score) for record, score in pairs if score is not None]
    for record, score in found:
        if measure not in (None, score.measure):
            raise ArgumentError(
                f"`records` must be classifications: {record.name!r} has {score.measure}. Leave "
                "regressions out."
            )
    return found


def settings_key(record: RunRecord, *, ignore: Sequence[str] = ()) -> Key:
    """A key of the settings that repetitions of a run share; an absent one counts as null."""
    kept = {k: v for k, v in record.config.items() if not k.startswith((*MACHINE, *ignore))}
    return tuple(sorted((name, repr(v)) for name, v in kept.items() if v is not None))


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


def run_figures(record: RunRecord, bands: Bands) -> Iterator[NamedFigure]:
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


def comparison_figures(records: Sequence[RunRecord]) -> Iterator[NamedFigure]:
    """The charts of several runs, as far as they can be compared."""
    with suppress(ArgumentError):  # they cannot be compared
        drawn = _leaderboard(records)
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
