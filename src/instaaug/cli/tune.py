"""What ``instaaug tune`` prints: every trial, the best settings and how certain they are."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from instaaug.cli.settings import choose_settings
from instaaug.cli.terminal import STOPPED, folders, print_words, progress_bar
from instaaug.compare.plan import parse_duration
from instaaug.compare.search_space import describe_choice, describe_settings
from instaaug.compare.tuning import (
    TuningResult,
    format_score,
    learns_from_validation,
    tune,
    with_validation,
)
from instaaug.compare.tuning_trials import TrialRecord, TuningFolder
from instaaug.report.charts.tuning import TunedTrial, draw_tuning
from instaaug.report.comparison import one_line, shorten_words
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.settings import Task, TrainSettings
from instaaug.tasks import Interrupted

__all__ = ["run_tune"]

MAX_REASON_LENGTH = 100
COLUMNS = ("trial", "settings", "epochs", "score", "", "time")


def run_tune(
    given: dict[str, Any],
    *,
    config: Path | None,
    out: Path | None,
    trials: int,
    budget: str | None,
) -> None:
    """Search with the settings of a file, over which those typed have priority."""
    chosen = choose_settings(given, config)
    seconds = None if budget is None else parse_duration(budget)
    console = Console()
    candidates = folders(chosen.data.source, "tuning")
    folder = TuningFolder(out) if out else TuningFolder.find(candidates, chosen)
    print_words(console, f"Tuning on {chosen.data.source}; the search is in {folder.path}.")
    if not chosen.data.validation_fraction:
        share = with_validation(chosen).data.validation_fraction
        print_words(
            console,
            f"The settings hold out no validation images: the trials hold out {share:.0%} of the "
            "training images to be compared on.",
        )
    try:
        with _TrialDisplay(console, chosen, trials) as show, progress_bar(console) as on_decode:
            result = tune(
                chosen,
                folder.path,
                n_trials=trials,
                budget=seconds,
                command=" ".join(["instaaug", *sys.argv[1:]]),
                on_change=show,
                on_decode=on_decode,
            )
    except (Interrupted, KeyboardInterrupt):
        _print_how_to_go_on(folder, chosen.task)
        sys.exit(STOPPED)
    _print_result(console, folder, chosen.task, result)


def _print_result(
    console: Console, folder: TuningFolder, task: Task, result: TuningResult
) -> None:
    verdict = result.verdict.describe(task)
    print_words(console, verdict[0].upper() + verdict[1:])
    if not result.verdict.is_default:
        print_words(console, describe_choice(folder.read_settings(), result.config))
        if learns_from_validation(folder.read_settings()):
            print_words(
                console,
                "φ learns from validation images as well, which favors it over random transforms.",
            )
        print_words(
            console,
            "The score of the best of several is optimistic: it was chosen by it. Only the test "
            "images, which no trial has seen, tell how good it is.",
        )
    _draw(console, folder, task)
    print_words(console, f"Train with it: {folder.training_command(result.config)}")


class _TrialDisplay:
    """The trials so far: a table that grows on a terminal, else a line for each."""

    def __init__(self, console: Console, config: TrainSettings, n_trials: int) -> None:
        self.console, self.config, self.n_trials = console, config, n_trials
        self.n_printed = 0
        self._live: Live | None = None

    def __enter__(self) -> "_TrialDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, records: Sequence[TrialRecord]) -> None:
        """Show what has changed."""
        if self.console.is_terminal:
            if self._live is None:
                self._live = Live(console=self.console, auto_refresh=False)
                self._live.start()
            self._live.update(self._table(records), refresh=True)
            return
        for record in records[self.n_printed :]:
            if record.state != "running":
                cells = [cell for cell in self._row(record) if cell]
                print_words(self.console, "trial " + "  ".join(cells))
                self.n_printed += 1

    def _table(self, records: Sequence[TrialRecord]) -> Table:
        table = Table()
        for name in COLUMNS:
            table.add_column(name)
        shown = records[-(self.console.height - 8) :] if self.console.height > 8 else records[-1:]
        for record in shown:
            table.add_row(*map(Text, self._row(record)))  # a reason may look like markup
        return table

    def _row(self, record: TrialRecord) -> list[str]:
        done = record.rungs[-1][0] if record.rungs else 0
        done = self.config.trainer.max_epochs if record.scores else done
        score = ""
        if record.scores:
            score = format_score(record, self.config.task)
        elif record.score is not None:
            is_share = self.config.task != "regression"
            score = f"{100 * record.score:.1f} %" if is_share else f"{record.score:.3f}"
        state = record.state if record.number else f"{record.state}, unchanged settings"
        if record.reason:
            state += f": {shorten_words(one_line(record.reason), MAX_REASON_LENGTH)}"
        return [
            f"{record.number + 1}/{self.n_trials}",
            describe_settings(record.changes),
            f"{done}/{self.config.trainer.max_epochs}",
            score,
            state,
            f"{record.seconds:.0f} s" if record.seconds else "",
        ]


def _print_how_to_go_on(folder: TuningFolder, task: Task) -> None:
    console = Console(stderr=True)
    message = "Stopped. The same command goes on."
    if folder.tuned_file.is_file():
        _draw(console, folder, task)
        message += f" The best so far is in {folder.tuned_file}."
    print_words(console, message)


def _draw(console: Console, folder: TuningFolder, task: Task) -> None:
    """Draw the scores of all trials, if matplotlib is installed."""
    scale = 1 if task == "regression" else 100
    trials = [
        TunedTrial(
            record.number,
            record.ranges,
            record.state,  # type: ignore[arg-type]  # what is in the file has ended
            None if record.state == "failed" else scale * (record.score or 0.0),
            scale * record.error if record.scores else 0.0,
        )
        for record in folder.read_trials()
    ]
    name = "validation R²" if task == "regression" else "validation accuracy (%)"
    try:
        is_learned = folder.read_settings().method.name == "instaaug"
        drawing = draw_tuning(
            trials,
            score_name=name,
            largest=scale,
            range_name="band of {}, as diversity" if is_learned else "range of {}",
        )
    except MissingPlottingError as error:
        print_words(console, f"There is no figure. {error}")
        return
    for file in folder.figures:
        save_figure(drawing, file)
    print_words(console, f"Look at {folder.figures[0]}.")
