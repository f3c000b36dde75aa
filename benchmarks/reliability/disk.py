"""Disks that are full, read-only or gone, at every place where something is written."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.reliability.commands import COMMANDS, Bench, TriedCommand
from benchmarks.reliability.forks import Ended
from benchmarks.reliability.sites import Act, WriteSites, no_room, read_only
from benchmarks.reliability.trials import Ledger, Outcome, Trials, summarize

__all__ = ["disk", "try_site"]

WITH_SITES = ("train", "tta fit", "transfer", "report")
SMALL_DISKS = (16, 48, 96, 160, 256, 384, 512, 640)  # kB
LARGE_DISK = 65536  # kB
AT_ONCE = 6  # moments at which a second command is started


def disk(trials: int, seed: int, folder: Path) -> list[Trials]:  # noqa: ARG001  # a Part has it
    """Rows for each command and each trouble; none depends on chance, so ``seed`` has no use.

    Every place is tried for a full disk: the first of all writes in a row to the same file, each
    flush, each renaming. A fifth of ``trials`` is how many of them, at most and evenly spread, are
    tried for the others.
    """
    bench, ledger = Bench(folder), Ledger(folder / "trials.jsonl")
    commands = [command for command in COMMANDS if command.name in WITH_SITES]
    full = "full from the n-th write on"
    rows = [_sites(command, bench, ledger, full, no_room, 10**6) for command in commands]
    for command in commands:
        few = max(1, trials // 5)
        rows.append(
            _sites(command, bench, ledger, "read-only from the n-th write on", read_only, few)
        )
        vanish = partial(_remove_once, bench.here / command.out)
        rows.append(
            _sites(command, bench, ledger, "folder removed at the n-th write", vanish, few)
        )
    rows.append(_small_disks(bench, ledger, COMMANDS[0]))
    n_moments = max(1, trials * AT_ONCE // 50)
    return rows + [_two_at_once(command, bench, ledger, n_moments) for command in COMMANDS]


def _sites(
    command: TriedCommand, bench: Bench, ledger: Ledger, trouble: str, act: Act, most: int
) -> Trials:
    what = f"{command.name}, {trouble}"
    places = [
        int(n) for n in ledger.note(f"{what}: places", lambda: bench.places(command)).split()
    ]
    outcomes = [
        ledger.outcome(f"{what} {at}", partial(try_site, command, bench, at, act))
        for at in places[:: max(1, -(-len(places) // most))]
    ]
    return summarize(what, outcomes)


def try_site(command: TriedCommand, bench: Bench, at: int, act: Act) -> Outcome:
    """Trouble from the n-th write on; when it is over, the same command goes on."""
    bench.reference(command)
    bench.clear(command)
    ended = bench.run(command.words, WriteSites(bench.here, at=at, act=act).install)
    if not ended.code:  # what could not be written was not needed
        return bench.verdict(command, ended)
    if problem := _badly_told(bench, ended, may_remove=act is not read_only):
        return Outcome("lost", problem)
    return bench.verdict(command, bench.run(command.next_words(bench.here, at)))


def _badly_told(bench: Bench, ended: Ended, *, may_remove: bool = True) -> str:
    """What is wrong with the ending of a command in trouble: no sentence, or half a file."""
    if ended.code and not ended.sentence:
        return f"code {ended.code}, no sentence: {ended.text[-1500:]}"
    if ended.code and "'" not in ended.sentence:
        return f"no path: {ended.sentence}"
    if may_remove and (left := [file.name for file in bench.here.rglob(".*.part")]):
        return f"{left[0]} is left over"
    return ""


def _remove_once(folder: Path, _: str, __: str) -> None:
    """Remove a folder; not again when it has been made anew."""
    mark = folder.parent.with_name("removed")
    if not mark.exists():
        subprocess.run(["rm", "-rf", str(folder)], check=True)  # noqa: S603, S607
        Path(mark).touch()


def _small_disks(bench: Bench, ledger: Ledger, command: TriedCommand) -> Trials:
    """A file system in memory that is too small, and then is not."""
    what = f"{command.name}, on a file system of {SMALL_DISKS[0]} to {SMALL_DISKS[-1]} kB"
    bench.clear(command)
    try:
        with _mounted(bench.here, LARGE_DISK):
            pass
    except OSError as error:
        return Trials(what, 0, 0, note=f"skipped: {error}")
    outcomes = [
        ledger.outcome(f"{what} {size}", partial(_try_size, command, bench, size))
        for size in SMALL_DISKS
    ]
    return summarize(what, outcomes)


def _try_size(command: TriedCommand, bench: Bench, size: int) -> Outcome:
    bench.reference(command)
    bench.clear(command)
    with _mounted(bench.here, size) as resize:
        if problem := _badly_told(bench, bench.run(command.words)):
            return Outcome("lost", problem)
        resize(LARGE_DISK)
        return bench.verdict(command, bench.run(command.next_words(bench.here, 0)))


@contextmanager
def _mounted(folder: Path, size: int) -> Iterator[Callable[[int], None]]:
    """A file system in memory of so many kB; gives what changes its size."""

    def mount(*words: str) -> None:
        done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)  # noqa: S603, S607
        if done.returncode:
            raise OSError(done.stderr.strip() or "mount is not allowed")

    mount("-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder))
    try:
        yield lambda other: mount("-o", f"remount,size={other}k", str(folder))
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S603, S607


def _two_at_once(command: TriedCommand, bench: Bench, ledger: Ledger, n: int) -> Trials:
    what = f"{command.name}, a second one in the same folder"
    outcomes = [
        ledger.outcome(
            f"{what} {number}", partial(_try_second, command, bench, (number + 0.5) / n)
        )
        for number in range(n)
    ]
    return summarize(what, outcomes)


def _try_second(command: TriedCommand, bench: Bench, moment: float) -> Outcome:
    """One command rests at a moment, while another one is started; both end, and all is well."""
    bench.reference(command)
    bench.clear(command)
    first = bench.start(command.words)
    time.sleep(moment * bench.seconds[command.name])
    os.kill(first.pid, signal.SIGSTOP)
    second = bench.run(command.next_words(bench.here, 1))
    os.kill(first.pid, signal.SIGCONT)
    ended = (first.wait(), second)
    bench.wait_for_orphans()
    for one in ended:
        if one.code and not one.sentence:
            return Outcome("lost", f"code {one.code}, no sentence: {one.text[-1500:]}")
    found = bench.verdict(command, next(one for one in ended if not one.code))
    refusals = [one.sentence for one in ended if one.code]
    return Outcome("refused", refusals[0]) if found.ending == "equal" and refusals else found
