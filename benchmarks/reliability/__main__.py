"""Try some parts, or all: ``python -m benchmarks.reliability [PART ...] [--trials N]``."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.reliability.disk import disk
from benchmarks.reliability.kills import kills
from benchmarks.reliability.numbers import try_numbers
from benchmarks.reliability.processes import processes
from benchmarks.reliability.readers import try_readers
from benchmarks.reliability.soak import try_soak
from benchmarks.reliability.table import save_trials, show_trials
from benchmarks.reliability.trials import Part
from benchmarks.reliability.truncation import truncation

__all__ = ["PARTS", "main"]

PARTS: dict[str, Part] = {
    "kills": kills,
    "truncation": truncation,
    "processes": processes,
    "disk": disk,
    "readers": try_readers,
    "numbers": try_numbers,
    "soak": try_soak,
}
FOLDER = Path("runs/reliability")


def main(arguments: list[str]) -> None:
    """Print the rows of some parts; of all parts, write them to ``results/`` as well."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability")
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--trials", type=int, default=50, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="keeps what was tried")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; known: {', '.join(PARTS)}")
    rows = {
        name: PARTS[name](given.trials, given.seed, given.folder / name)
        for name in given.parts or PARTS
    }
    show_trials(Console(), rows)
    if not given.parts:
        save_trials(rows, trials=given.trials, seed=given.seed)


if __name__ == "__main__":
    main(sys.argv[1:])
