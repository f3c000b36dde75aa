"""Timing in turns: what disturbs the machine disturbs all contenders alike."""

import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from instaaug import __version__

__all__ = [
    "ROUNDS",
    "Tables",
    "Timing",
    "as_record",
    "compare",
    "environment",
    "problems",
    "summarize",
]


WARM_UP = 3
ROUNDS = 20
SHORTEST_TURN = 0.1  # seconds; what is quicker is repeated within its turn


@dataclass(frozen=True)
class Timing:
    """One comparison: ``ratio`` is the median over rounds of (measured / reference).

    Arguments:
        name: What was measured.
        reference: What it was compared with.
        ratio: Median over rounds.
        lower_quartile: Of the ratio.
        upper_quartile: Of the ratio.
        rounds: How many turns each had.
        median_seconds: Of what was measured.
        reference_seconds: Of the reference.
        budget: The largest ratio that is good enough.
    """

    name: str
    reference: str
    ratio: float
    lower_quartile: float
    upper_quartile: float
    rounds: int
    median_seconds: float
    reference_seconds: float
    budget: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the budget is met; a dash where there is none."""
        if self.budget is None:
            return "-"
        return "met" if self.ratio <= self.budget else "MISSED"


Tables = dict[str, list[Timing]]
"""Rows by the title of their table."""


def compare(
    contenders: Mapping[str, Callable[[], object]],
    *,
    reference: str,
    budgets: Mapping[str, float] | None = None,
    rounds: int = ROUNDS,
) -> list[Timing]:
    """Time all contenders in turns; one row for each but the reference."""
    for _ in range(WARM_UP):
        single = {name: _seconds_of(run, 1) for name, run in contenders.items()}
    repeats = max(1, round(SHORTEST_TURN / single[reference]))
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            seconds[name].append(_seconds_of(run, repeats))
    return [
        summarize(name, times, reference, seconds[reference], (budgets or {}).get(name))
        for name, times in seconds.items()
        if name != reference
    ]


def summarize(
    name: str,
    times: Sequence[float],
    reference: str,
    reference_times: Sequence[float],
    budget: float | None = None,
) -> Timing:
    """The row that belongs to the seconds of each round.

    Example:
        >>> summarize("slow", [2.0, 4.0, 9.0], "fast", [1.0, 2.0, 3.0], budget=1.5).verdict
        'MISSED'
    """
    ratios = [t / r for t, r in zip(times, reference_times, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    medians = statistics.median(times), statistics.median(reference_times)
    return Timing(name, reference, middle, low, high, len(ratios), *medians, budget)


def _seconds_of(run: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def as_record(
    question: str,
    tables: Tables,
    *,
    findings: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Rows, findings that are no times, settings and surroundings, ready for JSON."""
    return {
        "question": question,
        "settings": dict(settings or {}),
        "environment": environment(),
        "tables": {
            title: [{**asdict(row), "verdict": row.verdict} for row in rows]
            for title, rows in tables.items()
        },
        "findings": dict(findings or {}),
    }


def environment() -> dict[str, str | int]:
    """Versions, the commit if the project is a clone, and what the machine is."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
    ).stdout.strip()  # fmt: skip
    return {
        "instaaug": __version__,
        "commit": commit or "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }


def problems(record: Mapping[str, Any]) -> list[str]:
    """What is wrong with a result file; empty if it follows the schema."""
    needed = ("question", "settings", "environment", "tables", "findings")
    found = [f"lacks {key!r}" for key in needed if key not in record]
    about = record.get("environment", {})
    versions = ("commit", "python", "torch", "threads")
    found += [f"environment lacks {key!r}" for key in versions if key not in about]
    for title, rows in record.get("tables", {}).items():
        for row in rows:
            found += [f"{title}/{row['name']}: {problem}" for problem in _row_problems(row)]
    return found


def _row_problems(row: Mapping[str, Any]) -> list[str]:
    found = []
    if row["rounds"] < ROUNDS:
        found.append(f"{row['rounds']} rounds, the contract asks {ROUNDS}")
    if not 0 < row["lower_quartile"] <= row["ratio"] <= row["upper_quartile"]:
        found.append("quartiles out of order")
    missed = row["budget"] is not None and row["ratio"] > row["budget"]
    if missed != (row["verdict"] == "MISSED"):
        found.append("the verdict disagrees with the numbers")
    return found
