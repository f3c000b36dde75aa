"""Run every contender with every seed; go on after an interruption; one failure stops no other."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from instaaug.compare.child_run import ChildRun, Outcome, StartedRun
from instaaug.compare.contenders import Contender
from instaaug.compare.standings import (
    Standing,
    epochs_done,
    on_other_images,
    standing_of,
)
from instaaug.compare.state import (
    ComparisonState,
    Failure,
    check_same,
    read_state,
    write_failure,
    write_state,
)
from instaaug.errors import ArgumentError
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import Interrupted

__all__ = ["check_one_process", "check_runs", "compare", "joined_state"]

Start = Callable[[Path], StartedRun]
SECONDS_BETWEEN = 0.2
SECONDS_TO_SAVE = 60.0
OnChange = Callable[[Sequence[Standing]], None]


def compare(
    base: TrainSettings,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    out: str | Path,
    *,
    jobs: int = 1,
    retry: bool = False,
    budget: str | None = None,
    start: Start = ChildRun,
    on_change: OnChange | None = None,
    on_stop: Callable[[], None] | None = None,
) -> list[Standing]:
    """Run what has not been run yet, seed by seed, so that early results are of the same seeds.

    Finished runs are kept, interrupted ones go on, failed ones stay failed. Each is in the folder
    ``out/LABEL/seed_S``; ``out/comparison.json`` says what belongs together. The caller keeps
    others away from ``out``, by :func:`~instaaug.compare.state.claimed_by_one`.

    Arguments:
        base: The settings that all share.
        contenders: Who takes part.
        seeds: One run of each contender with each.
        out: The folder of the comparison; in one that is there, more contenders or seeds may be
            asked for, but no other settings.
        jobs: Runs at a time; they share the processors.
        retry: Whether runs that failed begin again.
        budget: What the epochs were chosen for, to be noted.
        start: Sets a process to work on the run in a folder.
        on_change: Called with all runs whenever one of them gets on.
        on_stop: Called when runs have been asked to save and end, which may take a while.

    Raises:
        ArgumentError: If what is in the folder has other settings or other images.
        Interrupted: After Ctrl-C or SIGTERM, when every run has saved itself.
    """
    folder, base = Path(out), base.with_full_paths()
    if jobs < 1 or not seeds:
        raise ArgumentError(f"`jobs` and `seeds` must be at least 1: got {jobs}, {len(seeds)}.")
    check_one_process(base)
    if jobs > 1 and not base.trainer.threads:
        base = base.override({"trainer.threads": max(1, _n_processors() // jobs)})
    state = joined_state(folder, base, contenders, seeds, budget)
    check_runs(state, base, contenders, folder, retry=retry)
    write_state(folder, state)
    work = _Work(jobs, start, on_change or (lambda _: None), on_stop or (lambda: None))
    for seed in seeds:
        for contender in contenders:
            config = contender.config(base).override({"seed": seed})
            work.add(folder, contender.label, config, retry=retry)
    work.finish()
    return work.standings


def check_one_process(base: TrainSettings) -> None:
    """Raise if a run would be several processes: only one can be timed, and asked to stop."""
    if base.trainer.devices * base.trainer.num_nodes > 1:
        raise ArgumentError(
            f"`trainer.devices` and `trainer.num_nodes` must be 1 in a comparison: got "
            f"{base.trainer.devices} and {base.trainer.num_nodes}. Use several by `jobs`."
        )


def check_runs(
    state: ComparisonState,
    base: TrainSettings,
    contenders: Iterable[Contender],
    out: Path,
    *,
    retry: bool = False,
) -> None:
    """Raise if a run that is there has other settings than those asked for, or other images."""
    standings = [
        standing_of(out, label, seed) for label, seeds in state.seeds.items() for seed in seeds
    ]
    wanted = {contender.label: contender.config(base) for contender in contenders}
    for standing in standings:
        run, begins_again = Run(standing.folder), retry and standing.status == "failed"
        if standing.label in wanted and run.config_file.is_file() and not begins_again:
            what = f"the run {str(run.path)!r}"
            there = run.read_train_settings()
            check_same(there, wanted[standing.label].override({"seed": standing.seed}), what=what)
    for other, usual in on_other_images(standings):
        raise ArgumentError(
            f"`data` must be the same for all runs with a seed: {str(other.folder)!r} has the "
            f"split {other.images}, and {str(usual.folder)!r} has {usual.images}. Put the images "
            "back and remove the first folder, or choose another `out`."
        )


def joined_state(
    out: Path,
    base: TrainSettings,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    budget: str | None = None,
) -> ComparisonState:
    """What is in the folder and what is asked for, together; raise if they do not fit."""
    asked = ComparisonState(
        settings=base.to_mapping(),
        contenders={c.label: dict(c.settings) for c in contenders},
        seeds={c.label: sorted(set(seeds)) for c in contenders},
        budget=budget,
    )
    before = read_state(out)
    return asked if before is None else before.joined(asked)


class _Work:
    """Runs that wait and runs that are at work.

    Arguments:
        jobs: Runs at a time.
        start: Sets a process to work on the run in a folder.
        on_change: Called when anything has changed.
        on_stop: Called when runs have been asked to end.
    """

    def __init__(
        self, jobs: int, start: Start, on_change: OnChange, on_stop: Callable[[], None]
    ) -> None:
        self.jobs, self.start, self.on_change, self.on_stop = jobs, start, on_change, on_stop
        self.standings: list[Standing] = []
        self.configs: dict[int, TrainSettings] = {}  # of those that wait
        self.running: dict[int, StartedRun] = {}
        self.n_passed_on = 0

    def add(self, out: Path, label: str, config: TrainSettings, *, retry: bool) -> None:
        """One more run, which waits unless it has ended before."""
        standing = standing_of(out, label, config.seed)
        if standing.status == "failed" and retry:
            shutil.rmtree(standing.folder)
            standing = Standing(label, config.seed, standing.folder)
        if standing.status == "waiting":
            self.configs[len(self.standings)] = config
        self.standings.append(standing)

    def finish(self) -> None:
        """Come back when all has ended; raise if someone wished to stop before."""
        self.on_change(self.standings)
        with _wishes_to_stop() as wishes:
            try:
                while self.running or (self.configs and not wishes):
                    self._pass(wishes)
                    time.sleep(SECONDS_BETWEEN)
            finally:
                self._leave_nobody_behind()
        if wishes and not all(s.status in ("done", "failed") for s in self.standings):
            n_done = sum(s.status == "done" for s in self.standings)
            was_asked_once = len(wishes) == 1
            kept = "everything is saved" if was_asked_once else "others keep their last checkpoint"
            raise Interrupted(
                f"Stopped by {wishes[0]} with {n_done} of {len(self.standings)} runs finished; "
                f"{kept}."
            )

    def _pass(self, wishes: list[str]) -> None:
        before = list(self.standings)
        while self.configs and len(self.running) < self.jobs and not wishes:
            self._start_next()
        if len(wishes) > self.n_passed_on:
            self.n_passed_on = len(wishes)
            for run in self.running.values():
                run.stop(at_once=len(wishes) > 1)
            if self.running and len(wishes) == 1:
                self.on_stop()
        for number, run in list(self.running.items()):
            standing = self.standings[number]
            outcome = run.outcome()
            if outcome is None:
                self.standings[number] = replace(standing, epoch=epochs_done(standing.folder))
            else:
                del self.running[number]
                self.standings[number] = _ended(standing, outcome)
        if self.standings != before:
            self.on_change(self.standings)

    def _start_next(self) -> None:
        number = next(iter(self.configs))
        config = self.configs.pop(number)
        run = Run(self.standings[number].folder)
        if not run.config_file.is_file():
            run.start(config)
        self.standings[number] = replace(self.standings[number], status="running")
        self.running[number] = self.start(run.path)

    def _leave_nobody_behind(self) -> None:
        """Only after an error of our own is anybody left."""
        until = time.monotonic() + SECONDS_TO_SAVE
        for run in self.running.values():
            run.stop()
        for run in self.running.values():
            while run.outcome() is None and time.monotonic() < until:
                time.sleep(SECONDS_BETWEEN)
            if run.outcome() is None:
                run.stop(at_once=True)


def _ended(standing: Standing, outcome: Outcome) -> Standing:
    """What a run has come to; a failure is noted in its folder."""
    if outcome.status == "stopped":
        return replace(standing, status="stopped", epoch=epochs_done(standing.folder))
    failure = outcome.failure
    if outcome.status == "done":
        found = standing_of(standing.folder.parents[1], standing.label, standing.seed)
        if found.status == "done":
            return found
        failure = Failure(found.sentence or "It ended without a result.", [])
    assert failure is not None  # noqa: S101  # of everything that failed
    write_failure(standing.folder, failure)
    epoch = epochs_done(standing.folder)
    return replace(standing, status="failed", epoch=epoch, sentence=failure.sentence)


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _wishes_to_stop() -> Iterator[list[str]]:
    """The names of the signals that came; they do nothing else meanwhile."""
    wishes: list[str] = []

    def note(number: int, _: FrameType | None) -> None:
        wishes.append(signal.Signals(number).name)

    former: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python's condition for handlers
        former = {n: signal.signal(n, note) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wishes
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
