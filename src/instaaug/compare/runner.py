"""Run every contender with every seed: each run a process, resumed after an interruption."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal, Protocol

from instaaug.compare.choosing import choose_settings_of
from instaaug.compare.contenders import Contender
from instaaug.compare.plan import (
    add_costs,
    check_reference,
    choose_epochs,
    describe_plan,
    plan_state,
    set_reference,
)
from instaaug.compare.results import read_comparison, write_tables
from instaaug.compare.single_run import FAILURE_PREFIX, STOPPED
from instaaug.compare.state import (
    Choice,
    ComparisonState,
    Failure,
    RunProgress,
    check_same_settings,
    count_epochs,
    find_split_mismatches,
    read_progress,
    read_state,
    write_failure,
    write_state,
)
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import lock_folder
from instaaug.report.comparison import MethodComparison
from instaaug.runs.folder import Run, check_outside
from instaaug.runs.pretrained import settle_pretrained
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import Interrupted

__all__ = [
    "ChildRun",
    "OnChange",
    "Outcome",
    "RunHandle",
    "StartRun",
    "read_log_tail",
    "run_comparison",
    "run_contenders",
]

PROGRAM = "instaaug.compare.single_run"
MAX_LOG_LINES = 20
MAX_LOG_BYTES = 1 << 16
POLL_SECONDS = 0.2
SAVE_TIMEOUT = 60.0  # seconds
OnChange = Callable[[Sequence[RunProgress]], None]
"""Receives the progress of all runs."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Arguments:
        status: ``"stopped"`` if it was asked to stop and can be resumed.
        failure: What went wrong.
    """

    status: Literal["done", "failed", "stopped"]
    failure: Failure | None = None


class RunHandle(Protocol):
    """A run that was started."""

    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs."""

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to save and end, or kill it."""


StartRun = Callable[[Path], RunHandle]


class ChildRun:
    """A process that trains the run in a folder; what it prints goes to ``log.txt`` there.

    A crash or a memory leak in it cannot hurt other runs. It has a session of its own: Ctrl-C
    reaches only the parent, which asks it once to stop.

    Arguments:
        folder: Holds the settings of the run, and perhaps a checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log.txt"
        self.stop_requested = False
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  # our own program
                (sys.executable, "-P", "-m", PROGRAM, str(folder)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        if self.process.stdin is not None:
            self.process.stdin.close()
        if code == 0:
            return Outcome("done")
        if code == STOPPED or (code < 0 and self.stop_requested):
            return Outcome("stopped")
        lines = read_log_tail(self.log)
        return Outcome("failed", Failure(_failure_sentence(code, lines), lines))

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to save and end, or kill it and all processes that it started."""
        self.stop_requested = True
        if self.process.poll() is not None:
            return
        if at_once:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.send_signal(signal.SIGTERM)


def read_log_tail(log: Path) -> list[str]:
    """The last lines of a log, without terminal escape sequences."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - MAX_LOG_BYTES))
        text = file.read().decode("utf-8", "replace")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")
    return [line for line in text.split("\n") if line.strip()][-MAX_LOG_LINES:]


def _failure_sentence(code: int, lines: list[str]) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        why = " Systems do that when memory runs out." if name == "SIGKILL" else ""
        return f"It was ended by {name}.{why}"
    if lines and lines[-1].startswith(FAILURE_PREFIX):
        return lines[-1].removeprefix(FAILURE_PREFIX)
    return f"It ended with the code {code}: {lines[-1] if lines else 'it printed nothing'}"


def run_comparison(
    base: TrainSettings,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    out: str | Path,
    *,
    budget: str | None = None,
    epochs_are_set: bool = True,
    reference: str | None = None,
    jobs: int = 1,
    retry: bool = False,
    n_trials: int = 0,
    times_steps: bool = True,
    start: StartRun = ChildRun,
    on_change: OnChange | None = None,
    on_message: Callable[[str], None] | None = None,
) -> MethodComparison:
    """Compare methods: what ``instaaug compare`` does but for what it prints.

    Chooses the epochs and, if asked to, settings on validation images; times the steps of each
    contender, runs what has not been run yet (see :func:`run_contenders`), and keeps the tables in
    ``out`` up to date.

    Arguments:
        base: The settings that all contenders share.
        contenders: Who takes part.
        seeds: One run of each contender with each.
        out: The folder of the comparison, new or to go on with.
        budget: Training time of a run without augmentation, such as ``"10m"``, which decides how
            many epochs all have.
        epochs_are_set: Whether ``base`` says how many epochs to train; otherwise a comparison that
            is there keeps its own.
        reference: Label of the contender that others are compared with; the best baseline if None.
        jobs: Runs at a time; they share the processors.
        retry: Whether runs that failed begin again.
        n_trials: Trials with which each contender chooses its settings on validation images
            beforehand; 0 takes settings as they are.
        times_steps: Whether steps of all contenders are timed first, in turns.
        start: Starts the run in a folder.
        on_change: Called with the progress of all runs whenever one of them has changed.
        on_message: Called with sentences for the user: the plan, trouble with tables.

    Raises:
        ArgumentError: If settings do not fit those in the folder, or another process uses it.
        Interrupted: After Ctrl-C or SIGTERM, when every run has saved itself.
    """
    out, base = Path(out), settle_pretrained(base.with_full_paths())
    say, show = on_message or _ignore, on_change or _ignore
    _check_one_process(base)
    check_outside(out, base.data.source)
    in_use = f"`out` must not be in use: another comparison is at work in {str(out)!r}."
    with lock_folder(out, error=in_use), _remove_if_empty_on_error(out):
        before = read_state(out)
        check_reference(before, contenders, reference)
        base, epoch_seconds = choose_epochs(base, before, budget, epochs_are_set=epochs_are_set)
        chosen: Mapping[str, Choice] = {} if before is None else before.chosen
        if n_trials:
            chosen = choose_settings_of(
                contenders, base, out, before, n_trials=n_trials, on_message=say
            )
        state = plan_state(out, base, contenders, seeds, budget, chosen)
        contenders = [state.with_choice(contender) for contender in contenders]
        _check_runs(state, base, contenders, out, retry=retry)
        state = set_reference(out, replace(state, epoch_seconds=epoch_seconds), reference)
        if times_steps:
            state = add_costs(
                state, contenders, base,
                on_timing=lambda labels: say(f"Timing training steps of {', '.join(labels)}."),
            )  # fmt: skip
        write_state(out, state)
        say(describe_plan(out, state, contenders, seeds, jobs=jobs, retry=retry))
        run_contenders(
            base, contenders, seeds, out, jobs=jobs, retry=retry, start=start,
            on_change=_also_write_tables(show, out, say),
            on_stop=lambda: say("Saving; press Ctrl-C again to end at once."),
        )  # fmt: skip
        return read_comparison(out)


def run_contenders(
    base: TrainSettings,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    out: str | Path,
    *,
    jobs: int = 1,
    retry: bool = False,
    start: StartRun = ChildRun,
    on_change: OnChange | None = None,
    on_stop: Callable[[], None] | None = None,
) -> list[RunProgress]:
    """Run what has not been run yet, seed by seed, so that early results are of the same seeds.

    Finished runs are kept, interrupted ones go on, failed ones stay failed. Each is in the folder
    ``out/LABEL/seed_S``; ``out/comparison.json`` lists what belongs together. The caller locks
    ``out``.

    Arguments:
        base: The settings that all contenders share.
        contenders: Who takes part.
        seeds: One run of each contender with each.
        out: The folder of the comparison; in an existing one, contenders and seeds may be added,
            but settings may not change.
        jobs: Runs at a time; they share the processors.
        retry: Whether runs that failed begin again.
        start: Starts the run in a folder.
        on_change: Called with the progress of all runs whenever one of them has changed.
        on_stop: Called when runs have been asked to save and end, which may take a while.

    Raises:
        ArgumentError: If what is in the folder has other settings or other images.
        Interrupted: After Ctrl-C or SIGTERM, when every run has saved itself.
    """
    folder, base = Path(out), settle_pretrained(base.with_full_paths())
    if jobs < 1 or not seeds:
        raise ArgumentError(f"`jobs` and `seeds` must be at least 1: got {jobs}, {len(seeds)}.")
    _check_one_process(base)
    if jobs > 1 and not base.trainer.threads:
        base = base.override({"trainer.threads": max(1, _n_processors() // jobs)})
    state = plan_state(folder, base, contenders, seeds)
    _check_runs(state, base, contenders, folder, retry=retry)
    write_state(folder, state)
    queue = _RunQueue(jobs, start, on_change or _ignore, on_stop or (lambda: None))
    for seed in seeds:
        for contender in contenders:
            settings = contender.full_settings(base).override({"seed": seed})
            queue.add(folder, contender.label, settings, retry=retry)
    queue.run_all()
    return queue.runs


def _ignore(_: Any) -> None:
    """The default callback."""


def _check_one_process(base: TrainSettings) -> None:
    """Raise if a run would be several processes: only one can be timed and asked to stop."""
    if base.trainer.devices * base.trainer.num_nodes > 1:
        raise ArgumentError(
            f"`trainer.devices` and `trainer.num_nodes` must be 1 in a comparison: got "
            f"{base.trainer.devices} and {base.trainer.num_nodes}. Use several by `jobs`."
        )


def _check_runs(
    state: ComparisonState,
    base: TrainSettings,
    contenders: Iterable[Contender],
    out: Path,
    *,
    retry: bool = False,
) -> None:
    """Raise if an existing run has other settings than those asked for, or other images."""
    runs = state.read_progress(out)
    wanted = {contender.label: contender.full_settings(base) for contender in contenders}
    for run in runs:
        files, begins_again = Run(run.folder), retry and run.status == "failed"
        if run.label in wanted and files.config_file.is_file() and not begins_again:
            check_same_settings(
                files.read_train_settings(),
                wanted[run.label].override({"seed": run.seed}),
                owner=f"the run {str(run.folder)!r}",
            )
    for other, usual in find_split_mismatches(runs):
        raise ArgumentError(
            f"`data` must be the same for all runs with a seed: {str(other.folder)!r} has the "
            f"split {other.images}, and {str(usual.folder)!r} has {usual.images}. Put the images "
            "back and remove the first folder, or choose another `out`."
        )


def _also_write_tables(show: OnChange, out: Path, say: Callable[[str], None]) -> OnChange:
    """A callback that writes the tables whenever a run ends; trouble with them stops no run."""
    n_written = -1
    reported: set[str] = set()

    def on_change(runs: Sequence[RunProgress]) -> None:
        nonlocal n_written
        show(runs)
        n_ended = sum(run.has_ended for run in runs)
        if n_ended == n_written:
            return
        n_written = n_ended
        try:
            write_tables(out, read_comparison(out))
        except (InstaAugError, OSError) as error:
            if str(error) not in reported:
                reported.add(str(error))
                say(f"There is no table yet: {error}")

    return on_change


@contextmanager
def _remove_if_empty_on_error(folder: Path) -> Iterator[None]:
    """Leave no empty folder behind where the settings are wrong."""
    try:
        yield
    except BaseException:  # Ctrl-C as well
        with suppress(OSError):  # the folder is not empty
            folder.rmdir()
        raise


class _RunQueue:
    """Runs that wait and runs that are in progress.

    Arguments:
        jobs: Runs at a time.
        start: Starts the run in a folder.
        on_change: Called with all runs when any has changed.
        on_stop: Called when runs have been asked to end.
    """

    def __init__(
        self, jobs: int, start: StartRun, on_change: OnChange, on_stop: Callable[[], None]
    ) -> None:
        self.jobs, self.start, self.on_change, self.on_stop = jobs, start, on_change, on_stop
        self.runs: list[RunProgress] = []
        self.waiting: dict[int, TrainSettings] = {}
        self.running: dict[int, RunHandle] = {}
        self.n_signals_handled = 0

    def add(self, out: Path, label: str, settings: TrainSettings, *, retry: bool) -> None:
        """Add a run, which waits unless it has ended before."""
        run = read_progress(out, label, settings.seed)
        if run.status == "failed" and retry:
            shutil.rmtree(run.folder)
            run = RunProgress(label, settings.seed, run.folder)
        if run.status == "waiting":
            self.waiting[len(self.runs)] = settings
        self.runs.append(replace(run, n_epochs=settings.trainer.max_epochs))

    def run_all(self) -> None:
        """Return when all runs have ended; raise if a signal came before."""
        self.on_change(self.runs)
        with _collect_stop_signals() as signals:
            try:
                while self.running or (self.waiting and not signals):
                    self._poll(signals)
                    time.sleep(POLL_SECONDS)
            finally:
                self._stop_all()
        if signals and not all(run.has_ended for run in self.runs):
            n_done = sum(run.status == "done" for run in self.runs)
            kept = "everything is saved"
            if len(signals) > 1:
                kept = "others keep their last checkpoint"
            raise Interrupted(
                f"Stopped by {signals[0]} with {n_done} of {len(self.runs)} runs finished; {kept}."
            )

    def _poll(self, signals: list[str]) -> None:
        before = list(self.runs)
        while self.waiting and len(self.running) < self.jobs and not signals:
            self._start_next()
        if len(signals) > self.n_signals_handled:
            self.n_signals_handled = len(signals)
            for handle in self.running.values():
                handle.stop(at_once=len(signals) > 1)
            if self.running and len(signals) == 1:
                self.on_stop()
        for number, handle in list(self.running.items()):
            run, outcome = self.runs[number], handle.outcome()
            if outcome is None:
                self.runs[number] = replace(run, epoch=count_epochs(run.folder))
            else:
                del self.running[number]
                self.runs[number] = _record_outcome(run, outcome)
        if self.runs != before:
            self.on_change(self.runs)

    def _start_next(self) -> None:
        number = next(iter(self.waiting))
        settings = self.waiting.pop(number)
        files = Run(self.runs[number].folder)
        if not files.config_file.is_file():
            files.start(settings)
        self.runs[number] = replace(self.runs[number], status="running")
        self.running[number] = self.start(files.path)

    def _stop_all(self) -> None:
        """Stop runs that are left, as there are only after an error of our own."""
        deadline = time.monotonic() + SAVE_TIMEOUT
        for handle in self.running.values():
            handle.stop()
        for handle in self.running.values():
            while handle.outcome() is None and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            if handle.outcome() is None:
                handle.stop(at_once=True)


def _record_outcome(run: RunProgress, outcome: Outcome) -> RunProgress:
    """The run with its result; a failure is written to its folder."""
    if outcome.status == "stopped":
        return replace(run, status="stopped", epoch=count_epochs(run.folder))
    ended = read_progress(run.folder.parents[1], run.label, run.seed)
    if ended.status == "done":  # or was killed after all had been written
        return replace(ended, n_epochs=run.n_epochs)
    failure = outcome.failure or Failure(ended.sentence or "It ended without a result.", [])
    write_failure(run.folder, failure)
    epoch = count_epochs(run.folder)
    return replace(run, status="failed", epoch=epoch, sentence=failure.sentence)


def _n_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _collect_stop_signals() -> Iterator[list[str]]:
    """The names of the signals that came; they have no other effect meanwhile."""
    names: list[str] = []

    def append_name(number: int, _: FrameType | None) -> None:
        names.append(signal.Signals(number).name)

    former: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # Python's condition for handlers
        former = {n: signal.signal(n, append_name) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield names
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
