"""Processes that die without warning in the middle of something."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback
from typing_extensions import override

from instaaug.runs.settings import TrainSettings, TtaSettings
from instaaug.runs.training import train
from instaaug.runs.tta import fit_frozen
from instaaug.tasks import WholeCheckpointIO

__all__ = ["At", "fit_and_die", "save_and_die", "train_and_die"]


class At(Callback):
    """Does something when a run comes to a place: a hook and the number of steps done."""

    def __init__(self, hook: str, n_steps: int, act: Callable[[], None]) -> None:
        self.place, self.act = (hook, n_steps), act

    def _reached(self, hook: str, pl_module: Any) -> None:
        if self.place == (hook, pl_module.n_steps):
            self.act()

    @override
    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        self._reached("batch end", pl_module)

    @override
    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._reached("validation end", pl_module)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._reached("epoch end", pl_module)

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._reached("epoch start", pl_module)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._reached("train end", pl_module)


def die() -> None:
    """As if by ``kill -9``: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def save_and_die(path: str, value: float) -> None:
    """Write a checkpoint and be killed when half of its bytes are there."""
    whole = Path(path).with_name("whole")
    torch.save({"value": torch.full((1000,), value)}, whole)
    content = whole.read_bytes()

    def half(_: Any, file: IO[bytes]) -> None:
        file.write(content[: len(content) // 2])
        file.flush()
        die()

    torch.save = half  # type: ignore[assignment]
    WholeCheckpointIO().save_checkpoint({}, path)


def train_and_die(settings: dict[str, Any], out: str, hook: str, n_steps: int) -> None:
    """Train and be killed there."""
    train(TrainSettings.from_mapping({**settings}), out, callbacks=[At(hook, n_steps, die)])


def fit_and_die(settings: dict[str, Any], out: str, n_images: int) -> None:
    """Fit views for a frozen model and be killed when so many images are in the table."""

    def on_table(done: int, total: int) -> None:
        if done >= n_images:
            die()

    fit_frozen(TtaSettings.from_mapping({**settings}), out, on_table=on_table)
