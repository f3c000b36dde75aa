"""The setting ``trainer.logger``: where curves of training go, by Lightning's loggers."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)

from instaaug.errors import ArgumentError

__all__ = ["check_loggers", "make_loggers"]

PROJECT = "instaaug"
PACKAGES = ("tensorboard", "wandb", "mlflow")  # each has the name of its logger


def check_loggers(names: Sequence[str]) -> None:
    """Raise, before any image is read, if a logger's package is not installed."""
    for name in names:
        if name in PACKAGES and find_spec(name) is None:
            raise ArgumentError(
                f"`trainer.logger` {name} needs a package that is not installed. Run: pip install "
                f"{name}"
            )


def make_loggers(names: Sequence[str], folder: Path, settings: Mapping[str, Any]) -> list[Logger]:
    """Lightning's loggers, with their files in the folder of the run.

    Weights & Biases and MLflow follow their own environment variables, such as
    ``WANDB_MODE=offline`` and ``MLFLOW_TRACKING_URI``, and also get the settings. A run that is
    resumed is another run of the same name to them, and another folder of the CSV.

    Arguments:
        names: ``"tensorboard"``, ``"csv"``, ``"wandb"``, ``"mlflow"``; any number of them.
        folder: Of the run.
        settings: Of the run, by name.
    """
    made = []
    for name in names:
        try:
            made.append(_MAKERS[name](folder, settings))
        except Exception as error:  # whatever another service's package raises
            words = " ".join(str(error).split())[:300]
            raise ArgumentError(
                f"`trainer.logger` {name} cannot be used: {words} Set it up, or leave it out."
            ) from error
    return made


def _tensorboard(folder: Path, _: Mapping[str, Any]) -> Logger:
    return TensorBoardLogger(folder, name="", version="tensorboard")


def _csv(folder: Path, _: Mapping[str, Any]) -> Logger:
    names = (f"csv-{i}" if i else "csv" for i in count())
    return CSVLogger(folder, name="", version=next(n for n in names if not (folder / n).exists()))


def _wandb(folder: Path, settings: Mapping[str, Any]) -> Logger:
    logger = WandbLogger(
        project=PROJECT, name=folder.name, group=folder.name, save_dir=folder,
        config=dict(settings),
    )  # fmt: skip
    _ = logger.experiment  # begins the run, or raises
    return logger


def _mlflow(folder: Path, settings: Mapping[str, Any]) -> Logger:
    where = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder.absolute()}/mlflow.db"
    logger = MLFlowLogger(PROJECT, run_name=folder.name, tracking_uri=where)
    logger.log_hyperparams(dict(settings))
    return logger


_MAKERS: dict[str, Callable[[Path, Mapping[str, Any]], Logger]] = {
    "tensorboard": _tensorboard, "csv": _csv, "wandb": _wandb, "mlflow": _mlflow,
}  # fmt: skip
