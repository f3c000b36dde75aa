"""What ``instaaug compare`` does: say the plan, show how it goes, print the leaderboard."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from instaaug.cli.leaderboard import leaderboard_table
from instaaug.cli.settings import choose_settings
from instaaug.cli.standings import shown_standings
from instaaug.cli.terminal import STOPPED, folders, print_words
from instaaug.compare.comparing import (
    OnChange,
    check_one_process,
    check_runs,
    compare,
    joined_state,
)
from instaaug.compare.contenders import read_contenders
from instaaug.compare.plan import (
    check_reference,
    plan_words,
    with_costs,
    with_epochs,
    with_reference,
)
from instaaug.compare.results import (
    environment_note,
    read_comparison,
    write_page,
    write_tables,
)
from instaaug.compare.standings import Standing
from instaaug.compare.state import claimed_by_one, read_state, write_state
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.tasks import Interrupted
from instaaug.yaml_files import read_yaml

__all__ = ["run_compare"]

EPOCHS = "trainer.max_epochs"
SAVING = "Saving; press Ctrl-C again to end at once."


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
    if budget is not None and EPOCHS in given:
        raise ArgumentError(f"`budget` and `{EPOCHS}` exclude each other: give one of them.")
    console = Console()
    base = choose_settings(given, config).with_full_paths()
    filed = read_yaml(config).get("trainer", {}) if config else {}
    has_epochs = EPOCHS in given or "max_epochs" in filed
    check_one_process(base)
    contenders = read_contenders(methods, base)
    folder = out or next(folders(base.data.source, "comparison"))
    if folder.resolve().is_relative_to(base.data.source):
        raise ArgumentError(
            f"`out` must lie outside of the images: got {str(folder)!r} within "
            f"{base.data.source!r}."
        )
    chosen_seeds = [base.seed + i for i in range(seeds)]
    in_use = f"`out` must not be in use: another comparison is at work in {str(folder)!r}."
    with (
        _how_to_go_on(),
        claimed_by_one(folder, words=in_use),
        _without_trace(folder),
    ):
        before = read_state(folder)
        check_reference(before, contenders, reference)
        base, epoch_seconds = with_epochs(base, before, budget, has_epochs=has_epochs)
        state = joined_state(folder, base, contenders, chosen_seeds, budget)
        check_runs(state, base, contenders, folder, retry=retry)
        state = with_reference(folder, replace(state, epoch_seconds=epoch_seconds), reference)
        state = with_costs(state, contenders, base, on_timing=partial(_say_timing, console))
        write_state(folder, state)
        words = plan_words(folder, state, contenders, chosen_seeds, jobs=jobs, retry=retry)
        print_words(console, words)
        with shown_standings(console, base.trainer.max_epochs) as show:
            compare(
                base, contenders, chosen_seeds, folder, jobs=jobs, retry=retry,
                on_change=_and_written(console, show, folder),
                on_stop=lambda: print_words(console, SAVING),
            )  # fmt: skip
        _print_end(console, folder)


def _say_timing(console: Console, labels: Sequence[str]) -> None:
    print_words(console, f"Timing training steps of {', '.join(labels)}.")


@contextmanager
def _how_to_go_on() -> Iterator[None]:
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as stop:
        words = str(stop) or "Stopped."
        print_words(Console(stderr=True), f"{words} The same command goes on.")
        sys.exit(STOPPED)


@contextmanager
def _without_trace(folder: Path) -> Iterator[None]:
    """A slip in the settings shall leave no empty folder."""
    try:
        yield
    except BaseException:  # Ctrl-C as well
        with suppress(OSError):  # which it is if there is anything in it
            folder.rmdir()
        raise


def _and_written(console: Console, show: OnChange, out: Path) -> OnChange:
    """Show what changes, and keep the tables up to date; trouble with them stops no training."""
    n_written = -1
    told: set[str] = set()

    def on_change(runs: Sequence[Standing]) -> None:
        nonlocal n_written
        show(runs)
        n_ended = sum(run.status in ("done", "failed") for run in runs)
        if n_ended == n_written:
            return
        n_written = n_ended
        try:
            write_tables(out, read_comparison(out))
        except (InstaAugError, OSError) as error:
            if str(error) not in told:
                told.add(str(error))
                print_words(console, f"There is no table yet: {error}")

    return on_change


def _print_end(console: Console, out: Path) -> None:
    comparison = read_comparison(out)
    console.print(leaderboard_table(comparison))
    if note := environment_note(out):
        print_words(console, note)
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
