"""Trials that fail, and files that are damaged."""

import json
from pathlib import Path
from typing import Any

import pytest

from instaaug.errors import ArgumentError, DataError, DiskError, InstaAugError, NonFiniteError
from instaaug.runs.settings import TrainSettings
from instaaug.tune.search import tune
from instaaug.tune.trial import Report

CONFIG = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 4,
        "data.image_size": 16,
        "transforms": "crop",
        "phi.width": 0.25,
        "model.width": 0.25,
        "trainer.accelerator": "cpu",
    }
)


def half_right(*_: object) -> list[float]:
    """The scores of a trial that is not trained."""
    return [1.0, 0.0]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError(), "Out of memory."),
        (RuntimeError("the \n kernel failed"), "RuntimeError: the kernel failed"),
        (ArgumentError("`diversity` must be less."), "`diversity` must be less."),
        (ArgumentError(""), "ArgumentError"),
    ],
)
def test_a_trial_that_fails_for_another_reason_is_noted_with_it(
    error: Exception, words: str, tmp_path: Path
) -> None:
    def second_fails(config: TrainSettings, folder: Path, report: Report) -> list[float]:
        if folder.name == "001":
            raise error
        return [1.0, 0.0]

    records = tune(CONFIG, tmp_path / "search", n_trials=3, run=second_fails).records
    assert [record.state for record in records] == ["complete", "failed", "complete"]
    assert records[1].reason == words
    again = tune(CONFIG, tmp_path / "search", n_trials=3, run=half_right)
    assert again.records == records


@pytest.mark.parametrize("error", [DataError("Damaged."), DiskError("Full."), OSError("Gone.")])
def test_files_at_fault_end_the_search_and_no_trial_has_failed(
    error: Exception, tmp_path: Path
) -> None:
    def second_fails(config: TrainSettings, folder: Path, report: Report) -> list[float]:
        if folder.name == "001":
            raise error
        return [1.0, 0.0]

    with pytest.raises(type(error), match=str(error)):
        tune(CONFIG, tmp_path / "search", n_trials=3, run=second_fails)
    again = tune(CONFIG, tmp_path / "search", n_trials=3, run=half_right)
    assert [record.state for record in again.records] == ["complete"] * 3


def test_a_search_in_which_all_fail_says_so(tmp_path: Path) -> None:
    def fails(*_: object) -> None:
        raise NonFiniteError("The loss became NaN.")

    words = "All 2 trials failed, the last one so: The loss became NaN. If numbers became NaN, low"
    with pytest.raises(InstaAugError, match=words):
        tune(CONFIG, tmp_path / "search", n_trials=2, run=fails)
    assert not (tmp_path / "search" / "tuned.yaml").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scores": [1.0, 0.0]}, "its trials have scores of .* images, not of the same"),
        ({"point": {"crop/center": 0.1}}, "the `point` of trial 1 is not in the space"),
        ({"number": 7}, "the `number` of trial 1 is 7"),
    ],
)
def test_a_spoiled_file_of_trials_is_named(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    tune(CONFIG, tmp_path / "search", n_trials=2, run=lambda *_: [1.0, 0.0, 1.0])
    file = tmp_path / "search" / "trials.json"
    rows = json.loads(file.read_text())
    rows[1].update(changes)
    file.write_text(json.dumps(rows))
    with pytest.raises(DataError, match=f"must be as the search wrote it: {words}.* Restore it"):
        tune(CONFIG, tmp_path / "search", n_trials=2, run=half_right)


def test_trials_of_other_images_are_named(tmp_path: Path) -> None:
    tune(CONFIG, tmp_path / "search", n_trials=1, run=half_right)
    with pytest.raises(DataError, match="scores of 2 validation images, and there are 3"):
        tune(CONFIG, tmp_path / "search", n_trials=2, run=lambda *_: [1.0, 0.0, 1.0])


def test_a_slip_that_the_first_trial_finds_does_not_take_the_folder(tmp_path: Path) -> None:
    def slips(*_: object) -> None:
        raise ArgumentError("`accelerator` must suit this machine.")

    with pytest.raises(ArgumentError, match="`accelerator`"):
        tune(CONFIG, tmp_path / "search", run=slips)
    assert not (tmp_path / "search").exists()
    with pytest.raises(ArgumentError, match="`trials` must be at least 1: got 0"):
        tune(CONFIG, tmp_path / "search", n_trials=0, run=half_right)
