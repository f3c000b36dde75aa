"""Run benchmarks and print the verdicts: ``python -m benchmarks.run [NAME ...]``."""

import sys

from rich.console import Console
from rich.table import Table

from benchmarks import (
    at_test_time,
    color,
    contrastive,
    exact_gradient,
    frozen,
    frozen_cost,
    input_pipeline,
    leaderboard,
    rotation,
    startup,
    tiny_imagenet,
    training_step,
    variance,
    warp,
)
from benchmarks.record import Row

__all__ = ["main"]

PRINTING = {
    m.__name__.split(".")[-1]: m
    for m in (
        *(variance, rotation, tiny_imagenet, leaderboard, contrastive, frozen, exact_gradient),
    )
}
TIMED = {
    m.__name__.split(".")[-1]: m
    for m in (warp, color, startup, at_test_time, training_step, input_pipeline, frozen_cost)
}


def show(title: str, rows: list[Row]) -> None:
    table = Table(title=title, title_justify="left", min_width=78)
    for heading in ("measured", "against", "ratio", "IQR", "budget", "verdict"):
        table.add_column(heading)
    for row in rows:
        table.add_row(
            f"{row.name} ({row.median_seconds * 1e3:.3g} ms)",
            f"{row.reference} ({row.reference_seconds * 1e3:.3g} ms)",
            f"{row.ratio:.3f}",
            f"{row.lower_quartile:.3f} to {row.upper_quartile:.3f}",
            "-" if row.budget is None else f"{row.budget:.2f}",
            row.verdict,
        )
    Console().print(table)


def main(names: list[str]) -> None:
    for name in names or [*TIMED, *PRINTING]:
        if name in PRINTING:
            PRINTING[name].main()
            continue
        for title, rows in TIMED[name].main().items():
            show(title, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
