"""A comparison of methods as a table for the terminal, narrow ones too."""

from collections.abc import Iterator
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from instaaug.report.comparison import MethodComparison
from instaaug.report.tables import (
    TableColumn,
    TableRow,
    labeled_remarks,
    table_columns,
    table_notes,
    table_rows,
)

__all__ = ["leaderboard_table"]

LONGEST_REMARK = 200
ONLY_IN_FILES = ("seeds", "one_view")  # columns that a terminal has no room for
NARROWEST_NAME = 12


def leaderboard_table(comparison: MethodComparison, *, with_notes: bool = True) -> Table:
    """The best method in bold, ours in color; remarks and notes are below.

    Eighty columns are enough: names take more lines if they must, and so do numbers in terminals
    that are narrower still. Seeds that are missing are among the remarks; the scores from one view
    are in the files alone.

    Arguments:
        comparison: What to show.
        with_notes: Whether to explain the columns; a table that is shown again and again need not.
    """
    columns = [x for x in table_columns(comparison) if x.key not in ONLY_IN_FILES]
    rows = table_rows(comparison)
    numbers = [_column(column, rows) for column in columns if column.is_number]
    table = _NamesGiveWay(
        [max(map(cell_len, cells)) for cells in numbers],
        max(cell_len(word) for row in rows for word in row.label.split()),
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        caption=_below(comparison, with_notes=with_notes),
        caption_justify="left",
        caption_style="",
    )
    for column in columns:
        table.add_column(
            Text(column.heading),
            justify="right" if column.is_number else "left",
            overflow="ellipsis" if column.is_number else "fold",  # no digit goes unnoticed
        )
    for row in rows:
        table.add_row(*(_cell(row, column) for column in columns))
    return table


class _NamesGiveWay(Table):
    """A table that, for want of room, first closes ranks and then breaks names, not numbers.

    Arguments:
        widths: Of the columns of numbers.
        longest_word: Of the names, in letters.
        settings: Those of any table.
    """

    def __init__(self, widths: list[int], longest_word: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.widths, self.longest_word = widths, longest_word

    @override
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        left = options.max_width - sum(self.widths) - len(self.widths)  # the rule is a space
        is_tight = left - len(self.widths) < self.longest_word
        self.padding = (0, 0 if is_tight else 1, 0, 0)
        for column in self.columns:
            if column.justify == "left":
                room = left if is_tight else left - len(self.widths)
                column.max_width = max(NARROWEST_NAME, room)
        yield from super().__rich_console__(console, options)


def _column(column: TableColumn, rows: list[TableRow]) -> list[str]:
    return [column.heading, *(str(getattr(row, column.key)) for row in rows)]


def _cell(row: TableRow, column: TableColumn) -> Text:
    words = str(getattr(row, column.key))
    bold = "bold" if row.is_best and column.key in ("label", "score") else ""
    color = "cyan" if row.is_ours and column.key == "label" else ""
    return Text(words, style=f"{bold} {color}".strip())


def _below(comparison: MethodComparison, *, with_notes: bool) -> Text:
    remarks = labeled_remarks(comparison, most=LONGEST_REMARK, with_progress=True)
    notes = table_notes(comparison, with_one_view=False) if with_notes else []
    parts = [Text("\n".join(remarks), style="yellow"), Text("\n".join(notes), style="dim")]
    return Text("\n").join(Text("\n").append_text(part) for part in parts if part)
