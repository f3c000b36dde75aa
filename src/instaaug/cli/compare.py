"""What ``instaaug compare`` prints: the plan, the progress of the runs, the leaderboard."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from instaaug.cli.settings import choose_settings
from instaaug.cli.terminal import STOPPED, folders, print_words
from instaaug.compare.contenders import read_contenders
from instaaug.compare.plan import sets_epochs
from instaaug.compare.results import environment_note, write_page
from instaaug.compare.runner import run_comparison
from instaaug.compare.state import RunProgress
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.report.comparison import MethodComparison, describe_outcome
from instaaug.report.records import Score
from instaaug.report.tables import (
    TableColumn,
    TableRow,
    labeled_remarks,
    table_columns,
    table_notes,
    table_rows,
)
from instaaug.tasks import Interrupted
from instaaug.yaml_files import read_yaml

__all__ = ["ProgressDisplay", "leaderboard_table", "progress_table", "run_compare"]

MAX_REMARK_LENGTH = 200
ONLY_IN_FILES = ("seeds", "one_view")  # columns that a terminal has no room for
MIN_NAME_WIDTH = 12


def run_compare(
    given: dict[str, Any],
    *,
    methods: str,
    seeds: int,
    budget: str | None,
    jobs: int,
    reference: str | None,
    retry: bool,
    trials: int,
    timing: bool,
    config: Path | None,
    out: Path | None,
) -> None:
    """Compare methods with the settings of a file, over which those typed have priority."""
    if "method" in given:
        raise ArgumentError("`method` is what is compared: name several in `methods`.")
    if budget is not None and sets_epochs(given):
        raise ArgumentError("`budget` and `trainer.max_epochs` exclude each other: give one.")
    base = choose_settings(given, config).with_full_paths()
    folder = out or next(folders(base.data.source, "comparison"))
    console = Console()
    try:
        with ProgressDisplay(console) as show:
            comparison = run_comparison(
                base,
                read_contenders(methods, base),
                range(base.seed, base.seed + seeds),
                folder,
                budget=budget,
                epochs_are_set=sets_epochs(given)
                or bool(config and sets_epochs(read_yaml(config))),
                reference=reference,
                jobs=jobs,
                retry=retry,
                n_trials=trials,
                times_steps=timing,
                on_change=show,
                on_message=lambda text: print_words(console, text),
            )
        _print_results(console, folder, comparison)
    except (Interrupted, KeyboardInterrupt) as stop:
        print_words(Console(stderr=True), f"{str(stop) or 'Stopped.'} The same command goes on.")
        sys.exit(STOPPED)


def _print_results(console: Console, out: Path, comparison: MethodComparison) -> None:
    console.print(leaderboard_table(comparison))
    if note := environment_note(out):
        print_words(console, note)
    if outcome := describe_outcome(comparison):
        print_words(console, outcome)
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


class ProgressDisplay:
    """The progress of runs: a table that is updated on a terminal, else a line per ended run.

    Arguments:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        self._printed: set[tuple[str, int]] | None = None

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, runs: Sequence[RunProgress]) -> None:
        """Show what has changed."""
        if not self.console.is_terminal:
            self._print_ended(runs)
            return
        if self._live is None:
            self._live = Live(console=self.console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(progress_table(runs), refresh=True)

    def _print_ended(self, runs: Sequence[RunProgress]) -> None:
        ended = {(run.label, run.seed): run for run in runs if run.has_ended}
        if self._printed is None:
            self._printed = set(ended)
            if ended:
                words = f"{len(ended)} of {len(runs)} runs have ended before."
                if failed := sum(run.score is None for run in ended.values()):
                    words += f" {failed} of them failed: --retry begins what failed again."
                print_words(self.console, words)
            return
        for key, run in ended.items():
            if key not in self._printed:
                self._printed.add(key)
                outcome = f"failed: {run.sentence}"
                if run.score is not None:
                    outcome = _format_score(run.score)
                place = f"{len(self._printed)}/{len(runs)}"
                print_words(self.console, f"{place} {run.label}, seed {run.seed}: {outcome}")


def progress_table(runs: Sequence[RunProgress]) -> Table:
    """Every contender with the state of its runs, the best so far first."""
    n_ended = sum(run.has_ended for run in runs)
    table = Table(box=None, title=f"{n_ended} of {len(runs)} runs", title_justify="left")
    table.add_column("method", overflow="fold")
    table.add_column("so far", justify="right", no_wrap=True)
    table.add_column("runs")
    labels = list(dict.fromkeys(run.label for run in runs))
    grouped = {label: [run for run in runs if run.label == label] for label in labels}
    for label in sorted(labels, key=lambda label: _sort_key(grouped[label])):
        scores = [run.score for run in grouped[label] if run.score is not None]
        table.add_row(Text(label), _format_mean(scores), _describe_runs(grouped[label]))
    return table


def _sort_key(runs: Sequence[RunProgress]) -> float:
    scores = [run.score for run in runs if run.score is not None]
    if not scores:
        return float("inf")
    mean = fmean(score.value for score in scores)
    return -mean if scores[0].measure == "top1" else mean


def _format_mean(scores: Sequence[Score]) -> str:
    if not scores:
        return ""
    mean = fmean(score.value for score in scores)
    return f"{mean:.1%}" if scores[0].measure == "top1" else f"{mean:.4g}"


def _format_score(score: Score) -> str:
    is_share = score.measure == "top1"
    return f"{score.value:.2%}" if is_share else f"{score.measure} {score.value:.4g}"


def _describe_runs(runs: Sequence[RunProgress]) -> Text:
    parts = []
    if n_done := sum(run.status == "done" for run in runs):
        parts.append(Text(f"{n_done} done", style="green"))
    for run in runs:
        if run.status == "running":
            n_epochs = run.n_epochs or run.epoch + 1
            epoch = min(run.epoch + 1, n_epochs)
            parts.append(Text(f"seed {run.seed}: epoch {epoch}/{n_epochs}", style="cyan"))
    parts += [
        Text(f"seed {run.seed} failed: {run.sentence}", style="red")
        for run in runs
        if run.status == "failed"
    ]
    if n_waiting := sum(run.status in ("waiting", "stopped") for run in runs):
        parts.append(Text(f"{n_waiting} to do", style="dim"))
    return Text(", ").join(parts)


def leaderboard_table(comparison: MethodComparison, *, with_notes: bool = True) -> Table:
    """The best method in bold, ours in color; remarks and notes are below.

    It fits eighty columns: names wrap if they must, and in even narrower terminals so do numbers.
    Missing seeds are among the remarks; scores from one view are only in the files.

    Arguments:
        comparison: What to show.
        with_notes: Whether to explain the columns.
    """
    columns = [x for x in table_columns(comparison) if x.key not in ONLY_IN_FILES]
    rows = table_rows(comparison)
    numbers = [_column_texts(column, rows) for column in columns if column.is_number]
    table = _WrapNamesFirst(
        [max(map(cell_len, cells)) for cells in numbers],
        max(cell_len(word) for row in rows for word in row.label.split()),
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        caption=_caption(comparison, with_notes=with_notes),
        caption_justify="left",
        caption_style="",
    )
    for column in columns:
        table.add_column(
            Text(column.heading),
            justify="right" if column.is_number else "left",
            overflow="ellipsis" if column.is_number else "fold",  # a cut number must look cut
        )
    for row in rows:
        table.add_row(*(_cell_text(row, column) for column in columns))
    return table


class _WrapNamesFirst(Table):
    """A table that, where it is too wide, first narrows its padding and then wraps names.

    Arguments:
        widths: Of the columns of numbers.
        longest_word: Of the names, in characters.
        settings: Arguments of any rich table.
    """

    def __init__(self, widths: list[int], longest_word: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.widths, self.longest_word = widths, longest_word

    @override
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        left = options.max_width - sum(self.widths) - len(self.widths)  # one space between
        is_tight = left - len(self.widths) < self.longest_word
        self.padding = (0, 0 if is_tight else 1, 0, 0)
        for column in self.columns:
            if column.justify == "left":
                room = left if is_tight else left - len(self.widths)
                column.max_width = max(MIN_NAME_WIDTH, room)
        yield from super().__rich_console__(console, options)


def _column_texts(column: TableColumn, rows: list[TableRow]) -> list[str]:
    return [column.heading, *(str(getattr(row, column.key)) for row in rows)]


def _cell_text(row: TableRow, column: TableColumn) -> Text:
    text = str(getattr(row, column.key))
    bold = "bold" if row.is_best and column.key in ("label", "score") else ""
    color = "cyan" if row.is_ours and column.key == "label" else ""
    return Text(text, style=f"{bold} {color}".strip())


def _caption(comparison: MethodComparison, *, with_notes: bool) -> Text:
    remarks = labeled_remarks(comparison, most=MAX_REMARK_LENGTH, with_progress=True)
    notes = table_notes(comparison, with_one_view=False) if with_notes else []
    parts = [Text("\n".join(remarks), style="yellow"), Text("\n".join(notes), style="dim")]
    return Text("\n").join(Text("\n").append_text(part) for part in parts if part)
