"""Kill −9 at moments spread over the life of every command, then go on as the docs say."""

import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.reliability.commands import COMMANDS, Bench, ForkedRun, TriedCommand
from benchmarks.reliability.forks import Ended
from benchmarks.reliability.sites import WriteSites
from benchmarks.reliability.trials import Ledger, Outcome, Trials, summarize

__all__ = ["kill_command", "kills"]


def kills(trials: int, seed: int, folder: Path) -> list[Trials]:
    """One row per command, and another one for kills of a single run of a comparison."""
    bench, ledger = Bench(folder), Ledger(folder / "trials.jsonl")
    rows = []
    for command in COMMANDS:
        rows.append(_row(command, bench, ledger, trials, seed))
        if command.name == "compare":
            rows.append(_row(command, bench, ledger, trials, seed, child=True))
    return rows


def _row(
    command: TriedCommand, bench: Bench, ledger: Ledger, trials: int, seed: int,
    *, child: bool = False,
) -> Trials:  # fmt: skip
    what = f"{command.name}, one of its runs killed" if child else f"{command.name}, killed"
    outcomes = [
        ledger.outcome(
            f"{what} {seed} {number}",
            partial(_attempt, command, bench, number, trials, f"{what} {seed}", child),
        )
        for number in range(trials)
    ]
    return summarize(what, outcomes)


def _attempt(
    command: TriedCommand, bench: Bench, number: int, trials: int, seed: str, child: bool
) -> Outcome:
    bench.reference(command)
    kill = kill_run if child else kill_command
    moment = (number // 2 + random.Random(f"{seed} {number}").random()) / -(-trials // 2)  # noqa: S311
    kill(command, bench, moment, in_write=number % 2 == 0)
    ended = bench.run(command.next_words(bench.here, number // 2))
    if not bench.wait_for_orphans():
        return Outcome("lost", "a process lives on")
    return bench.verdict(command, ended)


def kill_command(command: TriedCommand, bench: Bench, moment: float, *, in_write: bool) -> Ended:
    """Start a command and kill it.

    Arguments:
        command: The command.
        bench: Where it runs; what it leaves is there afterwards.
        moment: From 0, its beginning, to 1, its end.
        in_write: Whether to count what it writes, else the time it takes.
    """
    for share in _ever_earlier(moment):
        bench.clear(command)
        if in_write:
            at = 1 + int(share * len(bench.sites[command.name]))
            ended = bench.run(command.words, WriteSites(bench.here, at=at).install)
        else:
            running = bench.start(command.words)
            running.kill_at(share * bench.seconds[command.name])
            ended = running.wait()
        if ended.code == -signal.SIGKILL:
            return ended
    raise RuntimeError(f"{command.name} could not be killed")


def kill_run(command: TriedCommand, bench: Bench, moment: float, *, in_write: bool) -> Ended:
    """Start a comparison of two runs and kill one of these, in the same way."""
    which, within = divmod(2 * moment, 1.0)
    for share in _ever_earlier(within):
        bench.clear(command)

        def on_start(share: float = share) -> None:
            turn = len(list(bench.here.glob("all/*/seed_0/log.txt"))) - 1
            if turn != int(which):
                return
            if in_write:
                at = 1 + int(share * len(bench.sites[command.name]) / 3)
                WriteSites(bench.here, at=at).install()
            else:
                _kill_later(share * bench.seconds[command.name] / 3)

        ended = bench.run(command.words, partial(setattr, ForkedRun, "on_start", on_start))
        if any(bench.here.glob("all/*/seed_0/failure.json")):
            return ended
    raise RuntimeError(f"no run of {command.name} could be killed")


def _kill_later(seconds: float) -> None:
    """Have this process killed by another one."""
    this = os.getpid()
    if os.fork() == 0:
        time.sleep(seconds)
        if os.getppid() == this:
            os.kill(this, signal.SIGKILL)
        os._exit(0)


def _ever_earlier(moment: float) -> Iterator[float]:
    """A moment; then earlier ones, for a command that was faster than expected."""
    for power in range(8):
        yield moment * 0.7**power
