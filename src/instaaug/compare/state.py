"""What a comparison keeps on disk: its plan, how far each run is, and why runs failed."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, Literal

from instaaug.compare.contenders import Contender, check_labels
from instaaug.errors import ArgumentError, DataError, InstaAugError
from instaaug.files import write_text
from instaaug.report.records import Score, accuracy_of, read_record
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.safe_files import read_json

__all__ = [
    "Choice",
    "ComparisonState",
    "Failure",
    "RunProgress",
    "RunStatus",
    "check_same_settings",
    "count_epochs",
    "find_split_mismatches",
    "read_failure",
    "read_progress",
    "read_state",
    "write_failure",
    "write_state",
]

RunStatus = Literal["waiting", "running", "done", "failed", "stopped"]
WITHOUT_EFFECT = {  # on results
    "trainer.threads",
    "trainer.log_every_n_steps",
    "trainer.checkpoint_minutes",
    "data.cache_dir",
}


@dataclass(frozen=True)
class Choice:
    """What a contender has chosen on validation images.

    Arguments:
        settings: By full name, what changes in its settings.
        sentence: The choice in words.
    """

    settings: Mapping[str, Any]
    sentence: str


@dataclass(frozen=True)
class ComparisonState:
    """The content of ``comparison.json``, which grows when contenders or seeds are added.

    Arguments:
        settings: Those that all contenders share, the epochs among them.
        contenders: By label, what each changes in them.
        seeds: By label, the seeds of the runs that were asked for.
        budget: The training time of a run that the epochs were chosen for; None if the epochs
            were given.
        epoch_seconds: Time of an epoch without augmentation, if it was measured.
        costs: By label, the cost of a training step as a ratio: median, lower and upper quartile.
        reference: Label of the contender that was named to compare with.
        reference_named_after: Runs that had ended when it was named, if any had.
        chosen: By label, what contenders have chosen on validation images.
    """

    settings: Mapping[str, Any]
    contenders: Mapping[str, Mapping[str, Any]]
    seeds: Mapping[str, list[int]]
    budget: str | None = None
    epoch_seconds: float | None = None
    costs: Mapping[str, list[float]] = field(default_factory=dict)
    reference: str | None = None
    reference_named_after: int | None = None
    chosen: Mapping[str, Choice] = field(default_factory=dict)

    def merge(self, later: "ComparisonState") -> "ComparisonState":
        """This state with the contenders and seeds of a later call.

        Raises:
            ArgumentError: If the later call has other settings.
        """
        check_same_settings(
            TrainSettings.from_mapping(self.settings, source="comparison.json"),
            TrainSettings.from_mapping(later.settings),
            ignore=("method.", "seed"),
            owner="the comparison that is there",
        )
        contenders = {**self.contenders, **later.contenders}
        check_labels(contenders)
        seeds = {
            label: sorted({*self.seeds.get(label, ()), *later.seeds.get(label, ())})
            for label in contenders
        }
        costs = {  # a contender with changed settings must be timed again
            label: cost
            for label, cost in self.costs.items()
            if contenders[label] == self.contenders[label]
        }
        return replace(
            self,
            contenders=contenders,
            seeds=seeds,
            costs={**costs, **later.costs},
            chosen={**self.chosen, **later.chosen},
        )

    @property
    def all_seeds(self) -> list[int]:
        """The seeds of all contenders, in order."""
        return sorted({seed for seeds in self.seeds.values() for seed in seeds})

    def full_settings(self, label: str) -> TrainSettings:
        """Every setting of a contender, but for the seed."""
        return self.with_choice(self._contender(label)).full_settings(self._base)

    def given_settings(self, label: str) -> TrainSettings:
        """The same before it has chosen any."""
        return self._contender(label).full_settings(self._base)

    @property
    def _base(self) -> TrainSettings:
        return TrainSettings.from_mapping(self.settings, source="comparison.json")

    def _contender(self, label: str) -> Contender:
        return Contender(label, self.contenders[label])

    def with_choice(self, contender: Contender) -> Contender:
        """A contender with the settings that it has chosen."""
        choice = self.chosen.get(contender.label)
        return contender if choice is None else replace(contender, chosen=choice.settings)

    def read_progress(self, out: Path) -> "list[RunProgress]":
        """How far every run is, contender by contender."""
        return [
            read_progress(out, label, seed)
            for label, seeds in self.seeds.items()
            for seed in seeds
        ]


@dataclass(frozen=True)
class Failure:
    """Why a run has no result.

    Arguments:
        sentence: What went wrong, in one sentence.
        log: The last lines that the run printed.
    """

    sentence: str
    log: list[str]


@dataclass(frozen=True)
class RunProgress:
    """How far a run of a comparison is.

    Arguments:
        label: The label of its contender.
        seed: Its seed.
        folder: Where it is.
        status: Whether it waits, runs, or how it ended.
        epoch: Number of finished epochs.
        score: Its score on the test images, if it is done.
        sentence: What went wrong, if it failed.
        images: Identifies the images it was trained and tested on, if it is done.
        n_epochs: Epochs to train, if that is known.
    """

    label: str
    seed: int
    folder: Path
    status: RunStatus = "waiting"
    epoch: int = 0
    score: Score | None = None
    sentence: str = ""
    images: str | None = None
    n_epochs: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is done or has failed."""
        return self.status in ("done", "failed")


def read_progress(out: Path, label: str, seed: int) -> RunProgress:
    """How far a run is, according to its folder ``out/LABEL/seed_S``."""
    folder = out / label / f"seed_{seed}"
    run = RunProgress(label, seed, folder, epoch=count_epochs(folder))
    if Run(folder).results_file.exists():
        return _read_score(run)
    if failure := read_failure(folder):
        return replace(run, status="failed", sentence=failure.sentence)
    return run


def count_epochs(folder: Path) -> int:
    """How many epochs a run has finished: the rows of its table of metrics."""
    table = Run(folder).metrics
    return max(0, table.read_bytes().count(b"\n") - 1) if table.is_file() else 0


def _read_score(run: RunProgress) -> RunProgress:
    """The run with its score; a result that cannot be read is a failure of this run alone."""
    try:
        record = read_record(run.folder)
        score = accuracy_of(record)
    except (DataError, OSError) as error:
        return replace(run, status="failed", sentence=str(error))
    if score is None:
        sentence = f"{str(run.folder / 'results.json')!r} has no score on test images."
        return replace(run, status="failed", sentence=sentence)
    split = record.results.get("split_hash")
    images = None if split is None else f"{split}, {score.n} for the test"
    return replace(run, status="done", score=score, images=images)


def find_split_mismatches(runs: Iterable[RunProgress]) -> list[tuple[RunProgress, RunProgress]]:
    """Runs that saw other images than most runs with their seed, each paired with one of those."""
    by_seed: dict[int, list[RunProgress]] = {}
    for run in runs:
        if run.images is not None:
            by_seed.setdefault(run.seed, []).append(run)
    mismatches = []
    for same_seed in by_seed.values():
        usual, _ = Counter(run.images for run in same_seed).most_common(1)[0]
        example = next(run for run in same_seed if run.images == usual)
        mismatches += [(run, example) for run in same_seed if run.images != usual]
    return mismatches


def check_same_settings(
    there: TrainSettings, wanted: TrainSettings, *, owner: str, ignore: tuple[str, ...] = ()
) -> None:
    """Raise, and name the setting, if two runs would not give the same result.

    Arguments:
        there: Settings on disk.
        wanted: Settings that were asked for.
        owner: What the settings on disk belong to, for the error.
        ignore: Prefixes of settings that may differ.
    """
    kept, asked = there.flatten(), wanted.flatten()
    names = {*kept, *asked} - WITHOUT_EFFECT
    for name in sorted(name for name in names if not name.startswith(ignore)):
        if kept.get(name) != asked.get(name):
            raise ArgumentError(
                f"`{name}` must be {kept.get(name)!r} as in {owner}: got {asked.get(name)!r}. "
                "Choose another folder for other settings."
            )


def read_state(out: Path) -> ComparisonState | None:
    """The state of the comparison in a folder; None if there is none.

    Raises:
        DataError: If ``comparison.json`` is damaged.
    """
    path = out / "comparison.json"
    if not path.is_file():
        return None
    try:
        return _parse_state(read_json(path))
    except (InstaAugError, TypeError) as error:
        reason = str(error).rstrip(".")
        raise DataError(
            f"{str(path)!r} must be as `instaaug compare` wrote it: {reason}. Restore it, or "
            "choose another folder."
        ) from None


def write_state(out: Path, state: ComparisonState) -> None:
    """Write ``comparison.json``."""
    _write_json(out / "comparison.json", asdict(state))


def read_failure(folder: Path) -> Failure | None:
    """Why the run in a folder failed; None if it has not."""
    path = folder / "failure.json"
    if not path.exists():
        return None
    try:
        content = read_json(path)
    except DataError as error:
        return Failure(str(error), [])
    sentence, log = content.get("sentence"), content.get("log")
    if not isinstance(sentence, str):
        return Failure(f"It failed, and {str(path)!r} does not say why.", [])
    return Failure(sentence, [str(line) for line in log] if isinstance(log, list) else [])


def write_failure(folder: Path, failure: Failure) -> None:
    """Write ``failure.json``."""
    _write_json(folder / "failure.json", asdict(failure))


def _parse_state(content: dict[str, Any]) -> ComparisonState:
    """The state that a file holds; raise unless every part of it is valid."""
    seconds = content.get("epoch_seconds")
    for name, is_valid in (
        ("settings", isinstance(content.get("settings"), dict)),
        ("contenders", _is_mapping(content.get("contenders"), _is_contender)),
        ("seeds", _is_mapping(content.get("seeds"), _are_seeds)),
        ("budget", isinstance(content.get("budget"), str | None)),
        ("epoch_seconds", seconds is None or _is_positive(seconds)),
        ("costs", _is_mapping(content.get("costs", {}), _is_cost)),
        ("reference", isinstance(content.get("reference"), str | None)),
        ("reference_named_after", isinstance(content.get("reference_named_after"), int | None)),
        ("chosen", _is_mapping(content.get("chosen", {}), _is_choice)),
    ):
        if not is_valid:
            raise DataError(f"its `{name}` are damaged")
    chosen = {label: Choice(**choice) for label, choice in content.get("chosen", {}).items()}
    state = ComparisonState(**{**content, "chosen": chosen})
    if not state.contenders or state.seeds.keys() != state.contenders.keys():
        raise DataError("its `seeds` are not those of its `contenders`")
    named = {*state.costs, *state.chosen, state.reference or min(state.contenders)}
    if not named <= state.contenders.keys():
        raise DataError("its `costs`, `chosen` or `reference` are of none of its `contenders`")
    check_labels(state.contenders)
    for label in state.contenders:
        state.full_settings(label)
    return state


def _is_mapping(value: Any, is_valid: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(is_valid, value.values()))


def _is_contender(value: Any) -> bool:
    return isinstance(value, dict) and "method" in value


def _is_choice(value: Any) -> bool:
    known = isinstance(value, dict) and value.keys() == {"settings", "sentence"}
    return known and isinstance(value["settings"], dict) and isinstance(value["sentence"], str)


def _are_seeds(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(seed) is int for seed in value)


def _is_cost(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_positive, value))


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < inf


def _write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
