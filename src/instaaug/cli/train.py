"""Commands that make runs: train, tta fit and resume."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from instaaug.cli.settings import choose_settings
from instaaug.cli.terminal import (
    STOPPED,
    describe_skipped,
    folders,
    print_words,
    progress_bar,
    quote_path,
)
from instaaug.cli.transfer import fitting_bars, folder_to_continue, learn_transfer
from instaaug.cli.use import COST, print_scores
from instaaug.cli.verdict import run_verdict
from instaaug.compare.plan import parse_duration
from instaaug.runs.automatic import describe_choices, describe_validation
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.pretrained import describe_pretrained, settle_pretrained
from instaaug.runs.replacing import replacing
from instaaug.runs.settings import TransferSettings, TtaSettings
from instaaug.runs.training import is_later_process, resume, train
from instaaug.runs.tta import fit_frozen
from instaaug.tasks import Interrupted, RichProgress

__all__ = ["run_fit", "run_resume", "run_train"]

CHANCE = 1.2  # an accuracy of up to this, times 1 / classes, counts as chance
N_NAMED = 3
OUT = "INSTAAUG_OUT"  # tells further processes of the same run where it is


def run_train(
    given: dict[str, Any],
    *,
    config: Path | None,
    out: Path | None,
    overwrite: bool,
    verdict: str | None,
) -> None:
    """Train with the settings of a file and of the command line, which wins; judge it if asked."""
    settings = settle_pretrained(choose_settings(given, config))
    if verdict is not None:
        parse_duration(verdict)  # before hours of training
    console = Console(quiet=is_later_process())
    names = folders(settings.data.source, settings.method.name)
    chosen = out or next(folder for folder in names if overwrite or not folder.exists())
    with _share_folder(chosen) as folder, _make_room(folder, overwrite=overwrite):
        what = f"Training {settings.method.name} on {settings.data.source}"

        def announce(facts: DataFacts) -> None:
            print_words(console, f"{what}; the run is in {folder}.")
            if settings.model.pretrained:
                print_words(console, describe_pretrained(settings))
            if choices := describe_choices(settings, facts):
                print_words(console, choices)
            if doubts := describe_validation(settings, facts):
                print_words(console, doubts)

        with _explain_resuming(folder), _progress_bars(console) as bars:
            results = train(
                settings, folder, callbacks=[RichProgress(console)], on_ready=announce, **bars
            )
    _print_results(console, folder, results, judged=verdict is not None)
    if verdict is not None and results:
        run_verdict(folder, budget=verdict)


def run_resume(folder: Path) -> None:
    """Continue a run of any kind."""
    console = Console(quiet=is_later_process())
    run = Run(folder)
    if run.results_file.is_file():
        print_words(console, f"The run in {folder} is finished; nothing is left to do.")
        return
    settings = run.read_settings()
    if isinstance(settings, TtaSettings):
        _fit(settings, folder)
        return
    if isinstance(settings, TransferSettings):
        learn_transfer(settings, folder)
        return
    with _explain_resuming(folder), _progress_bars(console) as bars:
        results = resume(folder, callbacks=[RichProgress(console)], **bars)
    _print_results(console, folder, results)


@contextmanager
def _progress_bars(console: Console) -> Iterator[dict[str, Any]]:
    """Progress bars for decoding and for the search of a policy."""
    with progress_bar(console) as reading, progress_bar(console, "searching a policy") as trying:
        yield {"on_decode": reading, "on_search": trying}


@contextmanager
def _share_folder(folder: Path) -> Iterator[Path]:
    """The run's folder, as the first process chose it; further ones learn it from the first."""
    if is_later_process() and OUT in os.environ:
        yield Path(os.environ[OUT])
        return
    os.environ[OUT] = str(folder)
    try:
        yield folder
    finally:
        del os.environ[OUT]


def _make_room(folder: Path, *, overwrite: bool) -> AbstractContextManager[None]:
    """Let the run replace what is in the folder, if that is asked for."""
    return replacing(folder) if overwrite and not is_later_process() else nullcontext()


@contextmanager
def _explain_resuming(folder: Path) -> Iterator[None]:
    try:
        yield
    except Interrupted as stop:
        words = f"{stop} Go on with `instaaug resume {quote_path(folder)}`."
    except KeyboardInterrupt:
        words = (
            f"Stopped at once. `instaaug resume {quote_path(folder)}` goes on from the last "
            "checkpoint, if there is one."
        )
    else:
        return
    print_words(Console(stderr=True), words)
    sys.exit(STOPPED)


def _print_results(
    console: Console, folder: Path, results: dict[str, Any], *, judged: bool = False
) -> None:
    if not results:  # a further process of the same run
        return
    if results["skipped"]:
        print_words(console, describe_skipped(len(results["skipped"])))
    print_scores(console, results["test"], n_images=results["n_test"])
    if words := _tell_probes(results.get("probes", {})):
        print_words(console, words)
    for sentence in ("dependence_in_words", "verdict"):
        if words := (results["validation"] or {}).get(sentence):
            print_words(console, words)
    if words := results.get("mixing"):
        print_words(console, words)
    print_words(
        console,
        f"Look at {folder / 'samples.png'}; all numbers are in {folder / 'results.json'}.\n"
        f"Explore what was learned with `instaaug report {quote_path(folder)}`, predict with "
        f"`instaaug predict {quote_path(folder)} IMAGES`.",
    )
    if results["method"].startswith("instaaug") and not judged:
        print_words(console, _tell_how_to_judge(folder, can_validate=bool(results["validation"])))


def _tell_probes(accuracies: dict[str, float]) -> str | None:
    """Which views features are averaged over, if there was a choice."""
    if "ordered" not in accuracies:
        return None
    same, drawn = accuracies["ordered"], accuracies["augmented"]
    views = "the same boxes of every image" if same > drawn else "views that are drawn"
    return (
        f"Features are averaged over {views}: of training images that it has not seen, a probe "
        f"gets {same:.1%} right with the same boxes and {drawn:.1%} with drawn views."
    )


def _tell_how_to_judge(folder: Path, *, can_validate: bool) -> str:
    """The command that says whether learned augmentation pays."""
    if can_validate:
        words = f"`instaaug verdict {quote_path(folder)}` trains what is free, too, and says"
        return f"{words} whether learned augmentation pays here."
    config = quote_path(folder / "config.yaml")
    return (
        "To see whether it pays here, train without augmentation and with random ranges, too: "
        f"`instaaug compare --config {config} --methods none,random,instaaug`."
    )


def run_fit(given: dict[str, Any], *, out: Path | None, overwrite: bool) -> None:
    """Fit views, or continue the same fit, and print what they gain."""
    settings = TtaSettings.from_mapping(given, source="the settings")
    folder = out or folder_to_continue(settings, "tta", overwrite=overwrite)
    with replacing(folder) if overwrite else nullcontext():
        _fit(settings, folder)


def _fit(settings: TtaSettings, folder: Path) -> None:
    console = Console()
    what = f"Fitting views for {settings.model.name} on {settings.data.source}"
    print_words(console, f"{what}, in {folder}.")
    with fitting_bars(console, "running the model", "outputs") as bars:
        results = fit_frozen(
            settings, folder, on_plan=lambda plan: print_words(console, str(plan)), **bars
        )
    _print_fit_results(console, Run(folder), results)


def _print_fit_results(console: Console, run: Run, results: dict[str, Any]) -> None:
    if results["skipped"]:
        print_words(console, describe_skipped(len(results["skipped"])))
    classes = run.read_facts().classes
    views = f"{results['n_views']} views of each of " if results["n_views"] else ""
    print_words(console, f"φ has learned from {views}{results['n_fit']:,} images.")
    if results["classes_from"] == "data":
        print_words(
            console, f"{_describe_outputs(classes)} Give --model.classes FILE if they are not."
        )
    if results["n_test"]:
        _print_gain(console, results)
        accuracy = results["rows"][0]["accuracy"]
        if accuracy <= CHANCE / len(classes):
            print_words(
                console,
                f"The model is right on {accuracy:.1%} of the images, which is chance. Check "
                "--model.classes, --model.mean, --model.std and --model.image_size.",
            )
    if results["validation"] is not None:
        print_words(console, results["validation"]["dependence_in_words"])
        print_words(console, results["validation"]["verdict"])
    picture = f"Look at {run.crops_file}; all" if run.crops_file.is_file() else "All"
    compared = "Compare it with other methods" if results["n_test"] else "Score it on other images"
    more = "" if results["n_test"] else " DATA"
    print_words(
        console,
        f"{picture} numbers are in {run.results_file}.\n"
        f"{compared} by `instaaug evaluate {quote_path(run.path)}{more}`, predict with `instaaug "
        f"predict {quote_path(run.path)} IMAGES`.",
    )


def _describe_outputs(classes: Sequence[str]) -> str:
    """A sentence on the order in which classes are assigned to the model's outputs."""
    if len(classes) <= 2 * N_NAMED:
        return f"The model's outputs are {', '.join(classes)}, in this order."
    first, last = ", ".join(classes[:N_NAMED]), classes[-1]
    return f"The model's {len(classes):,} outputs are {first}, ..., {last}, in this order."


def _print_gain(console: Console, results: dict[str, Any]) -> None:
    table = Table(title=f"On {results['n_test']:,} held-out images")
    table.add_column("prediction from")
    for heading in ("cost", "accuracy", "NLL", "calibration error", "temperature"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(
            row["name"],
            f"{row['cost']:.3g}",
            f"{row['accuracy']:.1%}",
            f"{row['nll_after']:.3f}",
            f"{row['ece_after']:.1%}",
            f"{row['temperature']:.2f}",
        )
    console.print(table)
    print_words(console, COST)
