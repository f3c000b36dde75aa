"""What ``instaaug train`` and ``instaaug resume`` do: call, show progress, print what came out."""

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from instaaug.cli.scores import print_scores
from instaaug.experiments.config import TrainConfig, read_config
from instaaug.experiments.run_directory import RunDirectory, read_yaml
from instaaug.experiments.training import OnProgress, is_later_process, resume, train
from instaaug.tasks import Interrupted, RichProgress

__all__ = ["decoding_progress", "run_resume", "run_train"]

OUT = "INSTAAUG_OUT"  # tells further processes of the same run where it is
STOPPED = 130  # what shells say of a program that Ctrl-C ended


def run_train(given: dict[str, Any], *, config: Path | None, out: Path | None) -> None:
    """Train with the settings of a file, over which those typed have priority."""
    settings = read_yaml(config) if config else {}
    if given.keys() & {"diversity", "entropy"}:  # two ways to say the same
        settings = {k: v for k, v in settings.items() if k not in ("diversity", "entropy")}
    source = "the settings" if config is None else str(config)
    chosen = read_config({**settings, **given}, source=source)
    console = Console(quiet=is_later_process())
    with _shared(out or _new_folder(chosen)) as folder:
        _print(console, f"Training {chosen.method} on {chosen.data}; the run is in {folder}.")
        with _how_to_go_on(folder), decoding_progress(console) as on_decode:
            results = train(chosen, folder, callbacks=[RichProgress(console)], on_decode=on_decode)
    _print_end(console, folder, results)


def run_resume(folder: Path) -> None:
    """Go on with a run."""
    console = Console(quiet=is_later_process())
    run = RunDirectory(folder)
    if run.results_file.is_file():
        _print(console, f"The run in {folder} is finished; nothing is left to do.")
        return
    with _how_to_go_on(folder), decoding_progress(console) as on_decode:
        results = resume(folder, callbacks=[RichProgress(console)], on_decode=on_decode)
    _print_end(console, folder, results)


@contextmanager
def decoding_progress(console: Console) -> Iterator[OnProgress]:
    """A bar that appears when files have to be decoded, and goes when that is done."""
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    line = None

    def update(done: int, total: int) -> None:
        nonlocal line
        if line is None:
            bar.start()
            line = bar.add_task("reading images", total=total)
        bar.update(line, completed=done, total=total)
        if done == total:
            bar.stop()

    try:
        yield update
    finally:
        bar.stop()


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
        words = f"{stop} Go on with `instaaug resume {_typed(folder)}`."
    except KeyboardInterrupt:
        words = (
            f"Stopped at once. `instaaug resume {_typed(folder)}` goes on from the last "
            "checkpoint, if there is one."
        )
    else:
        return
    _print(Console(stderr=True), words)
    sys.exit(STOPPED)


def _new_folder(config: TrainConfig) -> Path:
    path = Path(config.data)
    name = path.resolve().name if path.is_dir() else path.stem
    stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
    base = Path("runs") / f"{stem}-{config.method}"
    folder, number = base, 1
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def _print_end(console: Console, folder: Path, results: dict[str, Any]) -> None:
    if not results:  # a further process of the same run
        return
    if results["skipped"]:
        _print(console, f"{len(results['skipped'])} images could not be read and were left out.")
    print_scores(console, results["test"], n_images=results["n_test"])
    _print(
        console,
        f"Look at {folder / 'samples.png'}; all numbers are in {folder / 'results.json'}.\n"
        f"Predict with `instaaug predict {_typed(folder)} IMAGES`.",
    )


def _typed(folder: Path) -> str:
    """A folder as a shell understands it, whatever is in its name."""
    return shlex.quote(str(folder))


def _print(console: Console, words: str) -> None:
    """Print words as they are: a folder's name may well have brackets."""
    console.print(words, markup=False, highlight=False, soft_wrap=True)
