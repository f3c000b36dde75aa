"""What ``instaaug evaluate`` and ``instaaug predict`` do."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from instaaug.cli.prediction_files import write_predictions
from instaaug.cli.scores import print_scores
from instaaug.cli.terminal import progress_bar
from instaaug.files import write_text
from instaaug.runs.inference import predict_files, score_run

__all__ = ["run_evaluate", "run_predict"]


def run_evaluate(
    run: Path, *, data: str | None, n_samples: int | None, json_file: Path | None
) -> None:
    """Score a run on its test images or on others, and print the table."""
    console = Console()
    with progress_bar(console) as on_decode:
        scores = score_run(run, data=data, n_samples=n_samples, on_decode=on_decode)
    print_scores(console, scores, n_images=int(scores["plain"]["n"]))
    if json_file is not None:
        write_text(json_file, json.dumps(scores, indent=2) + "\n")


def run_predict(
    run: Path,
    images: Sequence[Path],
    *,
    out: Path | None,
    n_samples: int | None,
    n_top: int,
    skip_bad: bool,
) -> None:
    """Predict and write one row per image as soon as it is known."""
    rows = predict_files(run, images, n_samples=n_samples, n_top=n_top, skip_bad=skip_bad)
    write_predictions(rows, out)
