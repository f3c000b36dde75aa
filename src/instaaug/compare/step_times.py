"""Training steps of several runs, timed in turns: a slow moment of the machine hits them all."""

import logging
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from typing_extensions import override

from instaaug.errors import InstaAugError
from instaaug.methods import find_method
from instaaug.runs.lightning import LOGGERS
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from instaaug.tasks.callbacks import AfterTask

__all__ = ["StepTimes", "plainest", "timed_steps"]

N_WARM_UP, N_TIMED = 3, 24
LONGEST = 600.0  # seconds of steps of all runs together, after which fewer rounds must do
SHORTEST = {"n_folds": 1, "n_trials": 1, "fold_epochs": 1}  # search of fast_autoaugment
VALIDATION = 1 / 3  # of the time of a training step: the forward pass alone


@dataclass
class StepTimes:
    """What was measured of a run.

    Arguments:
        seconds: Of its steps that count, in order.
        steps_per_epoch: Training steps, and validation as the steps that take as long.
        period: Steps after which its work repeats: a search, say, that is not in every step.
        error: Why it could not go on.
    """

    seconds: list[float] = field(default_factory=list)
    steps_per_epoch: float = 0.0
    period: int = 1
    error: Exception | None = None


def timed_steps(
    configs: Mapping[str, TrainSettings], *, n_warm_up: int = N_WARM_UP, n_timed: int = N_TIMED
) -> dict[str, StepTimes]:
    """Time steps of real training: one of each run, then the next of each, and so on.

    Every run is trained by a thread of its own, of which one is awake at a time.

    Arguments:
        configs: Settings by name.
        n_warm_up: First steps that do not count.
        n_timed: Steps that do; more if that makes whole periods, fewer if they take very long.
    """
    ring = _Ring(n_warm_up, n_timed)
    threads = []
    with TemporaryDirectory() as folder, _as_before():
        try:
            for number, (name, config) in enumerate(configs.items()):
                times = ring.join(name)
                work = (_shortened(config, n_warm_up + n_timed), Path(folder) / str(number))
                thread = threading.Thread(
                    target=_train, args=(*work, ring, name, times), daemon=True
                )
                threads.append(thread)
                thread.start()
                ring.wait_until_ready(name)
            ring.begin()
            ring.wait_until_over()
        finally:
            ring.end()
            for thread in threads:
                thread.join()
    for times in ring.times.values():
        del times.seconds[:n_warm_up]
    return ring.times


def plainest(config: TrainSettings) -> TrainSettings:
    """The same run without any method."""
    return config.override({"method": "none", "phi.step": "joint"})


def _shortened(config: TrainSettings, n_steps: int) -> TrainSettings:
    """A run that augments from its first step, and has so many of them."""
    if find_method(config.method.name).needs_search:  # which comes before its steps
        config = config.override({"method": SHORTEST})
    changes = {"trainer.max_epochs": n_steps + 1, "pretrain_epochs": 0, "phi.rest_epochs": 0}
    return config.override(changes)


def _train(config: TrainSettings, out: Path, ring: "_Ring", name: str, times: StepTimes) -> None:
    try:
        train(config, out, callbacks=[_Turns(ring, name, times)])
    except _Enough:
        pass
    except Exception as error:
        times.error = error
    finally:
        ring.leave(name)


class _Enough(InstaAugError):  # noqa: N818  # nothing went wrong
    """Enough steps were timed."""


class _Ring:
    """Whose turn it is.

    Arguments:
        n_warm_up: First steps that do not count.
        n_timed: Steps that do.
    """

    def __init__(self, n_warm_up: int, n_timed: int) -> None:
        self.n_warm_up, self.n_timed = n_warm_up, n_timed
        self.times: dict[str, StepTimes] = {}
        self.members: list[str] = []
        self.ready: set[str] = set()
        self.turn: str | None = None
        self.is_over = False
        self.until = float("inf")
        self._changed = threading.Condition()

    def join(self, name: str) -> StepTimes:
        """One more, who has not begun yet."""
        self.members.append(name)
        self.times[name] = StepTimes()
        return self.times[name]

    def wait_until_ready(self, name: str) -> None:
        """Until it waits for its turn, or has left."""
        with self._changed:
            self._changed.wait_for(lambda: name in self.ready or name not in self.members)

    def begin(self) -> None:
        """Give the first one its turn."""
        with self._changed:
            self.until = time.monotonic() + LONGEST
            least = self.n_timed
            for period in (times.period for times in self.times.values()):
                self.n_timed = max(self.n_timed, period * ceil(least / period))
            self.turn = self.members[0] if self.members else None
            self._changed.notify_all()

    def wait_until_over(self) -> None:
        """Until all have done their steps, or have left."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or not self.members)

    def take(self, name: str) -> bool:
        """Wait for its turn; False if all is over."""
        with self._changed:
            self.ready.add(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_over or self.turn == name)
            return not self.is_over

    def pass_on(self, name: str) -> None:
        """Give the turn to the next one; all is over when the last one has done its steps."""
        with self._changed:
            place = self.members.index(name)
            self.turn = self.members[(place + 1) % len(self.members)]
            if place == len(self.members) - 1:
                n_done = len(self.times[name].seconds) - self.n_warm_up
                is_late = n_done > 0 and time.monotonic() > self.until
                self.is_over |= n_done >= self.n_timed or is_late
            self._changed.notify_all()

    def leave(self, name: str) -> None:
        """Go on without it."""
        with self._changed:
            place = self.members.index(name)
            self.members.remove(name)
            if self.turn == name and self.members:
                self.turn = self.members[place % len(self.members)]
            self._changed.notify_all()

    def end(self) -> None:
        """Wake all, who then end."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()


class _Turns(AfterTask):
    """Lets a run take a step whenever it is its turn, and notes how long that took."""

    def __init__(self, ring: _Ring, name: str, times: StepTimes) -> None:
        self.ring, self.name, self.times = ring, name, times
        self._began = 0.0

    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        n_validation = sum(n for n in trainer.num_val_batches if isinstance(n, int))
        n_training = float(trainer.num_training_batches)
        self.times.steps_per_epoch = n_training + VALIDATION * n_validation
        self.times.period = getattr(getattr(pl_module, "augmenter", None), "search_every", 1)
        if not self.ring.take(self.name):
            raise _Enough("Enough steps were timed.")
        self._began = _now(pl_module)

    @override
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.times.seconds.append(_now(pl_module) - self._began)
        self.ring.pass_on(self.name)


def _now(module: LightningModule) -> float:
    if module.device.type == "cuda":
        torch.cuda.synchronize(module.device)
    return time.perf_counter()


@contextmanager
def _as_before() -> Iterator[None]:
    """Threads that train put filters and levels back in any order: do it again, in the right."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    n_threads = torch.get_num_threads()
    with warnings.catch_warnings():
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
