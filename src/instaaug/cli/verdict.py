"""The command that says whether learned augmentation pays: verdict."""

import sys
from pathlib import Path

from rich.console import Console

from instaaug.cli.compare import ProgressDisplay
from instaaug.cli.terminal import STOPPED, print_words
from instaaug.compare.plan import parse_duration
from instaaug.compare.verdict import find_verdict
from instaaug.tasks import Interrupted

__all__ = ["run_verdict"]


def run_verdict(run: Path, *, budget: str | None) -> None:
    """Train the baselines of a run that are missing, and print the verdict."""
    console = Console()
    try:
        with ProgressDisplay(console) as show:
            verdict = find_verdict(
                run,
                budget=None if budget is None else parse_duration(budget),
                on_change=show,
                on_message=lambda text: print_words(console, text),
            )
    except (Interrupted, KeyboardInterrupt) as stop:
        print_words(Console(stderr=True), f"{str(stop) or 'Stopped.'} The same command goes on.")
        sys.exit(STOPPED)
    print_words(console, verdict.sentence)
