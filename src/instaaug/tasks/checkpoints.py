"""Checkpoints that are whole or absent, and runs that stop gently."""

import signal
import threading
import time
from pathlib import Path
from pickle import UnpicklingError  # what torch raises
from types import FrameType
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import LightningModule, Trainer
from typing_extensions import override

from instaaug.errors import InstaAugError, WeightsFileError
from instaaug.files import write_whole
from instaaug.tasks.after_task import AfterTask
from instaaug.tasks.task import AugmentedTask

__all__ = ["Checkpoints", "Interrupted", "WholeCheckpointIO"]


class Interrupted(InstaAugError):  # noqa: N818  # nothing went wrong
    """A person or the system asked the run to stop; all is saved."""


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint aside and renames it: a kill leaves the old one or the new one."""

    @override
    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        write_whole(Path(path), lambda file: torch.save(checkpoint, file))

    @override
    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read tensors and plain values; a file with anything else in it is refused."""
        try:
            return dict(torch.load(path, map_location=map_location, weights_only=True))
        except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise WeightsFileError(
                f"The checkpoint {str(path)!r} cannot be read ({words}). Delete it, and the run "
                "begins again."
            ) from error


class Checkpoints(AfterTask):
    """Saves after every epoch, every few minutes within one, and when asked to stop.

    The first Ctrl-C (or SIGTERM) ends the current step, saves, and stops; a second one stops at
    once. With several processes, which cannot agree on a moment by the clock, checkpoints are
    made after epochs only.

    Arguments:
        path: The file, overwritten each time.
        minutes: Longest time between checkpoints within an epoch.
    """

    def __init__(self, path: Path, *, minutes: float = 5.0) -> None:
        self.path, self.minutes = path, minutes
        self.asked_to_stop: str | None = None
        self._saved_at = time.monotonic()
        self._former: dict[int, Any] = {}

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._saved_at, self.asked_to_stop = time.monotonic(), None
        in_main_thread = threading.current_thread() is threading.main_thread()
        if trainer.world_size == 1 and in_main_thread:  # Python's condition for handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._ask_to_stop)

    def _ask_to_stop(self, number: int, _: FrameType | None) -> None:
        if self.asked_to_stop is not None:
            raise KeyboardInterrupt
        self.asked_to_stop = signal.Signals(number).name

    @override
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        last_of_epoch = batch_idx + 1 >= trainer.num_training_batches
        accumulate = pl_module.accumulate if isinstance(pl_module, AugmentedTask) else 1
        within_step = (batch_idx + 1) % accumulate > 0  # gradients are in no checkpoint
        if trainer.world_size > 1 or last_of_epoch or within_step:
            return
        overdue = time.monotonic() - self._saved_at > 60 * self.minutes
        if overdue or self.asked_to_stop:
            self._save(trainer)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer)

    def _save(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_at = time.monotonic()
        if self.asked_to_stop:
            raise Interrupted(
                f"Stopped by {self.asked_to_stop} in epoch {trainer.current_epoch + 1} of "
                f"{trainer.max_epochs}; everything is saved."
            )

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._give_signals_back()

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._give_signals_back()

    def _give_signals_back(self) -> None:
        # Lightning has handlers of its own: they come first and go last
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}
