"""Scores as a table."""

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_scores"]

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
SHARES = ("top1", "top5", "knn", "ece")


def print_scores(console: Console, scores: dict[str, Any], *, n_images: int) -> None:
    """Print the scores without and with test-time augmentation, and what φ learned."""
    if views := scores.get("views"):
        line = f"{views['found']:.1%} of views found the other one of their image among a batch"
        console.print(f"{line} (NT-Xent {views['nll']:.3f}).", highlight=False)
    if "plain" in scores:
        _print_table(console, scores, n_images)
    for factor, numbers in scores.get("learned", {}).items():
        line = f"{factor}: entropy {numbers['entropy']:.2f} nats, λ {numbers['weight']:.3f}"
        if "mutual_information" in numbers:
            line += f", of which {numbers['mutual_information']:.2f} nats tell images apart"
        console.print(line, highlight=False)


def _print_table(console: Console, scores: dict[str, Any], n_images: int) -> None:
    table = Table(title=f"On {n_images:,} test images")
    table.add_column("prediction from")
    names = [name for name in HEADINGS if name in scores["plain"]]
    for name in names:
        table.add_column(HEADINGS[name], justify="right")
    rows = {"the image": scores["plain"]}
    if augmented := scores.get("augmented"):
        rows[f"{augmented['n_samples']} augmented samples"] = augmented
    for title, row in rows.items():
        table.add_row(title, *(_number(name, row[name]) for name in names))
    console.print(table)


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name in SHARES else f"{value:.3f}"
