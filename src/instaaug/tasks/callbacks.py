"""Callbacks: checkpoints, a progress bar, a table of metrics, pictures of samples."""

import csv
import io
import signal
import threading
import time
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.loggers import TensorBoardLogger
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.distributions import UniformBox
from instaaug.durations import format_duration
from instaaug.errors import InstaAugError, WeightsFileError
from instaaug.files import write_atomically, write_text
from instaaug.shapes import repeat_batch
from instaaug.tasks.task import AugmentedTask

__all__ = [
    "AfterTask",
    "Checkpoints",
    "Interrupted",
    "MetricsTable",
    "RichProgress",
    "SamplePictures",
    "WholeCheckpointIO",
    "sample_sheet",
]


SECONDS_BETWEEN = 0.2
FIRST_STEPS, FIRST_SECONDS = 5, 5.0  # before the time of all steps is estimated
LONG = 60.0  # seconds that are worth a word
BAR = 16  # columns

GAP = 1  # pixels of white around every image


class AfterTask(Checkpoint):
    """A callback whose end-of-epoch hook runs after the task's own.

    Lightning calls the hooks of callbacks first and those of the module second, except for
    callbacks of this kind.
    """


class Interrupted(InstaAugError):  # noqa: N818  # nothing went wrong
    """A person or the system asked the run to stop; all is saved."""


class WholeCheckpointIO(TorchCheckpointIO):
    """Writes a checkpoint aside and renames it: a kill leaves the old one or the new one."""

    @override
    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        write_atomically(Path(path), lambda file: torch.save(checkpoint, file))

    @override
    def load_checkpoint(
        self, path: str | Path, map_location: Any = "cpu", weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Read tensors and plain values; a file with anything else in it is refused."""
        try:
            return dict(torch.load(path, map_location=map_location, weights_only=True))
        except Exception as error:  # on a damaged file torch raises anything
            words = " ".join(str(error).split())[:200] or type(error).__name__
            raise WeightsFileError(
                f"The checkpoint {str(path)!r} cannot be read ({words}). Delete it to "
                "start the run over."
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
        n_batches = (
            pl_module.accumulate_grad_batches if isinstance(pl_module, AugmentedTask) else 1
        )
        within_step = (batch_idx + 1) % n_batches > 0  # gradients are in no checkpoint
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
        self.stop_if_asked(trainer)

    def stop_if_asked(self, trainer: Trainer) -> None:
        """Stop, if someone asked for it, where nothing is lost since the last checkpoint."""
        if self.asked_to_stop:
            raise Interrupted(
                f"Stopped by {self.asked_to_stop} in epoch {trainer.current_epoch + 1} of "
                f"{trainer.max_epochs}; everything is saved."
            )

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restore_signals()

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._restore_signals()

    def _restore_signals(self) -> None:
        # Lightning has handlers of its own: they come first and go last
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}


class RichProgress(AfterTask):
    """A bar over all steps: epoch, time left, step, loss, entropy, λ; and a line per epoch.

    The numbers come last, as many of them as the terminal has room for. Training that will take
    long says so after its first steps.

    Arguments:
        console: Where to draw; on anything but a terminal only the lines are printed.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._bar: Progress | None = None
        self._line = TaskID(0)
        self._drawn_at = 0.0
        self._first: tuple[int, float] | None = None
        self._has_estimated = False

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101  # made for our tasks
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=BAR),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("left  step {task.completed}{task.fields[of]}  {task.fields[numbers]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        total = trainer.num_training_batches * (trainer.max_epochs or 1)  # infinite if unknown
        known = isfinite(total)
        self._line = self._bar.add_task(
            "", total=int(total) if known else None, completed=pl_module.n_steps,
            of=f"/{int(total)}" if known else "", epoch=_epoch(trainer), numbers="",
        )  # fmt: skip
        self._bar.start()

    @override
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        now = time.monotonic()
        if self._bar is None:
            return
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        self._estimate(pl_module.n_steps, now)
        if now - self._drawn_at < SECONDS_BETWEEN:
            return
        self._drawn_at = now
        numbers = [
            _format_number(n, float(v)) for n, v in pl_module.latest.items() if not _is_detail(n)
        ]
        self._bar.update(
            self._line,
            completed=pl_module.n_steps,
            epoch=_epoch(trainer),
            numbers=self._fit(numbers, trainer),
        )

    def say(self, words: str) -> None:
        """Print a line above the bar."""
        if self._bar is not None:
            self._bar.console.print(words, highlight=False, soft_wrap=True, markup=False)

    def _estimate(self, n_steps: int, now: float) -> None:
        """Say once how long all steps will take, if that is long; the first one is not counted."""
        assert self._bar is not None  # noqa: S101  # it was made at the start
        total = self._bar.tasks[0].total
        if self._first is None:
            self._first = n_steps, now
        steps, seconds = n_steps - self._first[0], now - self._first[1]
        if self._has_estimated or total is None or seconds < FIRST_SECONDS or steps < FIRST_STEPS:
            return
        self._has_estimated = True
        left = seconds / steps * (total - n_steps)
        if left > LONG:
            self.console.print(
                f"About {format_duration(left)} for {total - n_steps:,.0f} more steps.",
                highlight=False,
            )

    def _fit(self, numbers: list[str], trainer: Trainer) -> str:
        """The first of these numbers, as many as there is room for beside all else."""
        assert self._bar is not None  # noqa: S101  # it is drawn
        of = str(self._bar.tasks[0].fields["of"])
        others = f"epoch {_epoch(trainer)}  0:00:00 left  step {of}{of}  "
        room = self.console.width - len(others) - BAR - 2  # and a space beside the bar
        while numbers and len("  ".join(numbers)) > room:
            numbers = numbers[:-1]
        return "  ".join(numbers)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._bar is None:
            return
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        row = pl_module.history[-1]
        kept = {
            k: v
            for k, v in row.items()
            if "/" in k and not k.endswith(("top5", "ece")) and not _is_detail(k)
        }
        numbers = "  ".join(_format_number(k.removeprefix("train/"), v) for k, v in kept.items())
        self._bar.console.print(
            f"epoch {_epoch(trainer):>7}  {numbers}", highlight=False, soft_wrap=True
        )

    @override
    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._stop()

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._stop()  # Lightning tears nothing down after an error

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _is_detail(name: str) -> bool:
    return any(part in name for part in ("width/", "side/", "known/"))


def _epoch(trainer: Trainer) -> str:
    return f"{trainer.current_epoch + 1}/{trainer.max_epochs}"


def _format_number(name: str, value: float) -> str:
    words = name.replace("weight/", "λ ").replace("validation/", "val ").replace("/", " ")
    if name.endswith(("top1", "top5")):
        return f"{words} {value:.1%}"
    return f"{words} {value:.3f}"


class MetricsTable(AfterTask):
    """Writes a CSV with a row per epoch.

    The rows are part of the run's state: a resumed run ends with the table of an uninterrupted
    one.

    Arguments:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or not isinstance(pl_module, AugmentedTask):
            return
        names = list(dict.fromkeys(name for row in pl_module.history for name in row))
        text = io.StringIO()
        table = csv.DictWriter(text, names, lineterminator="\n")
        table.writeheader()
        table.writerows(pl_module.history)
        write_text(self.path, text.getvalue())


class SamplePictures(AfterTask):
    """Shows TensorBoard, after every epoch, samples of some images and how they are distributed.

    Widths of intervals go in as curves, sides of boxes as histograms, samples as a sheet with an
    image and its samples in each row.

    Arguments:
        images: The images to show, as the data set gives them.
        n_samples: Samples of each.
        every: Epochs between pictures.
    """

    def __init__(self, images: Tensor, *, n_samples: int = 7, every: int = 1) -> None:
        self.images, self.n_samples, self.every = images, n_samples, every

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        boards = [b for b in trainer.loggers if isinstance(b, TensorBoardLogger)]
        if not boards or not isinstance(pl_module, AugmentedTask) or not trainer.is_global_zero:
            return
        if (trainer.current_epoch + 1) % self.every:
            return
        board, step = boards[0].experiment, pl_module.n_steps
        board.add_image("samples", sample_sheet(pl_module, self.images, self.n_samples), step)
        if isinstance(pl_module.augmenter, InstaAug):
            self._add_distributions(pl_module, pl_module.augmenter, board, step)

    @torch.no_grad()
    def _add_distributions(
        self, task: AugmentedTask, augmenter: InstaAug, board: Any, step: int
    ) -> None:
        if augmenter.settings.conditioning == "class":
            return
        joint = augmenter.distribution(task.normalize(self.images.to(task.device)))
        for name, factor in joint.factors.items():
            if isinstance(factor, UniformBox):
                widths = (factor.high - factor.low).mean(dim=0)
                for i, width in enumerate(widths):
                    board.add_scalar(f"width/{name}/{i}", width, step)
            elif name in augmenter.phi.grids:
                draws = factor.theta(factor.draw(64, generator=_fixed_generator(task)))
                board.add_histogram(f"box side/{name}", draws[..., 2] / 2, step)


@torch.no_grad()
def sample_sheet(task: AugmentedTask, images: Tensor, n_samples: int) -> Tensor:
    """Each image followed by its samples, one row per image, on white, ``(C, height, width)``."""
    x = task.normalize(images.to(task.device))
    training = task.augmenter.training
    task.augmenter.eval()
    theta = task.augmenter.draw(x, n_samples, replace=True, generator=_fixed_generator(task))
    samples = task.augmenter.render(repeat_batch(x, n_samples), theta.flatten(0, 1))
    task.augmenter.train(training)
    cells = torch.cat(
        [task.augmenter.canonical(x)[None], samples.unflatten(0, (n_samples, len(x)))]
    )
    shown = (cells * task.std + task.mean).clamp(0, 1)
    framed = functional.pad(shown, (GAP, GAP, GAP, GAP), value=1.0)
    columns = framed.permute(0, 2, 1, 3, 4).flatten(2, 3)
    image, samples = columns[0], columns[1:].permute(1, 2, 0, 3).flatten(2, 3)
    return torch.cat([functional.pad(image, (0, 4 * GAP), value=1.0), samples], dim=2)


def _fixed_generator(task: AugmentedTask) -> torch.Generator:
    return torch.Generator(task.mean.device).manual_seed(0)
