"""The folder of a search: its settings, what each trial came to, and what was found."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import yaml

from instaaug.errors import ArgumentError, DataError
from instaaug.experiments.config import TrainConfig
from instaaug.experiments.run_files import read_yaml, take_back
from instaaug.files import write_text
from instaaug.frozen.paired import accuracy_interval

__all__ = ["State", "TrialRecord", "TuningFolder"]

State = Literal["running", "complete", "pruned", "failed"]
ONE_SIGMA = 0.6827
STATES = ("running", "complete", "pruned", "failed")


@dataclass(frozen=True)
class TrialRecord:
    """What one trial came to.

    Arguments:
        number: From 0, the settings as they were.
        state: Pruned trials were cut short; failed ones came upon a NaN.
        point: The numbers that were searched.
        bands: The entropy band of each factor as diversity.
        phi_learning_rate: As it was used.
        rungs: Pairs (epochs, mean score) of the comparisons on the way.
        scores: Of each validation image, 1 is best; for a complete trial.
        seconds: It took.
        memory: What the pruner must remember.
        reason: Why it failed.
    """

    number: int
    state: State
    point: dict[str, float]
    bands: dict[str, tuple[float, float]]
    phi_learning_rate: float
    rungs: tuple[tuple[int, float], ...] = ()
    scores: tuple[float, ...] = ()
    seconds: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def score(self) -> float | None:
        """The mean over the validation images; for a trial cut short, the last one seen."""
        if self.scores:
            return fmean(self.scores)
        return self.rungs[-1][1] if self.rungs else None

    @property
    def error(self) -> float:
        """The standard error of the score; of an accuracy, that is the binomial one.

        That would be 0 where all images are right, or none: there it is half of Wilson's interval.
        """
        n, mean = len(self.scores), fmean(self.scores)
        if set(self.scores) in ({0.0}, {1.0}):
            low, high = accuracy_interval(round(n * mean), n, confidence=ONE_SIGMA)
            return (high - low) / 2
        return sqrt(fmean((score - mean) ** 2 for score in self.scores) / n)


class TuningFolder:
    """The files of a search.

    ``tuning.yaml`` the settings it began with; ``trials.json`` a line per finished trial;
    ``trials/`` a run each; ``tuned.yaml`` the best settings so far; ``tuning.png`` and
    ``tuning.svg`` the curve.

    Arguments:
        path: The folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.settings_file = self.path / "tuning.yaml"
        self.trials_file = self.path / "trials.json"
        self.tuned_file = self.path / "tuned.yaml"
        self.figures = [self.path / "tuning.png", self.path / "tuning.svg"]

    def start(self, config: TrainConfig, split_hash: str) -> bool:
        """Begin a search, or go on with one of the same settings and images; whether it is new."""
        wanted = {**config.to_dict(), "split_hash": split_hash}
        if not self.settings_file.is_file():
            write_text(self.settings_file, _as_yaml(wanted))
            return True
        found = read_yaml(self.settings_file)
        name = _first_difference(wanted, found)
        if name is not None:
            raise ArgumentError(
                f"`out` must be a new folder, or one of the same search: "
                f"{str(self.path)!r} was begun with `{name}` {found.get(name)!r}, now it is "
                f"{wanted[name]!r}. Choose another folder."
            )
        return False

    def began_with(self, config: TrainConfig) -> bool:
        """Whether it holds a search with these settings."""
        if not self.settings_file.is_file():
            return False
        return _first_difference(config.located().to_dict(), read_yaml(self.settings_file)) is None

    def withdraw(self) -> None:
        """Take back what `start` wrote, for a search whose first trial could not begin."""
        runs = self.run_folder(0).parent
        if runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()
        take_back([self.settings_file])

    def run_folder(self, number: int) -> Path:
        """Where a trial trains."""
        return self.path / "trials" / f"{number:03d}"

    def read_trials(self) -> list[TrialRecord]:
        """The trials that are finished, in their order."""
        if not self.trials_file.is_file():
            return []
        try:
            rows = json.loads(self.trials_file.read_text(encoding="utf-8"))
            return [_record(row, number) for number, row in enumerate(rows)]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                f"{str(self.trials_file)!r} must be as the search wrote it: {error}. Restore it, "
                "or begin a search in another folder."
            ) from None

    def write_trials(self, records: Sequence[TrialRecord]) -> None:
        """Keep the finished trials, a line each."""
        lines = ",\n".join(json.dumps(vars(record)) for record in records)
        write_text(self.trials_file, f"[\n{lines}\n]\n")

    def write_tuned(self, config: TrainConfig, summary: str) -> None:
        """Write the settings for ``instaaug train``, after one line on where they come from."""
        comment = f"# {' '.join(summary.split())}\n"
        write_text(self.tuned_file, comment + _as_yaml(config.to_dict()))

    def training_command(self, config: TrainConfig) -> str:
        """What to type to train with the settings that were found."""
        return shlex.join(["instaaug", "train", config.data, "--config", str(self.tuned_file)])


def _first_difference(wanted: dict[str, Any], found: dict[Any, Any]) -> str | None:
    return next((name for name in wanted if found.get(name) != wanted[name]), None)


def _as_yaml(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)


def _record(row: dict[str, Any], number: int) -> TrialRecord:
    if row["state"] not in STATES or row["number"] != number:
        raise ValueError(f"line {number + 1} is not trial {number}")
    row = {
        **row,
        "bands": {name: (float(low), float(high)) for name, (low, high) in row["bands"].items()},
        "rungs": tuple((int(epoch), float(score)) for epoch, score in row["rungs"]),
        "scores": tuple(float(score) for score in row["scores"]),
    }
    return TrialRecord(**row)
