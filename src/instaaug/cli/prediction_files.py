"""Rows of predictions as CSV or JSON lines."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console

from instaaug.errors import ArgumentError

__all__ = ["write_predictions"]


@runtime_checkable
class Writable(Protocol):
    """The terminal or an open file."""

    def write(self, text: str, /) -> Any:
        """Add text."""


def write_predictions(rows: Iterator[dict[str, Any]], out: Path | None) -> None:
    """Write rows as they come, to a CSV or JSON-lines file or as CSV to the terminal."""
    if out is not None and out.suffix not in (".csv", ".jsonl"):
        raise ArgumentError(f"`out` must end in .csv or .jsonl: got {str(out)!r}.")
    rows = chain([next(rows)], rows)  # whatever is amiss is told before `out` is overwritten
    with _opened(out) as file:
        n, bad = _write(rows, file, as_lines=out is not None and out.suffix == ".jsonl")
    if out is not None or bad:
        words = f"{n - bad} of {n} images predicted" + (f"; see {out}." if out else ".")
        Console(stderr=True, soft_wrap=True).print(words, highlight=False, markup=False)


@contextmanager
def _opened(out: Path | None) -> Iterator[Writable]:
    names = "surrogateescape"  # names of files that are no text go out byte for byte
    if out is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=names)
        yield sys.stdout
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", newline="", encoding="utf-8", errors=names) as file:
        yield file


def _write(rows: Iterator[dict[str, Any]], file: Writable, *, as_lines: bool) -> tuple[int, int]:
    n = bad = 0
    table: Any = None
    cautious: Any = None
    for row in rows:
        n, bad = n + 1, bad + bool(row["error"])
        if as_lines:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            continue
        if table is None:
            table = csv.DictWriter(file, list(row), lineterminator="\n")
            cautious = csv.DictWriter(file, list(row), lineterminator="\n", quoting=csv.QUOTE_ALL)
            table.writeheader()
        has_return = any("\r" in str(value) for value in row.values())  # left unquoted by `table`
        (cautious if has_return else table).writerow(row)
    return n, bad
