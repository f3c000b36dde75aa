"""One line that says how far a run is."""

import time
from math import isfinite
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from typing_extensions import override

from instaaug.tasks.after_task import AfterTask
from instaaug.tasks.task import AugmentedTask

__all__ = ["RichProgress"]

SECONDS_BETWEEN = 0.2


class RichProgress(AfterTask):
    """A bar over all steps: epoch, step, loss, entropy, λ, time left; and a line per epoch.

    Arguments:
        console: Where to draw; on anything but a terminal only the lines are printed.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._bar: Progress | None = None
        self._line = TaskID(0)
        self._drawn_at = 0.0

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101  # made for our tasks
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            TextColumn("step {task.completed}{task.fields[of]}  {task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
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
        if self._bar is None or now - self._drawn_at < SECONDS_BETWEEN:
            return
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        self._drawn_at = now
        numbers = {n: float(v) for n, v in pl_module.latest.items() if not _is_detail(n)}
        self._bar.update(
            self._line,
            completed=pl_module.n_steps,
            epoch=_epoch(trainer),
            numbers="  ".join(_shown(name, value) for name, value in numbers.items()),
        )

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
        numbers = "  ".join(_shown(k.removeprefix("train/"), v) for k, v in kept.items())
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
    return "width/" in name or "side/" in name


def _epoch(trainer: Trainer) -> str:
    return f"{trainer.current_epoch + 1}/{trainer.max_epochs}"


def _shown(name: str, value: float) -> str:
    words = name.replace("weight/", "λ ").replace("validation/", "val ").replace("/", " ")
    if name.endswith(("top1", "top5")):
        return f"{words} {value:.1%}"
    return f"{words} {value:.3f}"
