"""Run benchmarks and print what they find: ``python -m benchmarks.run [NAME ...]``."""

import sys
from functools import partial

from rich.console import Console

from benchmarks import (
    budgets,
    color,
    contrastive,
    defaults,
    exact_gradient,
    fine_tuning,
    frozen,
    frozen_cost,
    groceries,
    input_pipeline,
    leaderboard,
    memory,
    mirrored_views,
    phi_resolution,
    reliability,
    retrieval,
    rotation,
    scaling,
    signals,
    tiny_imagenet,
    training,
    transfer,
    variance,
    views,
    where_time_goes,
)
from benchmarks.regimes import REGIMES
from benchmarks.training import run as run_regime
from instaaug.cli.bench import show_tables

__all__ = ["PRINTING", "TIMED", "main"]

TIMED = {m.__name__.split(".")[-1]: m for m in (views, input_pipeline, frozen_cost)}
PRINTING = {
    m.__name__.split(".")[-1]: m.main
    for m in (
        *(budgets, memory, scaling, where_time_goes, phi_resolution, variance, rotation),
        *(color, tiny_imagenet, training, defaults, groceries, fine_tuning, leaderboard),
        *(contrastive, frozen, mirrored_views, exact_gradient, transfer, retrieval, signals),
        reliability,
    )
} | {name: partial(run_regime, regime) for name, regime in REGIMES.items()}


def main(names: list[str]) -> None:
    for name in names or [*TIMED, *PRINTING]:
        if name in PRINTING:
            PRINTING[name]()
        else:
            show_tables(Console(), TIMED[name].main())


if __name__ == "__main__":
    main(sys.argv[1:])
