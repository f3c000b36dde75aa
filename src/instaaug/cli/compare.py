"""What ``instaaug compare`` does: say the plan, show how it goes, print the leaderboard."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from instaaug.cli.leaderboard import leaderboard_table
from instaaug.cli.standings import shown_standings
from instaaug.cli.terminal import STOPPED, folders, print_words
from instaaug.errors import ArgumentError, InstaAugError, UnknownNameError
from instaaug.experiments.comparison.budget import epochs_in, measured_epoch, seconds_of, words_of
from instaaug.experiments.comparison.comparing import OnChange, check_runs, compare, joined_state
from instaaug.experiments.comparison.contenders import Contender, read_contenders
from instaaug.experiments.comparison.results import read_comparison, write_page, write_tables
from instaaug.experiments.comparison.standings import Standing, standing_of
from instaaug.experiments.comparison.state import (
    ComparisonState,
    claimed_by_one,
    read_state,
    write_state,
)
from instaaug.experiments.comparison.step_cost import measured_costs
from instaaug.experiments.config import TrainConfig, read_config
from instaaug.experiments.run_directory import read_yaml
from instaaug.tasks import Interrupted

__all__ = ["run_compare"]


def run_compare(
    given: dict[str, Any],
    *,
    methods: str,
    seeds: int,
    budget: str | None,
    jobs: int,
    reference: str | None,
    retry: bool,
    config: Path | None,
    out: Path | None,
) -> None:
    """Compare methods with the settings of a file, over which those typed have priority."""
    if "method" in given:
        raise ArgumentError("`method` is what is compared: name several in `methods`.")
    console = Console()
    settings = {**(read_yaml(config) if config else {}), **given}
    base = read_config(settings, source=str(config or "the settings")).located()
    contenders = read_contenders(methods, base)
    folder = out or next(folders(base.data, "comparison"))
    if folder.resolve().is_relative_to(base.data):
        raise ArgumentError(
            f"`out` must lie outside of the images: got {str(folder)!r} within {base.data!r}."
        )
    chosen_seeds = [base.seed + i for i in range(seeds)]
    in_use = f"`out` must not be in use: another comparison is at work in {str(folder)!r}."
    with claimed_by_one(folder, words=in_use), _without_trace(folder):
        _check_reference(folder, contenders, reference)
        has_epochs = "epochs" in settings
        base, epoch_seconds = _with_epochs(folder, base, budget, has_epochs=has_epochs)
        state = joined_state(folder, base, contenders, chosen_seeds, budget)
        check_runs(base, contenders, state.seeds, folder, retry=retry)
        state = replace(state, epoch_seconds=epoch_seconds)
        state = _with_costs(console, state, contenders, base)
        write_state(folder, state)
        print_words(console, _plan(folder, state, contenders, chosen_seeds, jobs))
        try:
            with shown_standings(console, base.epochs) as show:
                compare(
                    base, contenders, chosen_seeds, folder, jobs=jobs, retry=retry,
                    on_change=_and_written(show, folder, reference),
                )  # fmt: skip
        except Interrupted as stop:
            print_words(Console(stderr=True), f"{stop} The same command goes on.")
            sys.exit(STOPPED)
        _print_end(console, folder, reference)


@contextmanager
def _without_trace(folder: Path) -> Iterator[None]:
    """A slip in the settings shall leave no empty folder."""
    try:
        yield
    except Exception:
        with suppress(OSError):  # which it is if there is anything in it
            folder.rmdir()
        raise


def _check_reference(out: Path, contenders: Sequence[Contender], reference: str | None) -> None:
    before = read_state(out)
    labels = {c.label for c in contenders} | set(before.contenders if before else ())
    if reference is not None and reference not in labels:
        raise UnknownNameError("contender", reference, labels)


def _with_epochs(
    out: Path, base: TrainConfig, budget: str | None, *, has_epochs: bool
) -> tuple[TrainConfig, float]:
    """With as many epochs as were given, found before, or fit the budget; and the time of one."""
    seconds = None if budget is None else seconds_of(budget)
    before = read_state(out)
    known = before.epoch_seconds if before else None
    epoch_seconds = measured_epoch(base) if known is None else known
    if has_epochs:
        return base, epoch_seconds
    if before is not None:
        if budget not in (None, before.budget):
            raise ArgumentError(
                f"`budget` must be what the comparison in {str(out)!r} began with, "
                f"{before.budget or 'none at all'}: got {budget!r}. Choose another folder."
            )
        return replace(base, epochs=before.settings["epochs"]), epoch_seconds
    if seconds is not None:
        base = replace(base, epochs=epochs_in(seconds, epoch_seconds))
    return base, epoch_seconds


def _with_costs(
    console: Console, state: ComparisonState, contenders: Sequence[Contender], base: TrainConfig
) -> ComparisonState:
    """With the cost of a step of those contenders that were not timed before."""
    new = {c.label: c.config(base) for c in contenders if c.label not in state.costs}
    if not new:
        return state
    print_words(console, f"Timing training steps of {', '.join(new)}.")
    costs = {label: list(cost) for label, cost in measured_costs(new).items()}
    return replace(state, costs={**state.costs, **costs})


def _plan(
    out: Path,
    state: ComparisonState,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    jobs: int,
) -> str:
    n_epochs = state.settings["epochs"]
    per_run = n_epochs * (state.epoch_seconds or 0.0)
    costs = [
        state.costs.get(contender.label, [1.0])[0]
        for contender in contenders
        for seed in seeds
        if standing_of(out, contender.label, seed).status == "waiting"
    ]
    n_runs = len(contenders) * len(seeds)
    left = "" if len(costs) == n_runs else f", of which {len(costs)} are left"
    numbers = (len(contenders), "method"), (len(seeds), "seed"), (n_runs, "run")
    methods, runs_of, runs = (f"{n} {word}{'s' * (n != 1)}" for n, word in numbers)
    return (
        f"{methods} × {runs_of} = {runs} of {n_epochs} epoch{'s' * (n_epochs != 1)}{left}; about "
        f"{words_of(per_run * sum(costs) / jobs)} of training in all. Everything is in {out}."
    )


def _and_written(show: OnChange, out: Path, reference: str | None) -> OnChange:
    """Show what changes, and keep the tables up to date."""
    n_written = -1

    def on_change(runs: Sequence[Standing]) -> None:
        nonlocal n_written
        show(runs)
        n_ended = sum(run.status in ("done", "failed") for run in runs)
        if n_ended != n_written:
            write_tables(out, read_comparison(out, reference=reference))
            n_written = n_ended

    return on_change


def _print_end(console: Console, out: Path, reference: str | None) -> None:
    comparison = read_comparison(out, reference=reference)
    console.print(leaderboard_table(comparison))
    print_words(console, f"The table is in {out / 'leaderboard.md'}, .csv and .tex.")
    try:
        report = write_page(out, comparison)
    except InstaAugError as error:
        print_words(console, f"There is no page to explore: {error}")
        return
    if report is None:
        print_words(console, "No run has come to a result.")
        sys.exit(1)
    print_words(console, f"Open {report.page} in a browser to look at the best with one seed.")
