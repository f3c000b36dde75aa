"""Curves of training go where the setting says; where a package is not installed, it is named."""

import csv
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import CSVLogger

from instaaug.errors import ArgumentError
from instaaug.runs import loggers
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from tests.support.picture_folders import gray_levels

QUICK = {
    "trainer.max_epochs": 1, "trainer.accelerator": "cpu", "data.batch_size": 8,
    "views.n_views": 2, "method": "random", "model.width": 0.25, "trainer.log_every_n_steps": 1,
}  # fmt: skip


def settings(*names: str) -> TrainSettings:
    source = gray_levels(Path("a.npz"), n=40)
    return TrainSettings.from_mapping({**QUICK, "data": str(source), "trainer.logger": names})


def losses(file: Path) -> list[float]:
    rows = list(csv.DictReader(file.read_text().splitlines()))
    return [float(row["train/loss"]) for row in rows if row["train/loss"]]


def test_several_loggers_get_the_same_curve() -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(settings("csv", "tensorboard"), "run")
    curve = losses(Path("run/csv/metrics.csv"))
    board = accumulator.EventAccumulator("run/tensorboard").Reload()
    assert [event.value for event in board.Scalars("train/loss")] == pytest.approx(curve)
    assert len(curve) == 4, "28 images, 8 in a step"
    assert len(losses(Path("run/metrics.csv"))) == 1, "our own table has a row per epoch"


def test_none_at_all_will_do() -> None:
    train(settings(), "run")
    assert not Path("run/tensorboard").exists()


def test_a_resumed_run_leaves_the_earlier_rows_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "csv").mkdir()
    (made,) = loggers.make_loggers(["csv"], tmp_path, {})
    assert isinstance(made, CSVLogger)
    assert made.log_dir == str(tmp_path / "csv-1")


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_package_is_named_with_its_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loggers, "find_spec", lambda _: None)
    with pytest.raises(ArgumentError, match=f"`trainer.logger` {name} .* Run: pip install {name}"):
        train(settings(name), "run")
    assert not Path("run/config.yaml").exists(), "the folder is free again"


def test_what_a_service_refuses_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("No key\nwas found.")

    monkeypatch.setitem(loggers._MAKERS, "csv", refuse)
    with pytest.raises(
        ArgumentError, match=r"^`trainer.logger` csv cannot be used: No key was found\. Set it up"
    ):
        train(settings("csv"), "run")


@pytest.mark.filterwarnings("ignore")  # of other libraries
def test_weights_and_biases_runs_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    train(settings("wandb"), "run")
    summary = dict(wandb.run.summary)
    assert wandb.run.config["data.batch_size"] == 8
    wandb.finish()
    assert summary["train/loss"] > 0
    assert list(Path("run/wandb").glob("offline-run-*/*.wandb"))


@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_a_database_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    pytest.importorskip("sqlalchemy", reason="mlflow-skinny has no database")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    train(settings("mlflow"), "run")
    client = mlflow.MlflowClient(f"sqlite:///{Path('run').absolute()}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("instaaug").experiment_id])
    assert found.data.params["data.batch_size"] == "8"
    assert found.data.metrics["train/loss"] > 0
