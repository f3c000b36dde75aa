"""What ``instaaug train`` and ``instaaug resume`` do: call, show progress, print what came out."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from instaaug.cli.chosen import choose_settings
from instaaug.cli.scores import print_scores
from instaaug.cli.terminal import STOPPED, folders, print_words, progress_bar, typed
from instaaug.runs.run_directory import RunDirectory
from instaaug.runs.training import is_later_process, resume, train
from instaaug.tasks import Interrupted, RichProgress

__all__ = ["run_resume", "run_train"]

OUT = "INSTAAUG_OUT"  # tells further processes of the same run where it is


def run_train(given: dict[str, Any], *, config: Path | None, out: Path | None) -> None:
    """Train with the settings of a file, over which those typed have priority."""
    chosen = choose_settings(given, config)
    console = Console(quiet=is_later_process())
    free = next(f for f in folders(chosen.data.source, chosen.method.name) if not f.exists())
    with _shared(out or free) as folder:
        what = f"Training {chosen.method.name} on {chosen.data.source}"
        print_words(console, f"{what}; the run is in {folder}.")
        with _how_to_go_on(folder), _bars(console) as bars:
            results = train(chosen, folder, callbacks=[RichProgress(console)], **bars)
    _print_end(console, folder, results)


def run_resume(folder: Path) -> None:
    """Go on with a run."""
    console = Console(quiet=is_later_process())
    run = RunDirectory(folder)
    if run.results_file.is_file():
        print_words(console, f"The run in {folder} is finished; nothing is left to do.")
        return
    with _how_to_go_on(folder), _bars(console) as bars:
        results = resume(folder, callbacks=[RichProgress(console)], **bars)
    _print_end(console, folder, results)


@contextmanager
def _bars(console: Console) -> Iterator[dict[str, Any]]:
    """Bars for what comes before training."""
    with progress_bar(console) as reading, progress_bar(console, "searching a policy") as trying:
        yield {"on_decode": reading, "on_search": trying}


@contextmanager
def _shared(folder: Path) -> Iterator[Path]:
    """The run's folder, as the first process chose it; further ones learn it from the first."""
    if is_later_process() and OUT in os.environ:
        yield Path(os.environ[OUT])
        return
    os.environ[OUT] = str(folder)
    try:
        yield folder
    finally:
        del os.environ[OUT]


@contextmanager
def _how_to_go_on(folder: Path) -> Iterator[None]:
    try:
        yield
    except Interrupted as stop:
        words = f"{stop} Go on with `instaaug resume {typed(folder)}`."
    except KeyboardInterrupt:
        words = (
            f"Stopped at once. `instaaug resume {typed(folder)}` goes on from the last "
            "checkpoint, if there is one."
        )
    else:
        return
    print_words(Console(stderr=True), words)
    sys.exit(STOPPED)


def _print_end(console: Console, folder: Path, results: dict[str, Any]) -> None:
    if not results:  # a further process of the same run
        return
    if results["skipped"]:
        print_words(
            console, f"{len(results['skipped'])} images could not be read and were left out."
        )
    print_scores(console, results["test"], n_images=results["n_test"])
    print_words(
        console,
        f"Look at {folder / 'samples.png'}; all numbers are in {folder / 'results.json'}.\n"
        f"Explore what was learned with `instaaug report {typed(folder)}`, predict with `instaaug "
        f"predict {typed(folder)} IMAGES`.",
    )
