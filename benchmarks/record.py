"""Interleaved timing, and what a result file looks like."""

import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = ["RESULTS", "Row", "compare", "problems", "save"]

RESULTS = Path(__file__).parent / "results"
WARM_UP = 3
ROUNDS = 20
SHORTEST_TURN = 0.1  # seconds; what is quicker is repeated within its turn


@dataclass(frozen=True)
class Row:
    """One comparison: ``ratio`` is the median over rounds of (measured / reference)."""

    name: str
    reference: str
    ratio: float
    lower_quartile: float
    upper_quartile: float
    rounds: int
    median_seconds: float
    reference_seconds: float
    budget: float | None

    @property
    def verdict(self) -> str:
        if self.budget is None:
            return "-"
        return "met" if self.ratio <= self.budget else "MISSED"


def compare(
    contenders: Mapping[str, Callable[[], object]],
    *,
    reference: str,
    budgets: Mapping[str, float] | None = None,
    rounds: int = ROUNDS,
) -> list[Row]:
    """Time all contenders in turns; one row for each but the reference."""
    for _ in range(WARM_UP):
        single = {name: seconds_of(run, 1) for name, run in contenders.items()}
    repeats = max(1, round(SHORTEST_TURN / single[reference]))
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            seconds[name].append(seconds_of(run, repeats))
    rows = []
    for name, times in seconds.items():
        if name == reference:
            continue
        ratios = [t / r for t, r in zip(times, seconds[reference], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        rows.append(
            Row(
                name, reference, middle, low, high, rounds, statistics.median(times),
                statistics.median(seconds[reference]), (budgets or {}).get(name),
            )
        )  # fmt: skip
    return rows


def seconds_of(run: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def save(
    question: str,
    tables: Mapping[str, list[Row]],
    *,
    findings: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """Write rows, and findings that are no times, with all that is needed to judge them."""
    record = {
        "question": question,
        "settings": settings,
        "environment": environment(),
        "tables": {
            title: [{**asdict(row), "verdict": row.verdict} for row in rows]
            for title, rows in tables.items()
        },
        "findings": dict(findings or {}),
    }
    path = RESULTS / f"{question}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path


def environment() -> dict[str, str | int]:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent,
    ).stdout.strip()  # fmt: skip
    return {
        "commit": commit or "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }


def problems(record: Mapping[str, Any]) -> list[str]:
    """What is wrong with a result file, in words; empty if it keeps to the schema."""
    needed = ("question", "settings", "environment", "tables", "findings")
    found = [f"lacks {key!r}" for key in needed if key not in record]
    about = record.get("environment", {})
    versions = ("commit", "python", "torch", "threads")
    found += [f"environment lacks {key!r}" for key in versions if key not in about]
    for title, rows in record.get("tables", {}).items():
        for row in rows:
            found += [f"{title}/{row['name']}: {problem}" for problem in row_problems(row)]
    return found


def row_problems(row: Mapping[str, Any]) -> list[str]:
    found = []
    if row["rounds"] < ROUNDS:
        found.append(f"{row['rounds']} rounds, the contract asks {ROUNDS}")
    if not 0 < row["lower_quartile"] <= row["ratio"] <= row["upper_quartile"]:
        found.append("quartiles out of order")
    missed = row["budget"] is not None and row["ratio"] > row["budget"]
    if missed != (row["verdict"] == "MISSED"):
        found.append("the verdict disagrees with the numbers")
    return found
