"""From several runs to what a chart of them shows: which belong together, and their scores."""

from collections.abc import Mapping, Sequence
from typing import Any

from instaaug.errors import ArgumentError
from instaaug.report.charts.band_sweep import BandBar
from instaaug.report.charts.leaderboard import LeaderboardRow
from instaaug.report.charts.weight_sweep import WeightPoint
from instaaug.report.records.run_record import Part, RunRecord, Score, accuracy_of
from instaaug.stats import mean_and_standard_error, t_interval

__all__ = [
    "band_sweep_bars",
    "leaderboard_rows",
    "percent_scores",
    "reference_scores",
    "tuned_scores",
    "weight_sweep_points",
]

MACHINE = ("seed", "trainer.", "data.cache_dir", "data.root")
"""First letters of settings in which runs may differ and still repeat each other."""

AUGMENTATION = (
    "method.", "transforms", "entropy.", "crop.", "phi.", "padding_mode", "n_samples",
    "pretrain_epochs", "data.held_out_fraction", "views.",
)  # fmt: skip
"""First letters of settings in which different methods may differ and still be compared."""

SAME_IMAGES = (
    "data.source", "data.options", "data.test_fraction", "data.split", "data.path_column",
    "data.target_column",
)  # fmt: skip

Key = tuple[tuple[str, str], ...]


def percent_scores(records: Sequence[RunRecord], *, part: Part | None = None) -> list[float]:
    """Top-1 accuracies of runs in percent; those that have none yet are left out.

    Arguments:
        records: The runs.
        part: Without or with test-time augmentation; if absent, with it where there is one.
    """
    return [100 * score.value for _, score in _scored(records, part, measure="top1")]


def tuned_scores(records: Sequence[RunRecord]) -> list[float]:
    """Accuracies in percent with the λ that tunes itself, of runs that are else like the fixed.

    None if those runs differ among themselves in more than their seed.
    """
    fixed, tuned = (
        [r for r in records if _is_learned(r) and (_is_fixed(r)) is is_fixed]
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
    wanted = {_settings(record, but=but) for record in like}
    chosen = [record for record in records if _settings(record, but=but) in wanted]
    return percent_scores(chosen) if len({_settings(record) for record in chosen}) == 1 else []


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
    found = _scored(fixed, part, measure="top1")
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
    found = _scored(records, part)
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
        key = (_method(record), score.n_samples, _settings(record))
        groups.setdefault(key, []).append((record, score))
    names = _names(list(groups.values()))
    scores = [[score for _, score in members] for members in groups.values()]
    rows = [_row(name, members) for name, members in zip(names, scores, strict=True)]
    is_error = any(score.measure != "top1" for _, score in found)
    return sorted(rows, key=lambda row: row.score if is_error else -row.score)


def _row(name: str, scores: Sequence[Score]) -> LeaderboardRow:
    scale = 100 if scores[0].measure == "top1" else 1
    values = [scale * score.value for score in scores]
    mean, _ = mean_and_standard_error(values)
    low = high = mean
    if len(values) > 1:
        low, high = t_interval(values)
    elif scores[0].interval is not None:
        low, high = (scale * end for end in scores[0].interval)
    return LeaderboardRow(name, mean, min(low, mean), max(high, mean))


def _names(groups: Sequence[Sequence[tuple[RunRecord, Score]]]) -> list[str]:
    """The method of each group, and what tells it from others of the same method.

    Where some have more seeds than others, how many: their intervals are of different kinds.
    """
    firsts = [members[0] for members in groups]
    some_differ = len({len(members) for members in groups}) > 1
    names = []
    for (record, score), members in zip(firsts, groups, strict=True):
        settings = dict(_settings(record))
        rivals = [
            dict(_settings(other)) for other, _ in firsts if _method(other) == _method(record)
        ]
        told = [
            f"{name} {_in_words(record.config[name])}"
            for name in record.config
            if any(rival.get(name) != settings.get(name) for rival in rivals)
        ]
        views = [] if score.n_samples is None else [f"{score.n_samples} samples at test time"]
        seeds = [f"{len(members)} seed{'s' * (len(members) > 1)}"] if some_differ else []
        names.append(", ".join([_method(record), *told, *views, *seeds]))
    return names


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(map(_in_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _method(record: RunRecord) -> str:
    return str(record.config.get("method.name", "learned views"))


def _is_fixed(record: RunRecord) -> bool:
    return record.config.get("entropy.rule") == "fixed"


def _is_learned(record: RunRecord) -> bool:
    return record.kind == "train" and record.config.get("method.name") == "instaaug"


def _scored(
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


def _settings(record: RunRecord, *, but: Sequence[str] = ()) -> Key:
    """What two repetitions have in common, so that it can be compared; absent is like null."""
    kept = {k: v for k, v in record.config.items() if not k.startswith((*MACHINE, *but))}
    return tuple(sorted((name, repr(v)) for name, v in kept.items() if v is not None))


def _check_alike(records: Sequence[RunRecord], *, but: Sequence[str]) -> None:
    """Raise unless the runs differ in nothing but the named settings."""
    keys = {_settings(record, but=but): record for record in records}
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
