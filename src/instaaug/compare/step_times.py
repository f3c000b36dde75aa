"""What training steps cost: steps of several runs, timed in turns on the same machine."""

import logging
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningModule, Trainer
from typing_extensions import override

from instaaug.errors import ArgumentError, DataError, InstaAugError, ShapeError, UnknownNameError
from instaaug.methods import find_method
from instaaug.runs.lightning import LOGGERS
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from instaaug.tasks.callbacks import AfterTask

__all__ = [
    "StepCost",
    "StepTimes",
    "measure_epoch",
    "measure_step_costs",
    "step_cost",
    "time_steps",
    "without_augmentation",
]

N_WARM_UP, N_TIMED = 3, 24
MAX_SECONDS = 600.0  # for the steps of all runs together; after that, fewer rounds must do
SHORTEST_SEARCH = {"n_folds": 1, "n_trials": 1, "fold_epochs": 1}  # of fast_autoaugment
VALIDATION_COST = 1 / 3  # of a training step: the forward pass alone
MIN_ROUND_STEPS = 3
GROUP_SIZE = 6  # contenders whose models are in memory at a time
USER_ERRORS = (ArgumentError, DataError, ShapeError, UnknownNameError)


@dataclass
class StepTimes:
    """What was measured of a run.

    Arguments:
        seconds: Duration of each step after the warm-up.
        steps_per_epoch: Training steps, plus validation counted in training steps.
        period: Steps after which its work repeats, for a method that searches now and then.
        error: Why it could not go on.
    """

    seconds: list[float] = field(default_factory=list)
    steps_per_epoch: float = 0.0
    period: int = 1
    error: Exception | None = None


class StepCost(NamedTuple):
    """The duration of a training step, as a ratio to one without augmentation.

    Arguments:
        median: The median over rounds of steps.
        low: The lower quartile.
        high: The upper quartile.
    """

    median: float
    low: float
    high: float


def time_steps(
    runs: Mapping[str, TrainSettings], *, n_warm_up: int = N_WARM_UP, n_timed: int = N_TIMED
) -> dict[str, StepTimes]:
    """Time steps of real training: one of each run, then the next of each, and so on.

    A moment in which the machine is slow thus affects all runs. Every run is trained by a thread
    of its own, of which one is awake at a time.

    Arguments:
        runs: Settings by name.
        n_warm_up: First steps that do not count.
        n_timed: Steps that do; more if that makes whole periods, fewer if they take very long.
    """
    turns = _Turns(n_warm_up, n_timed)
    threads = []
    with TemporaryDirectory() as folder, _restore_globals():
        try:
            for number, (name, settings) in enumerate(runs.items()):
                times = turns.join(name)
                arguments = (
                    _shorten(settings, n_warm_up + n_timed), Path(folder) / str(number),
                    turns, name, times,
                )  # fmt: skip
                thread = threading.Thread(target=_train, args=arguments, daemon=True)
                threads.append(thread)
                thread.start()
                turns.wait_until_ready(name)
            turns.begin()
            turns.wait_until_over()
        finally:
            turns.end()
            for thread in threads:
                thread.join()
    for times in turns.times.values():
        del times.seconds[:n_warm_up]
    return turns.times


def measure_epoch(settings: TrainSettings) -> float:
    """Seconds of an epoch without augmentation, extrapolated from a few steps."""
    times = time_steps({"none": without_augmentation(settings)})["none"]
    if times.error is not None:
        raise times.error
    return median(times.seconds) * times.steps_per_epoch


def measure_step_costs(
    runs: Mapping[str, TrainSettings], base: TrainSettings
) -> dict[str, StepCost]:
    """Time real training steps of contenders, in turns with steps without augmentation.

    Arguments:
        runs: Settings by label.
        base: The settings that all contenders share, used for the steps without augmentation.

    Returns:
        Costs by label, without contenders that failed (their runs will report why) and those
        too slow to finish one period.

    Raises:
        ArgumentError: If the settings of a contender cannot work with these images.
    """
    labels = list(runs)
    costs = {}
    for first in range(0, len(labels), GROUP_SIZE):
        group = {label: runs[label] for label in labels[first : first + GROUP_SIZE]}
        times = time_steps({"": without_augmentation(base), **group})
        _raise_user_errors(times)
        for label in group:
            found = times[label]
            if found.error is None and len(found.seconds) >= found.period:
                costs[label] = step_cost(found.seconds, times[""].seconds, period=found.period)
    return costs


def step_cost(seconds: Sequence[float], without: Sequence[float], *, period: int = 1) -> StepCost:
    """The ratio of steps that were timed in turns, over rounds of whole periods.

    Arguments:
        seconds: Durations of steps with a method.
        without: Durations of steps without augmentation.
        period: Steps after which the method's work repeats.

    Example:
        >>> every_fourth_searches = [1.0, 1.0, 1.0, 5.0] * 6
        >>> step_cost(every_fourth_searches, [1.0] * 24, period=4)
        StepCost(median=2.0, low=2.0, high=2.0)
    """
    n = min(len(seconds), len(without))
    size = min(period * ceil(MIN_ROUND_STEPS / period), n - n % period) or n
    ratios = [
        sum(seconds[i : i + size]) / sum(without[i : i + size])
        for i in range(0, n - size + 1, size)
    ]
    low, _, high = quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
    return StepCost(median(ratios), low, high)


def without_augmentation(settings: TrainSettings) -> TrainSettings:
    """The same run without any method."""
    return settings.override({"method": "none", "phi.step": "joint"})


def _raise_user_errors(times: Mapping[str, StepTimes]) -> None:
    if (error := times[""].error) is not None:
        raise error  # nothing can be trained
    for label, found in times.items():
        if isinstance(found.error, USER_ERRORS):
            raise ArgumentError(f"{found.error} (the contender {label})") from found.error


def _shorten(settings: TrainSettings, n_steps: int) -> TrainSettings:
    """The settings of a run with at least ``n_steps`` steps, augmented from the first one on."""
    if find_method(settings.method.name).needs_search:  # before its first step
        settings = settings.override({"method": SHORTEST_SEARCH})
    no_others = {"pretrain_epochs": 0, "finetune_epochs": 0, "phi.rest_epochs": 0}
    changes = {"trainer.max_epochs": n_steps + 1, **no_others}
    return settings.override(changes)


def _train(
    settings: TrainSettings, out: Path, turns: "_Turns", name: str, times: StepTimes
) -> None:
    try:
        train(settings, out, callbacks=[_TakeTurns(turns, name, times)])
    except _EnoughSteps:
        pass
    except Exception as error:
        times.error = error
    finally:
        turns.leave(name)


class _EnoughSteps(InstaAugError):  # noqa: N818  # nothing went wrong
    """Enough steps were timed."""


class _Turns:
    """Lets one run at a time take a step.

    Arguments:
        n_warm_up: First steps that do not count.
        n_timed: Steps that count.
    """

    def __init__(self, n_warm_up: int, n_timed: int) -> None:
        self.n_warm_up, self.n_timed = n_warm_up, n_timed
        self.times: dict[str, StepTimes] = {}
        self.members: list[str] = []
        self.ready: set[str] = set()
        self.turn: str | None = None
        self.is_over = False
        self.deadline = float("inf")
        self._changed = threading.Condition()

    def join(self, name: str) -> StepTimes:
        """Add a run, which has not begun yet."""
        self.members.append(name)
        self.times[name] = StepTimes()
        return self.times[name]

    def wait_until_ready(self, name: str) -> None:
        """Block until a run waits for its turn or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: name in self.ready or name not in self.members)

    def begin(self) -> None:
        """Give the first run its turn."""
        with self._changed:
            self.deadline = time.monotonic() + MAX_SECONDS
            least = self.n_timed
            for period in (times.period for times in self.times.values()):
                self.n_timed = max(self.n_timed, period * ceil(least / period))
            self.turn = self.members[0] if self.members else None
            self._changed.notify_all()

    def wait_until_over(self) -> None:
        """Block until all runs have done their steps or have ended."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or not self.members)

    def take(self, name: str) -> bool:
        """Block until it is the run's turn; False if timing is over."""
        with self._changed:
            self.ready.add(name)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_over or self.turn == name)
            return not self.is_over

    def pass_on(self, name: str) -> None:
        """Give the turn to the next run; timing is over when the last one has done its steps."""
        with self._changed:
            place = self.members.index(name)
            self.turn = self.members[(place + 1) % len(self.members)]
            if place == len(self.members) - 1:
                n_done = len(self.times[name].seconds) - self.n_warm_up
                is_late = n_done > 0 and time.monotonic() > self.deadline
                self.is_over |= n_done >= self.n_timed or is_late
            self._changed.notify_all()

    def leave(self, name: str) -> None:
        """Remove a run that has ended."""
        with self._changed:
            place = self.members.index(name)
            self.members.remove(name)
            if self.turn == name and self.members:
                self.turn = self.members[place % len(self.members)]
            self._changed.notify_all()

    def end(self) -> None:
        """Wake all runs, so that they end."""
        with self._changed:
            self.is_over = True
            self._changed.notify_all()


class _TakeTurns(AfterTask):
    """Makes a run wait for its turn before each step, and records how long the step took."""

    def __init__(self, turns: _Turns, name: str, times: StepTimes) -> None:
        self.turns, self.name, self.times = turns, name, times
        self._began = 0.0

    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        n_validation = sum(n for n in trainer.num_val_batches if isinstance(n, int))
        n_training = float(trainer.num_training_batches)
        self.times.steps_per_epoch = n_training + VALIDATION_COST * n_validation
        self.times.period = getattr(pl_module, "period", 1)
        if not self.turns.take(self.name):
            raise _EnoughSteps("Enough steps were timed.")
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
        self.turns.pass_on(self.name)


def _now(module: LightningModule) -> float:
    if module.device.type == "cuda":
        torch.cuda.synchronize(module.device)
    return time.perf_counter()


@contextmanager
def _restore_globals() -> Iterator[None]:
    """Restore log levels, warning filters and thread counts, which runs restore in any order."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    n_threads = torch.get_num_threads()
    with warnings.catch_warnings():
        try:
            yield
        finally:
            torch.set_num_threads(n_threads)
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
