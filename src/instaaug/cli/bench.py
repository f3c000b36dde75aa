"""``instaaug bench``: print every budget, the measurement and the verdict."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from instaaug.cli.terminal import print_words
from instaaug.errors import UnknownNameError
from instaaug.files import write_text
from instaaug.speed import QUESTIONS, Tables, Timing, as_record
from instaaug.speed.questions import has_kornia

__all__ = ["run_bench", "show_tables"]


def run_bench(names: Sequence[str], *, rounds: int, json_file: Path | None) -> None:
    """Measure some questions, or all; print the results, and write them to a file if given."""
    for name in names:
        if name not in QUESTIONS:
            raise UnknownNameError("question", name, QUESTIONS)
    console = Console()
    console.print(
        f"{torch.get_num_threads()} threads, {rounds} rounds in turns. Nothing else should run.",
        style="dim",
    )
    if not has_kornia():
        console.print("Without kornia, rows that compare with it are left out.", style="dim")
    answers: dict[str, Tables] = {}
    for name in names or QUESTIONS:
        question = QUESTIONS[name]
        with console.status(question.asked):
            answers[name] = question.answer(rounds)
        show_tables(console, answers[name], others=question.others)
    tables = {title: rows for answer in answers.values() for title, rows in answer.items()}
    print_words(console, _sentence([row for rows in tables.values() for row in rows]))
    if json_file is not None:
        record = as_record("budgets", tables, settings={"seed": 0, "rounds": rounds})
        write_text(json_file, json.dumps(record, indent=1) + "\n")


def show_tables(
    console: Console, tables: Mapping[str, Sequence[Timing]], *, others: str = ""
) -> None:
    """A table for each comparison; misses in bold."""
    for title, rows in tables.items():
        table = Table(title=title, title_justify="left", min_width=78, caption_justify="left")
        table.caption = f"for comparison: {others}" if others else None
        for heading in ("measured", "against", "ratio", "IQR", "budget", "verdict"):
            table.add_column(heading)
        for row in rows:
            table.add_row(
                f"{row.name} ({_format_seconds(row.median_seconds)})",
                f"{row.reference} ({_format_seconds(row.reference_seconds)})",
                f"{row.ratio:.3f}",
                f"{row.lower_quartile:.3f} to {row.upper_quartile:.3f}",
                "-" if row.budget is None else f"{row.budget:.2f}",
                Text(
                    row.verdict, style={"MISSED": "bold red", "met": "green"}.get(row.verdict, "")
                ),
            )
        console.print(table)


def _format_seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _sentence(rows: Sequence[Timing]) -> str:
    budgeted = [row for row in rows if row.budget is not None]
    missed = [row for row in budgeted if row.verdict == "MISSED"]
    spread = statistics.median(row.upper_quartile - row.lower_quartile for row in rows)
    words = f"{len(budgeted) - len(missed)} of {len(budgeted)} budgets met."
    if missed:
        words += f" Missed: {', '.join(row.name for row in missed)}."
    return f"{words} The middle half of the rounds spans {spread:.3f} of a ratio (median row)."
