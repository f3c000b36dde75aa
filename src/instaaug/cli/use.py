"""Commands that use a run: evaluate, predict, inspect, report and export."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from rich.console import Console
from rich.table import Table

from instaaug.cli.terminal import print_words, progress_bar
from instaaug.errors import ArgumentError
from instaaug.files import write_text
from instaaug.runs.folder import Run
from instaaug.runs.inference import (
    ExportedPart,
    evaluate_run,
    export_run,
    inspect_files,
    predict_files,
)
from instaaug.runs.reporting import write_report
from instaaug.runs.settings import EvaluateSettings, OtherModelSettings
from instaaug.runs.tta_evaluation import EarlyStop
from instaaug.stats import wilson_interval

__all__ = [
    "COST",
    "print_scores",
    "run_evaluate",
    "run_export",
    "run_inspect",
    "run_predict",
    "run_report",
]

HEADINGS = {
    "top1": "top-1",
    "top5": "top-5",
    "knn": "kNN top-1",
    "nll": "NLL",
    "ece": "calibration error",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
}
COST = "Cost is in multiply-adds; 1 is a pass of the whole image."
SHARES = ("top1", "top5", "knn", "ece")
WIDE = 0.1  # width of an interval that tells hardly anything


def run_evaluate(
    run: Path,
    *,
    data: str | None,
    model: dict[str, Any],
    views: str | None,
    baselines: str | None,
    certainty: str | None,
    mean_views: str | None,
    calibrate: bool,
    json_file: Path | None,
) -> None:
    """Score a run on its test images or on others, and print the table."""
    counts = None if views is None else _read_counts(views)
    stops = [EarlyStop(certainty=value) for value in _read_numbers(certainty, "certainty")]
    stops += [EarlyStop(mean_views=value) for value in _read_numbers(mean_views, "mean_views")]
    other = _read_other_model(model)
    console = Console()
    with (
        progress_bar(console) as on_decode,
        progress_bar(console, "predicting") as on_progress,
    ):
        scores = evaluate_run(
            run, data=data, model=other, n_views=counts, baselines=baselines, stops=stops,
            calibrate=calibrate, on_decode=on_decode, on_progress=on_progress,
        )  # fmt: skip
    if "rows" in scores:
        _print_views(console, Run(run), scores, other=other, calibrated=calibrate)
    else:
        print_scores(console, scores, n_images=int(scores["plain"]["n"]))
    if json_file is not None:
        write_text(json_file, json.dumps(scores, indent=2) + "\n")


def _read_other_model(given: dict[str, Any]) -> OtherModelSettings | None:
    """The model that was named, if one was."""
    if given and "model" not in given:
        raise ArgumentError(
            f"`{next(iter(given))}` describes another model: got no --model. Name it, or leave "
            "the option out."
        )
    return EvaluateSettings.from_mapping(given, source="the settings").model if given else None


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
    rows = predict_files(
        run, images, n_views=n_views, certainty=certainty, n_top=n_top, skip_bad=skip_bad
    )
    _write_predictions(rows, out)


def run_export(
    run: Path, file: Path, *, part: ExportedPart, n_views: int | None, tolerance: float
) -> None:
    """Write the predictor, φ or the policy, and print how well the file reproduces it."""
    difference = export_run(run, file, part=part, n_views=n_views, tolerance=tolerance)
    if difference is None:
        words = f"The best views on average are in {file}."
    else:
        what = "φ" if part == "phi" else "The predictor"
        words = f"{what} is in {file}; read back, its outputs differ by {difference:.1g} at most."
    print_words(Console(), words)


def run_report(
    runs: Sequence[Path], *, out: Path | None, n_inputs: int, n_views: int | None
) -> None:
    """Write the page; print where it is and its warnings."""
    console = Console()
    with (
        progress_bar(console) as on_decode,
        progress_bar(console, "running the model") as on_progress,
    ):
        report = write_report(
            runs, out, n_inputs=n_inputs, n_views=n_views, on_decode=on_decode,
            on_progress=on_progress,
        )  # fmt: skip
    size = report.page.stat().st_size / 1e6
    n_figures = len({file.stem for file in report.figures})
    for name, title in report.warnings:
        print_words(console, f"{name}: {title}" if len(runs) > 1 else f"Look at this: {title}.")
    print_words(
        console,
        f"{report.n_inputs} inputs, {n_figures} figures. Open {report.page} ({size:.1f} MB) in a "
        "browser.",
    )


def run_inspect(run: Path, images: Sequence[Path], *, out: Path | None, n_samples: int) -> None:
    """Draw images with what the run has learned for them."""
    written = inspect_files(run, images, out, n_samples=n_samples)
    print_words(Console(), "\n".join(f"Look at {file}." for file in written))


def print_scores(console: Console, scores: dict[str, Any], *, n_images: int) -> None:
    """Print the scores without and with test-time augmentation, and what φ learned."""
    if views := scores.get("views"):
        line = f"{views['found']:.1%} of views found the other one of their image among a batch"
        console.print(f"{line} (NT-Xent {views['nll']:.3f}).", highlight=False)
    if "plain" in scores:
        _print_table(console, scores, n_images)
    for factor, numbers in scores.get("learned", {}).items():
        line = f"{factor}: entropy {numbers['entropy']:.2f} nats, "
        if "mutual_information" in numbers:
            line += f"of which {numbers['mutual_information']:.2f} tell images apart, "
        if "loss_correlation" in numbers:
            line += (
                f"correlation with the loss within an image {numbers['loss_correlation']:.2f}, "
            )
        weight = numbers["weight"]
        weights = list(weight.values()) if isinstance(weight, dict) else [weight]
        ends = dict.fromkeys(f"{end:.3f}" for end in (min(weights), max(weights)))
        console.print(f"{line}λ {' to '.join(ends)}", highlight=False)
        for sentence in numbers.get("edges", ()):
            console.print(f"{factor}: {sentence}", highlight=False)


def _print_table(console: Console, scores: dict[str, Any], n_images: int) -> None:
    table = Table(title=f"On {n_images:,} test images")
    table.add_column("prediction from")
    names = [name for name in HEADINGS if name in scores["plain"]]
    for name in names:
        table.add_column(HEADINGS[name], justify="right")
        if name == "top1":
            table.add_column("95 % interval", justify="right")
    rows = {"the image": scores["plain"]}
    if augmented := scores.get("augmented"):
        rows[f"{augmented['n_samples']} views"] = augmented
    rows |= {
        f"{title}, {group}": own[kind]
        for group, own in scores.get("groups", {}).items()
        for title, kind in zip(list(rows), ("plain", "augmented"), strict=False)
    }
    for title, row in rows.items():
        table.add_row(title, *chain.from_iterable(_score_cells(name, row) for name in names))
    console.print(table)
    if "top1" in names and (words := _say_if_few(scores["plain"])):
        print_words(console, words)


def _score_cells(name: str, row: dict[str, float]) -> list[str]:
    """A number, and the interval of an accuracy."""
    cells = [f"{row[name]:.1%}" if name in SHARES else f"{row[name]:.3f}"]
    if name == "top1":
        low, high = _interval(row)
        cells.append(f"{100 * low:.1f} to {100 * high:.1f}")
    return cells


def _interval(row: dict[str, float]) -> tuple[float, float]:
    return wilson_interval(round(row["top1"] * row["n"]), int(row["n"]))


def _say_if_few(row: dict[str, float]) -> str:
    """A sentence where there are too few images to tell methods apart."""
    low, high = _interval(row)
    if high - low <= WIDE:
        return ""
    noise = f"differences below {50 * (high - low):.0f} points are noise"
    return f"{int(row['n']):,} test images are few: {noise}."


def _print_views(
    console: Console,
    run: Run,
    results: dict[str, Any],
    *,
    other: OtherModelSettings | None,
    calibrated: bool,
) -> None:
    if results["n_left_out"]:
        print_words(
            console,
            f"{results['n_left_out']:,} images are left out: φ has learned from them.",
        )
    if other is not None:
        own = run.read_tta_settings().model.name
        words = f"{other.name} predicts from views that were fitted for {own}, and not refitted."
        if not calibrated:
            words += " Nothing is calibrated for it; --calibrate does that."
        print_words(console, words)
    table = Table(title=f"On {results['n']:,} images")
    table.add_column("prediction from", no_wrap=True)
    headings = ["views", "cost", "accuracy", "95 % interval", "NLL", "calibration error"]
    after = ["T", "NLL after T", "error after T"] if calibrated else []
    for heading in headings + after:
        table.add_column(heading, justify="right")
    for row in results["rows"]:
        table.add_row(_describe_method(row["name"], row["merge"]), *_cells(row))
    console.print(table)
    print_words(console, COST)
    if not calibrated:
        print_words(console, "--calibrate adds NLL and calibration error after a temperature.")
    if results["comparisons"]:
        _print_comparisons(console, results["comparisons"])
    name = None if other is None else other.name
    curve = run.curve_file_of(name)
    picture = f"Look at {curve}; all" if curve.is_file() else "All"
    print_words(console, f"{picture} numbers are in {run.scores_file_of(name)}.")


def _describe_method(name: str, merge: str) -> str:
    """A method, and how its views are merged unless that is the plain mean."""
    return name if merge == "logit" else f"{name}, by {merge}"


def _cells(row: dict[str, Any]) -> list[str]:
    cells = [
        f"{row['views']:.3g}",
        f"{row['cost']:.3g}",
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
    table = Table(title="Against the best of the others at the same cost or less")
    for heading in ("prediction from", "views", "best of the others", "views"):
        table.add_column(heading, justify="right" if heading == "views" else "left")
    for heading in ("difference", "only here right", "only there", "p (McNemar, exact)"):
        table.add_column(heading, justify="right")
    for found in comparisons:
        table.add_row(
            found["name"],
            f"{found['views']:.3g}",
            _describe_method(found["best"], found["best_merge"]),
            f"{found['best_views']:.3g}",
            f"{100 * found['difference']:+.1f} points",
            f"{found['only_learned']:,}",
            f"{found['only_best']:,}",
            f"{found['p_value']:.2g}",
        )
    console.print(table)


def _read_counts(text: str) -> tuple[int, ...]:
    """Numbers of views, each once, in rising order."""
    try:
        counts = tuple(sorted({int(piece) for piece in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 0:
        raise ArgumentError(
            f"`views` must be whole numbers with commas, such as 1,4,10: got {text!r}."
        )
    return counts


def _read_numbers(text: str | None, name: str) -> list[float]:
    try:
        return [float(piece) for piece in text.split(",")] if text else []
    except ValueError:
        raise ArgumentError(
            f"`{name}` must be one number, or several with commas: got {text!r}."
        ) from None


@runtime_checkable
class Writable(Protocol):
    """The terminal or an open file."""

    def write(self, text: str, /) -> Any:
        """Add text."""


def _write_predictions(rows: Iterator[dict[str, Any]], out: Path | None) -> None:
    """Write rows as they come, to a CSV or JSON-lines file or as CSV to the terminal."""
    if out is not None and out.suffix not in (".csv", ".jsonl"):
        raise ArgumentError(f"`out` must end in .csv or .jsonl: got {str(out)!r}.")
    rows = chain([next(rows)], rows)  # raises before `out` is overwritten
    with _open_output(out) as file:
        n, bad = _write(rows, file, as_lines=out is not None and out.suffix == ".jsonl")
    if out is not None or bad:
        words = f"{n - bad} of {n} images predicted" + (f"; see {out}." if out else ".")
        Console(stderr=True, soft_wrap=True).print(words, highlight=False, markup=False)


@contextmanager
def _open_output(out: Path | None) -> Iterator[Writable]:
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
