"""A comparison of methods as a table for the terminal, narrow ones too."""

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from instaaug.report.compared.cells import Column, Row, table_columns, table_rows
from instaaug.report.compared.comparison import Comparison
from instaaug.report.compared.notes import notes_on
from instaaug.report.compared.remarks import labeled_remarks

__all__ = ["leaderboard_table"]

LONGEST_REMARK = 200


def leaderboard_table(comparison: Comparison, *, with_notes: bool = True) -> Table:
    """The best method in bold, ours in color; remarks and notes are below.

    Eighty columns are enough: names take more lines if they must, and so do numbers in terminals
    that are narrower still. Seeds that are missing are among the remarks.

    Arguments:
        comparison: What to show.
        with_notes: Whether to explain the columns; a table that is shown again and again need not.
    """
    columns = [column for column in table_columns(comparison) if column.key != "seeds"]
    table = Table(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
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
    for row in table_rows(comparison):
        table.add_row(*(_cell(row, column) for column in columns))
    return table


def _cell(row: Row, column: Column) -> Text:
    words = str(getattr(row, column.key))
    bold = "bold" if row.is_best and column.key in ("label", "score") else ""
    color = "cyan" if row.is_ours and column.key == "label" else ""
    return Text(words, style=f"{bold} {color}".strip())


def _below(comparison: Comparison, *, with_notes: bool) -> Text:
    remarks = labeled_remarks(comparison, most=LONGEST_REMARK, with_progress=True)
    notes = notes_on(comparison) if with_notes else []
    parts = [Text("\n".join(remarks), style="yellow"), Text("\n".join(notes), style="dim")]
    return Text("\n").join(Text("\n").append_text(part) for part in parts if part)
