"""Where results are kept, and the words in which all benchmarks time and record."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instaaug.speed import Tables, Timing, as_record, compare, problems

__all__ = ["RESULTS", "Tables", "Timing", "compare", "problems", "save"]

RESULTS = Path(__file__).parent / "results"


def save(
    question: str, tables: Tables, *, findings: Mapping[str, Any] | None = None, **settings: Any
) -> Path:
    """Write rows, and findings that are no times, with all that is needed to judge them."""
    record = as_record(question, tables, findings=findings, settings=settings)
    path = RESULTS / f"{question}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    return path
