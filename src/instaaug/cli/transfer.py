"""The command that learns a classifier on a frozen backbone."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from instaaug.augmentation.worth import describe_gains, gain_from_dict
from instaaug.cli.terminal import (
    STOPPED,
    describe_skipped,
    folders,
    print_words,
    progress_bar,
    quote_path,
)
from instaaug.data.cache import OnProgress
from instaaug.runs.folder import Run
from instaaug.runs.replacing import replacing
from instaaug.runs.settings import FrozenSettings, TransferSettings
from instaaug.runs.transfer import fit_backbone

__all__ = ["fitting_bars", "folder_to_continue", "learn_transfer", "run_transfer"]


def run_transfer(given: dict[str, Any], *, out: Path | None, overwrite: bool) -> None:
    """Learn head and views, or continue the same run, and print how good they are."""
    settings = TransferSettings.from_mapping(given, source="the settings")
    folder = out or folder_to_continue(settings, "transfer", overwrite=overwrite)
    with replacing(folder) if overwrite else nullcontext():
        learn_transfer(settings, folder)


def learn_transfer(settings: TransferSettings, folder: Path) -> None:
    """Learn head and views into a folder, with progress bars, and print the results."""
    console = Console()
    what = f"Learning {settings.data.source} on features of {settings.backbone.name}"
    print_words(console, f"{what}, in {folder}.")
    with fitting_bars(console, "running the backbone", "features") as bars:
        results = fit_backbone(settings, folder, **bars)
    _print_results(console, Run(folder), results)


@contextmanager
def fitting_bars(console: Console, running: str, stored: str) -> Iterator[dict[str, OnProgress]]:
    """Progress bars of a fit, by the arguments that report to them; words if it is stopped.

    Arguments:
        console: Where they are shown.
        running: What the longest of them shows.
        stored: What the same command continues with.
    """
    try:
        with (
            progress_bar(console) as on_decode,
            progress_bar(console, running) as on_table,
            progress_bar(console, "scoring") as on_score,
        ):
            yield {"on_decode": on_decode, "on_table": on_table, "on_score": on_score}
    except KeyboardInterrupt:
        words = f"Stopped. The same command continues with the {stored} stored so far."
        print_words(Console(stderr=True), words)
        sys.exit(STOPPED)


def folder_to_continue(settings: FrozenSettings, kind: str, *, overwrite: bool = False) -> Path:
    """The folder of the same run, so that it continues; else a new one.

    Arguments:
        settings: Of the run.
        kind: Ends the name of the folder.
        overwrite: Whether it may hold another run, and is the first in any case.
    """
    wanted = settings.with_full_paths()
    return next(
        folder
        for folder in folders(settings.data.source, kind)
        if overwrite or not folder.exists() or Run(folder).holds(wanted)
    )


def _print_results(console: Console, run: Run, results: dict[str, Any]) -> None:
    if results["skipped"]:
        print_words(console, describe_skipped(len(results["skipped"])))
    learned = results["transfer"]
    if learned["candidates"]:
        _print_candidates(console, learned)
    else:
        print_words(
            console,
            "No class has a second image: nothing could be chosen on images that were left out. "
            "The head has learned from all boxes, and views are spread evenly.",
        )
    if learned["views"] is not None:
        print_words(console, learned["views"]["dependence_in_words"])
        print_words(console, learned["views"]["verdict"])
    if results["n_test"]:
        _print_test(console, results)
    picture = f"Look at {run.crops_file}; all" if run.crops_file.is_file() else "All"
    print_words(
        console,
        f"{picture} numbers are in {run.results_file}.\n"
        f"Compare views by `instaaug evaluate {quote_path(run.path)}`, predict with `instaaug "
        f"predict {quote_path(run.path)} IMAGES`.",
    )


def _print_candidates(console: Console, learned: dict[str, Any]) -> None:
    """What the head was trained with, scored on images that were left out."""
    counts = list(learned["chosen"]["accuracy"])
    table = Table(
        title=f"Boxes that the head learns from: {learned['n_folds']} folds of "
        f"{learned['n_images']:,} images, similar ones together"
    )
    for heading in ("boxes", "weight decay", "NLL", *(f"{n} views" for n in counts)):
        table.add_column(heading, justify="left" if heading == "boxes" else "right")
    for row in learned["candidates"]:
        mark = " ← taken" if row == learned["chosen"] else ""
        shares = [f"{row['accuracy'][n]:.1%}" for n in counts]
        table.add_row(row["name"] + mark, f"{row['decay']:g}", f"{row['nll']:.3f}", *shares)
    console.print(table)
    if gain := learned["input_gain"]:
        print_words(
            console,
            f"Weights of each image's own gain {gain['nats']:+.3f} nats over the same for all "
            f"(95 % interval {gain['low']:+.3f} to {gain['high']:+.3f}).",
        )
    if gains := learned.get("gains"):  # runs of earlier versions have none
        name, most = learned["chosen"]["name"], max(map(int, counts))
        found = {free: gain_from_dict(gain) for free, gain in gains.items()}
        what = f"{most} views of a head that learned from {name}"
        print_words(console, describe_gains(found, what=what, n_images=learned["n_images"]))


def _print_test(console: Console, results: dict[str, Any]) -> None:
    table = Table(title=f"On {results['n_test']:,} test images")
    table.add_column("prediction from")
    for heading in ("accuracy", "95 % interval", "NLL", "calibration error"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(
            row["name"],
            f"{row['accuracy']:.1%}",
            f"{100 * row['low']:.1f} to {100 * row['high']:.1f}",
            f"{row['nll_after']:.3f}",
            f"{row['ece_after']:.1%}",
        )
    console.print(table)
