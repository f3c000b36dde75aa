"""The folder of a search: its settings, what each trial came to, and what was found."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from instaaug.compare.state import check_same
from instaaug.errors import ArgumentError, DataError
from instaaug.files import write_text
from instaaug.runs.folder import remove_files
from instaaug.runs.settings import TrainSettings
from instaaug.tune.trial_record import TrialRecord, parsed_trials
from instaaug.yaml_files import read_yaml

__all__ = ["TuningFolder"]

HASH = "split_hash"


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

    def start(self, config: TrainSettings, split_hash: str) -> bool:
        """Begin a search, or go on with one of the same settings and images; whether it is new."""
        if not self.settings_file.is_file():
            write_text(self.settings_file, _as_yaml({**config.to_mapping(), HASH: split_hash}))
            return True
        there, known_hash = self._settings()
        check_same(there, config, what=f"the search in {str(self.path)!r}")
        if known_hash != split_hash:
            raise ArgumentError(
                f"`data` must be the same images as in the search in {str(self.path)!r}: got "
                "others. Choose another folder."
            )
        return False

    def began_with(self, config: TrainSettings) -> bool:
        """Whether it holds a search with these settings, but for those without an effect."""
        if not self.settings_file.is_file():
            return False
        try:
            check_same(self._settings()[0], config.with_full_paths(), what="it")
        except ArgumentError:
            return False
        return True

    def _settings(self) -> tuple[TrainSettings, Any]:
        """What it was begun with, and the hash of the images."""
        content = read_yaml(self.settings_file)
        known_hash = content.pop(HASH, None)
        return TrainSettings.from_mapping(content, source=str(self.settings_file)), known_hash

    def withdraw(self) -> None:
        """Take back what `start` wrote, for a search whose first trial could not begin."""
        runs = self.run_folder(0).parent
        if runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()
        remove_files([self.settings_file])

    def run_folder(self, number: int) -> Path:
        """Where a trial trains."""
        return self.path / "trials" / f"{number:03d}"

    def read_trials(self) -> list[TrialRecord]:
        """The trials that are finished, in their order."""
        if not self.trials_file.is_file():
            return []
        try:
            return parsed_trials(self.trials_file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self.damaged(str(error)) from None

    def damaged(self, why: str) -> DataError:
        """The error for a file of trials that no search has written so."""
        return DataError(
            f"{str(self.trials_file)!r} must be as the search wrote it: {why}. Restore it, or "
            "begin a search in another folder."
        )

    def write_trials(self, records: Sequence[TrialRecord]) -> None:
        """Keep the finished trials, a line each."""
        lines = ",\n".join(json.dumps(vars(record)) for record in records)
        write_text(self.trials_file, f"[\n{lines}\n]\n")

    def write_tuned(self, config: TrainSettings, summary: str) -> None:
        """Write the settings for ``instaaug train``, after one line on where they come from."""
        comment = f"# {' '.join(summary.split())}\n"
        write_text(self.tuned_file, comment + _as_yaml(config.to_mapping()))

    def training_command(self, config: TrainSettings) -> str:
        """What to type to train with the settings that were found."""
        source, file = config.data.source, str(self.tuned_file)
        return shlex.join(["instaaug", "train", source, "--config", file])


def _as_yaml(values: dict[str, Any]) -> str:
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
