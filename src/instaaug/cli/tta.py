"""What ``instaaug tta`` does: fit views for a frozen model, score them, use them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from instaaug.cli.prediction_files import write_predictions
from instaaug.cli.terminal import STOPPED, folders, print_words, progress_bar, typed
from instaaug.errors import ArgumentError
from instaaug.runs.frozen_evaluation import EarlyStop, evaluate_frozen
from instaaug.runs.frozen_fit import fit_frozen
from instaaug.runs.frozen_inference import export_frozen, predict_frozen
from instaaug.runs.frozen_run import FrozenRun
from instaaug.runs.settings import TtaSettings

__all__ = ["run_eval", "run_export", "run_fit", "run_predict"]

CHANCE = 1.2  # times 1 / classes: no better than that is not much of a model
N_NAMED = 3


def run_fit(given: dict[str, Any], *, out: Path | None) -> None:
    """Fit, or go on with the same fit, and print what it gains."""
    config = TtaSettings.from_mapping(given, source="the settings")
    console = Console()
    folder = out or _folder(config)
    what = f"Fitting views for {config.model.name} on {config.data.source}"
    print_words(console, f"{what}, in {folder}.")
    try:
        with (
            progress_bar(console) as on_decode,
            progress_bar(console, "asking the model") as on_table,
            progress_bar(console, "scoring") as on_score,
        ):
            results = fit_frozen(
                config, folder, on_decode=on_decode, on_table=on_table, on_score=on_score
            )
    except KeyboardInterrupt:
        words = "Stopped. The same command again goes on from what the model has said so far."
        print_words(Console(stderr=True), words)
        sys.exit(STOPPED)
    _print_fit(console, FrozenRun(folder), results)


def _folder(config: TtaSettings) -> Path:
    """That of the same fit, so that it goes on; else a new one."""
    wanted = config.with_full_paths()
    return next(
        folder
        for folder in folders(config.data.source, "tta")
        if not folder.exists() or FrozenRun(folder).holds(wanted)
    )


def _print_fit(console: Console, run: FrozenRun, results: dict[str, Any]) -> None:
    if results["skipped"]:
        n_skipped = len(results["skipped"])
        print_words(console, f"{n_skipped} images could not be read and were left out.")
    classes = run.read_facts().classes
    views = f"{results['n_views']} views of each of " if results["n_views"] else ""
    print_words(console, f"φ has learned from {views}{results['n_fit']:,} images.")
    if results["classes_from"] == "data":
        print_words(console, f"{_order(classes)} Give --model.classes FILE if they are not.")
    if results["n_test"]:
        _print_gain(console, results)
        accuracy = results["rows"][0]["accuracy"]
        if accuracy <= CHANCE / len(classes):
            print_words(
                console,
                f"The model is right on {accuracy:.1%} of the images, which is chance. Check "
                "--model.classes, --model.mean, --model.std and --model.image_size.",
            )
    picture = f"Look at {run.crops_file}; all" if run.crops_file.is_file() else "All"
    compared = "Compare it with other methods" if results["n_test"] else "Score it on other images"
    more = "" if results["n_test"] else " DATA"
    print_words(
        console,
        f"{picture} numbers are in {run.results_file}.\n"
        f"{compared} by `instaaug tta eval {typed(run.path)}{more}`, predict with `instaaug tta "
        f"predict {typed(run.path)} IMAGES`.",
    )


def _order(classes: Sequence[str]) -> str:
    """Which class each output of the model is taken for."""
    if len(classes) <= 2 * N_NAMED:
        return f"The model's outputs are {', '.join(classes)}, in this order."
    first, last = ", ".join(classes[:N_NAMED]), classes[-1]
    return f"The model's {len(classes):,} outputs are {first}, ..., {last}, in this order."


def _print_gain(console: Console, results: dict[str, Any]) -> None:
    table = Table(title=f"On {results['n_test']:,} held-out images")
    table.add_column("prediction from")
    for heading in ("accuracy", "NLL", "calibration error", "temperature"):
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(
            row["name"],
            f"{row['accuracy']:.1%}",
            f"{row['nll_after']:.3f}",
            f"{row['ece_after']:.1%}",
            f"{row['temperature']:.2f}",
        )
    console.print(table)


def run_eval(
    run: Path,
    *,
    data: str | None,
    samples: str,
    baselines: str,
    certainty: str | None,
    mean_views: str | None,
    calibrate: bool,
) -> None:
    """Score a fit beside other methods, and print the table and the paired tests."""
    counts = _counts(samples)
    stops = [EarlyStop(certainty=value) for value in _numbers(certainty, "certainty")]
    stops += [EarlyStop(mean_views=value) for value in _numbers(mean_views, "mean_views")]
    console = Console()
    with (
        progress_bar(console) as on_decode,
        progress_bar(console, "predicting") as on_progress,
    ):
        results = evaluate_frozen(
            run,
            data=data,
            counts=counts,
            baselines=baselines,
            stops=stops,
            calibrate=calibrate,
            on_decode=on_decode,
            on_progress=on_progress,
        )
    _print_scores(console, FrozenRun(run), results, calibrated=calibrate)


def _counts(text: str) -> tuple[int, ...]:
    """Numbers of views, each once, in rising order."""
    try:
        counts = tuple(sorted({int(piece) for piece in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1:
        raise ArgumentError(
            f"`views` must be whole numbers from 1 on with commas, such as 1,4,10: got {text!r}."
        )
    return counts


def _numbers(text: str | None, name: str) -> list[float]:
    try:
        return [float(piece) for piece in text.split(",")] if text else []
    except ValueError:
        raise ArgumentError(
            f"`{name}` must be one number, or several with commas: got {text!r}."
        ) from None


def _print_scores(
    console: Console, run: FrozenRun, results: dict[str, Any], *, calibrated: bool
) -> None:
    if results["n_left_out"]:
        print_words(
            console,
            f"{results['n_left_out']:,} images are left out: φ has learned from them.",
        )
    table = Table(title=f"On {results['n']:,} images")
    table.add_column("prediction from")
    headings = ["views", "accuracy", "95 % interval", "NLL", "calibration error"]
    after = ["T", "NLL after T", "error after T"] if calibrated else []
    for heading in headings + after:
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(row["name"], *_cells(row))
    console.print(table)
    if not calibrated:
        print_words(console, "--calibrate adds NLL and calibration error after a temperature.")
    if results["comparisons"]:
        _print_comparisons(console, results["comparisons"])
    picture = f"Look at {run.curve_file}; all" if run.curve_file.is_file() else "All"
    print_words(console, f"{picture} numbers are in {run.scores_file}.")


def _cells(row: dict[str, Any]) -> list[str]:
    cells = [
        f"{row['views']:.3g}",
        f"{row['accuracy']:.1%}",
        f"{100 * row['low']:.1f} to {100 * row['high']:.1f}",
        f"{row['nll']:.3f}",
        f"{row['ece']:.1%}",
    ]
    if "temperature" in row:
        cells += [
            f"{row['temperature']:.2f}",
            f"{row['nll_after']:.3f}",
            f"{row['ece_after']:.1%}",
        ]
    return cells


def _print_comparisons(console: Console, comparisons: Sequence[dict[str, Any]]) -> None:
    table = Table(title="Against the best of the others with as many views or fewer")
    for heading in ("prediction from", "views", "best of the others", "views"):
        table.add_column(heading, justify="right" if heading == "views" else "left")
    for heading in ("difference", "only here right", "only there", "p (McNemar, exact)"):
        table.add_column(heading, justify="right")
    for found in comparisons:
        table.add_row(
            found["name"],
            f"{found['views']:.3g}",
            found["best"],
            f"{found['best_views']:.3g}",
            f"{100 * found['difference']:+.1f} points",
            f"{found['only_learned']:,}",
            f"{found['only_best']:,}",
            f"{found['p_value']:.2g}",
        )
    console.print(table)


def run_predict(
    run: Path,
    images: Sequence[Path],
    *,
    out: Path | None,
    n_views: int | None,
    certainty: float | None,
    n_top: int,
    skip_bad: bool,
) -> None:
    """Predict and write one row per image as soon as it is known."""
    rows = predict_frozen(
        run, images, n_views=n_views, certainty=certainty, n_top=n_top, skip_bad=skip_bad
    )
    write_predictions(rows, out)


def run_export(run: Path, file: Path) -> None:
    """Write φ or the policy, and say what came of it."""
    difference = export_frozen(run, file)
    if difference is None:
        words = f"The best views on average are in {file}."
    else:
        words = f"φ is in {file}; read back, its outputs differ by {difference:.1g} at most."
    print_words(Console(), words)
