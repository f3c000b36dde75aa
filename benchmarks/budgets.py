"""Are all budgets met, twice in a row? What ``instaaug bench`` asks, asked two times."""

from rich.console import Console

from benchmarks.record import Tables, save
from instaaug.cli.bench import show_tables
from instaaug.speed import QUESTIONS

__all__ = ["main"]


def main() -> Tables:
    console = Console()
    tables: Tables = {}
    for run in ("first run", "second run"):
        for question in QUESTIONS.values():
            answer = question.answer()
            show_tables(console, answer, others=question.others)
            tables |= {f"{title}; {run}": rows for title, rows in answer.items()}
    save("budgets", tables, seed=0)
    return tables
