"""A trial: trained, scored on validation images, cut short, interrupted, written and read."""

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.compare.tuning import tune
from instaaug.compare.tuning_trials import TrialRecord, parse_trials, run_trial, rung_epochs
from instaaug.errors import DataError
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import load_splits, train
from instaaug.tasks import BatchLoader, ContrastiveTask, Interrupted, make_predictor
from instaaug.tasks.representation import collect_features
from instaaug.yaml_files import read_yaml
from tests.runs.conftest import few_sprites
from tests.support.picture_folders import gray_levels

SMALL = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 3,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 2,
        "data.validation_fraction": 0.4,
        "trainer.accelerator": "cpu",
        "phi.width": 0.25,
        "model.width": 0.25,
    }
)
SPOILED = [
    *("", "{", "null", "[1, 2]", "[[1]]", '[[1, "x"]]', "[[1, NaN]]", "[[1.5, 0.5]]"),
    *("[[7, 0.5]]", "[" * 100_000),
]


class Told:
    """Remembers what was reported, and lets the trial go on until told otherwise."""

    def __init__(self, end_at: int = 0) -> None:
        self.end_at = end_at
        self.scores: dict[int, float] = {}

    def __call__(self, epoch: int, score: float) -> bool:
        self.scores[epoch] = score
        return epoch == self.end_at


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Told, Sequence[float], Path]:
    """A trial that nobody interrupts, what it reported, its scores and its folder."""
    told, folder = Told(), tmp_path_factory.mktemp("whole")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("The test images were scored.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSTAAUG_CACHE", str(folder / "cache"))
        few_sprites(patch)
        patch.setattr("instaaug.runs.training.evaluate_task", refuse)
        scores = run_trial(SMALL, folder / "trial", told)
    assert scores is not None
    return told, scores, folder / "trial"


@pytest.mark.parametrize(
    ("epochs", "resting", "rungs"),
    [(1, 0, []), (2, 0, [1]), (8, 0, [1, 2, 4]), (9, 0, [2, 4, 8]), (200, 0, [25, 50, 100]),
     (10, 2, [3, 4, 6]), (3, 2, [])],
)  # fmt: skip
def test_trials_are_compared_after_doubling_numbers_of_epochs(
    epochs: int, resting: int, rungs: list[int]
) -> None:
    config = TrainSettings.from_mapping({"trainer.max_epochs": epochs, "phi.rest_epochs": resting})
    assert rung_epochs(config) == rungs


def test_scores_are_those_of_the_run_on_its_validation_images(
    tmp_path: Path, whole: tuple[Told, Sequence[float], Path]
) -> None:
    """As told by a run that nobody watched; and the trial looks at no test image."""
    train(SMALL, tmp_path / "run")
    task = load_task(Run(tmp_path / "run"))
    validation = load_splits(SMALL).validation
    assert validation is not None
    predict = make_predictor(task, n_samples=2)
    pairs = [(predict(x).argmax(dim=1), y) for x, y in BatchLoader(validation, 16)]
    right = torch.cat([guess == y for guess, y in pairs])
    told, scores, folder = whole
    assert scores == right.double().tolist()
    assert len(scores) == round(0.4 * 48)
    assert list(told.scores) == [1, 2]
    assert all(0 <= score <= 1 for score in told.scores.values())
    assert not (folder / "last.ckpt").exists()
    assert not (folder / "results.json").exists()


def test_a_trial_can_be_cut_short(tmp_path: Path) -> None:
    told = Told(end_at=1)
    assert run_trial(SMALL, tmp_path / "trial", told) is None
    assert list(told.scores) == [1]
    rows = (tmp_path / "trial" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 2  # names, and one epoch
    assert not (tmp_path / "trial" / "last.ckpt").exists()


@pytest.mark.parametrize("is_saved", [True, False])
def test_an_interrupted_trial_goes_on_as_if_nothing_had_happened(
    is_saved: bool, tmp_path: Path, whole: tuple[Told, Sequence[float], Path]
) -> None:
    """After Ctrl-C; and after a kill at once, which may leave no checkpoint."""
    before, scores, _ = whole

    def interrupt(epoch: int, score: float) -> bool:
        assert score == before.scores[epoch]
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(Interrupted, match="SIGINT in epoch 1 of 3"):
        run_trial(SMALL, tmp_path / "parts", interrupt)
    if not is_saved:
        (tmp_path / "parts" / "last.ckpt").unlink()
    told = Told()
    assert run_trial(SMALL, tmp_path / "parts", told) == scores
    assert told.scores == before.scores


def test_a_trial_that_lost_while_nobody_noted_it_ends_at_once_unless_its_file_is_spoiled(
    tmp_path: Path,
) -> None:
    def interrupt(*_: object) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(Interrupted):
        run_trial(SMALL, tmp_path / "trial", interrupt)
    file = tmp_path / "trial" / "rungs.json"
    written = file.read_text()
    for spoiled in SPOILED:
        file.write_text(spoiled)
        with pytest.raises(DataError, match=r"rungs.json' must be as the trial wrote it"):
            run_trial(SMALL, tmp_path / "trial", Told())
    file.write_text(written)
    assert run_trial(SMALL, tmp_path / "trial", Told(end_at=1)) is None


def test_a_regression_is_scored_by_the_variance_explained(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz")
    config = SMALL.override(
        {
            "data": str(tmp_path / "a.npz"),
            "task": "regression",
            "transforms": "rotation",
            "trainer.max_epochs": 1,
            "data.image_size": None,
        }
    )
    scores = run_trial(config, tmp_path / "trial", Told())
    train(config, tmp_path / "run")
    task = load_task(Run(tmp_path / "run"))
    validation = load_splits(config.with_full_paths()).validation
    assert validation is not None
    assert scores is not None
    tally, predict = task.make_tally(), make_predictor(task, n_samples=2)
    for x, y in BatchLoader(validation, 16):
        tally.add(predict(x), y)
    assert sum(scores) / len(scores) == pytest.approx(tally.scores()["r2"])


def test_contrastive_learning_is_scored_by_a_probe(tmp_path: Path) -> None:
    config = SMALL.override(
        {"task": "contrastive", "transforms": "crop", "trainer.max_epochs": 1}
        | {"contrastive.hidden": 8, "contrastive.n_projected": 4}
    )
    scores = run_trial(config, tmp_path / "trial", Told())
    train(config, tmp_path / "run")
    task = load_task(Run(tmp_path / "run"))
    assert isinstance(task, ContrastiveTask)
    validation = load_splits(config).validation
    assert validation is not None
    encode = make_predictor(task, model=task.model.encoder)
    features, targets = collect_features(encode, BatchLoader(validation, 16))
    right = task.representations["plain"].probe(features).argmax(dim=1) == targets
    assert scores == right.double().tolist()


def test_a_search_trains_trials_and_writes_what_it_found(tmp_path: Path) -> None:
    tuned = tune(SMALL.override({"trainer.max_epochs": 2}), tmp_path / "search", n_trials=2)
    assert tuned.records[0].state == "complete"
    assert len(tuned.records[0].scores) == round(0.4 * 48)
    assert {path.name for path in (tmp_path / "search" / "trials").iterdir()} == {"000", "001"}
    assert (
        TrainSettings.from_mapping(read_yaml(tmp_path / "search" / "tuned.yaml")) == tuned.config
    )


# Records

GOOD = TrialRecord(
    0,
    "complete",
    {"crop/center": 0.1},
    {"crop": (0.05, 0.2)},
    {"phi.learning_rate": 1e-3},
    rungs=((1, 0.25), (2, 0.5)),
    scores=(1.0, 0.0),
    seconds=2.5,
    memory={"completed_rung_0": 0.25, "fixed_params": {"crop/center": 0.1}},
)


def text_of(**changes: Any) -> str:
    return json.dumps([{**vars(GOOD), **changes}])


def test_a_record_comes_back_as_it_was() -> None:
    assert parse_trials(text_of()) == [GOOD]
    assert parse_trials("[]") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 1},
        {"state": "running"},
        {"state": []},
        {"point": [0.1]},
        {"point": {"crop/center": "0.1"}},
        {"ranges": {"crop": [0.1]}},
        {"ranges": {"crop": [0.1, None]}},
        {"changes": True},
        {"rungs": 3},
        {"rungs": [[1.5, 0.5]]},
        {"rungs": [[1, float("nan")]]},
        {"scores": []},
        {"scores": None},
        {"scores": [1.0, float("nan")]},
        {"scores": [1.0, "x"]},
        {"state": "pruned"},
        {"seconds": -1.0},
        {"seconds": float("inf")},
        {"memory": None},
        {"memory": {"completed_rung_0": "x"}},
        {"reason": 3},
        {"seconds": 10**400},
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any]) -> None:
    (name,) = changes
    named = "scores" if changes == {"state": "pruned"} else name
    with pytest.raises(ValueError, match=f"the `{named}` of trial 0 is "):
        parse_trials(text_of(**changes))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "Expecting property name"),
        ("{}", "it is no list of trials"),
        ("[3]", "trial 0 is 3"),
        ("[{}]", "trial 0 has no `number`"),
        (text_of(extra=1), "trial 0 has 'extra', which is not known"),
        ("[" * 100_000, "too deep"),
    ],
)
def test_text_that_is_not_a_list_of_trials_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_trials(text)


def test_complete_trials_have_scores_of_the_same_images() -> None:
    rows = [{**vars(GOOD), "number": i, "scores": [1.0] * (2 + i)} for i in range(2)]
    with pytest.raises(ValueError, match=r"scores of \[2, 3\] images, not of the same"):
        parse_trials(json.dumps(rows))
