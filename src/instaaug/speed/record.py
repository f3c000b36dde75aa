"""What a file of measurements holds: all that is needed to judge them."""

import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from instaaug import __version__
from instaaug.speed.timing import ROUNDS, Tables

__all__ = ["as_record", "environment", "problems"]


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
    """What is wrong with a result file, in words; empty if it keeps to the schema."""
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
