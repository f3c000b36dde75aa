"""The table of what was tried, and the file that keeps it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.record import save
from benchmarks.reliability.trials import Trials

__all__ = ["save_trials", "show_trials"]


def show_trials(console: Console, parts: Mapping[str, Sequence[Trials]]) -> None:
    """Print all rows, part by part."""
    table = Table("part", "what was tried", title="What was tried, and what was lost")
    for heading in ("tried", "lost", "refused"):
        table.add_column(heading, justify="right")
    table.add_column("note")
    for part, rows in parts.items():
        for row in rows:
            counts = (f"{count:,}" for count in (row.n, row.lost, row.refused))
            table.add_row(part, row.what, *counts, row.note)
    console.print(table)


def save_trials(parts: Mapping[str, Sequence[Trials]], *, trials: int, seed: int) -> Path:
    """Write ``results/reliability.json``."""
    findings = {part: [asdict(row) for row in rows] for part, rows in parts.items()}
    return save("reliability", {}, findings=findings, trials=trials, seed=seed)
