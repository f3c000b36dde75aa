"""After a kill, a file is cut short, as a loss of power may do it; then the command goes on."""

import os
import random
from functools import partial
from pathlib import Path

from benchmarks.reliability.commands import COMMANDS, Bench, TriedCommand
from benchmarks.reliability.kills import kill_command
from benchmarks.reliability.trials import Ledger, Outcome, Trials, summarize

__all__ = ["cut_newest", "truncation"]

ASIDE = ".part"
NOT_OURS = ("log.txt", "hparams.yaml")  # logs, which nothing reads back


def truncation(trials: int, seed: int, folder: Path) -> list[Trials]:
    """One row per command, half as many trials; every other cut hits an unfinished file."""
    bench, ledger = Bench(folder), Ledger(folder / "trials.jsonl")
    rows, trials = [], max(1, trials // 2)
    for command in COMMANDS:
        what = f"{command.name}, killed, newest file cut"
        outcomes = [
            ledger.outcome(
                f"{what} {seed} {number}",
                partial(_attempt, command, bench, number, trials, f"{what} {seed}"),
            )
            for number in range(trials)
        ]
        rows.append(summarize(what, outcomes))
    return rows


def _attempt(command: TriedCommand, bench: Bench, number: int, trials: int, seed: str) -> Outcome:
    bench.reference(command)
    chance = random.Random(f"{seed} {number}")  # noqa: S311
    moment = (number + chance.random()) / trials
    kill_command(command, bench, moment, in_write=True)
    if not bench.wait_for_orphans():
        return Outcome("lost", "a process lives on")
    cut = cut_newest(bench.here, chance, unfinished=number % 2 == 0)
    ended = bench.run(command.next_words(bench.here, number))
    found = bench.verdict(command, ended, named=cut)
    return Outcome(found.ending, f"{cut}: {found.words}" if found.words else "")


def cut_newest(folder: Path, chance: random.Random, *, unfinished: bool) -> str:
    """Cut the file that was written last to a random length; gives its name.

    Arguments:
        folder: Where to look.
        chance: Decides on the length.
        unfinished: Whether to prefer a file that was being written.
    """
    files = [
        file for file in folder.rglob("*")
        if file.is_file() and "tfevents" not in file.name and file.name not in NOT_OURS
    ]  # fmt: skip
    chosen = [file for file in files if (file.suffix == ASIDE) == unfinished] or files
    if not chosen:
        return ""
    newest = max(chosen, key=lambda file: file.stat().st_mtime_ns)
    os.truncate(newest, chance.randrange(max(1, newest.stat().st_size)))
    return newest.name
