"""A run tries mirror images, light and whole images on the side, says so, survives a stop."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from typing_extensions import override

from instaaug.report.page.runs import notes_of
from instaaug.report.records import RunRecord
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import resume, train
from instaaug.tasks import mixing, task, try_out
from tests.support.tiny_training import labeled_halves

N_EPOCHS, FIRST, LATE = 6, 2, 4


class Fails(Callback):
    """At the beginning of an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.current_epoch == self.epoch:
            raise RuntimeError("power failure")


@pytest.fixture(autouse=True)
def _short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(try_out, "LENGTH", 0.2)
    monkeypatch.setattr(try_out, "FEWEST_STEPS", 5)
    monkeypatch.setattr(try_out, "FEWEST_IMAGES", 20)


@pytest.fixture
def settings(tmp_path: Path) -> TrainSettings:
    """Of images whose classes are mirror images of one another."""
    data = labeled_halves(200, side=16)
    np.savez(tmp_path / "halves.npz", images=data.images, labels=data.targets.numpy())
    return make_settings(tmp_path)


def make_settings(folder: Path, **changes: Any) -> TrainSettings:
    return TrainSettings.from_mapping(
        {
            "data.source": str(folder / "halves.npz"),
            "data.validation_fraction": 0.3,
            "transforms": "crop",
            "trainer.max_epochs": N_EPOCHS,
            "trainer.logger": ["csv"],
            "trainer.threads": 1,
            "optimizer.learning_rate": 0.01,
            "views.n_views": 2,
        },
        changes,
    )


def test_mirror_images_that_swap_classes_are_left_out(
    settings: TrainSettings, tmp_path: Path
) -> None:
    results = train(settings, tmp_path / "run")
    tried = results["tried"]
    assert tried["mirror"]["is_kept"] is False
    assert tried["mirror"]["difference"] > 0.1
    assert "mirror images change the loss of held-out images by +" in tried["words"]
    assert "(left out from here on)" in tried["words"]
    assert json.loads((tmp_path / "run" / "results.json").read_text())["tried"] == tried
    assert tried["words"] in notes_of(RunRecord(tmp_path, "train", {}, results))
    assert results["test"]["plain"]["top1"] > 0.9


def test_a_run_that_ends_on_whole_images_says_so(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("whole_early", -10.0), ("whole", 10.0)):
        question = replace(try_out.QUESTIONS[name], limit=limit)
        monkeypatch.setitem(try_out.QUESTIONS, name, question)
    results = train(settings, tmp_path / "run")
    assert results["tried"]["whole"]["is_kept"] is True
    assert results["tried"]["finetune_epochs"] == N_EPOCHS - LATE
    assert "(no views from here on)" in results["tried"]["words"]


@pytest.mark.parametrize("epoch", [FIRST, FIRST + 1, LATE + 1])
def test_a_run_that_is_stopped_beside_its_trial_ends_as_if_it_were_not(
    settings: TrainSettings, tmp_path: Path, epoch: int
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    results = train(settings, whole)
    with pytest.raises(RuntimeError, match="power failure"):
        train(settings, stopped, callbacks=[Fails(epoch)])
    assert resume(stopped) == results
    assert Run(stopped).model_file.read_bytes() == Run(whole).model_file.read_bytes()


def test_a_run_that_mixes_images_says_so_and_ends_the_same_if_it_is_stopped(
    settings: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "FEWEST", 20)
    monkeypatch.setattr(mixing, "TOLERATED", -0.5)  # a model that knows no more is mixed already
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    results = train(settings, whole)
    assert results["mixing"].startswith("Images were mixed in ")
    assert results["mixing"] in notes_of(RunRecord(tmp_path, "train", {}, results))
    with pytest.raises(RuntimeError, match="power failure"):
        train(settings, stopped, callbacks=[Fails(N_EPOCHS - 1)])
    assert resume(stopped) == results
    assert Run(stopped).model_file.read_bytes() == Run(whole).model_file.read_bytes()
    without = replace(settings, phi=replace(settings.phi, try_out=("mirror", "light", "whole")))
    assert "mixing" not in train(without, tmp_path / "without")


@pytest.mark.parametrize(
    "changes",
    [
        {"phi.try_out": []},
        {"data.flip": True, "data.vary": {"contrast": 0.1}, "finetune_epochs": 1},
        {"phi.goal": "loss"},
        {"method": "random"},
        {"data.flip": True, "phi.try_out": ["mirror"]},
        {"finetune_epochs": 1, "phi.try_out": ["whole"]},
        {"transforms": ["crop", "flip"], "phi.try_out": ["mirror"]},
    ],
)
def test_runs_in_which_nothing_is_open_try_nothing(
    changes: dict[str, Any], settings: TrainSettings, tmp_path: Path
) -> None:
    short = settings.override({"trainer.max_epochs": 1, **changes})
    assert "tried" not in train(short, tmp_path / "run")
