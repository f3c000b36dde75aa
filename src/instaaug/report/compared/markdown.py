"""A comparison in Markdown, pleasant to read before it is rendered, too."""

import re

from instaaug.report.compared.cells import Column, Row, table_columns, table_rows
from instaaug.report.compared.comparison import Comparison
from instaaug.report.compared.notes import notes_on
from instaaug.report.compared.remarks import labeled_remarks

__all__ = ["to_markdown"]

LONGEST_REMARK = 300
SPECIAL = re.compile(
    r"(?P<entity>[|\\<>&]|:(?=//)|(?<=\bwww)\.|@)"
    r"|(?P<escaped>[`*\[\]~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))",
    re.IGNORECASE,
)


def to_markdown(comparison: Comparison) -> str:
    """The table, the best method in bold, with remarks and notes below it.

    Names and sentences are shown as they are, whatever letters they have.

    Example:
        >>> from instaaug.report.compared.comparison import compare_scores
        >>> from instaaug.report.compared.method_scores import MethodScores
        >>> runs = [MethodScores(name, {0: 0.5}, n_expected=1) for name in ("a|b", "none")]
        >>> print(to_markdown(compare_scores(runs)).split("Accuracy")[0].strip())
        |   # | method       | accuracy (%) | difference |
        | --: | :----------- | -----------: | ---------: |
        |   1 | **a&#124;b** |     **50.0** |  reference |
        |   1 | **none**     |     **50.0** |        0.0 |
    """
    columns = table_columns(comparison)
    lines = [[_escaped(column.heading) for column in columns]]
    lines += [[_cell(row, column) for column in columns] for row in table_rows(comparison)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(columns))]
    table = [_line(line, widths, columns) for line in lines]
    table.insert(1, _line([_rule(c, w) for c, w in zip(columns, widths, strict=True)], widths))
    remarks = [f"- {_escaped(x)}" for x in labeled_remarks(comparison, most=LONGEST_REMARK)]
    notes = [_escaped(note) for note in notes_on(comparison)]
    return "\n\n".join(["\n".join(part) for part in (table, remarks) if part] + notes) + "\n"


def _cell(row: Row, column: Column) -> str:
    words = str(getattr(row, column.key))
    words = words if column.is_number else _escaped(words)
    return f"**{words}**" if row.is_best and column.key in ("label", "score") else words


def _rule(column: Column, width: int) -> str:
    return "-" * (width - 1) + ":" if column.is_number else ":" + "-" * (width - 1)


def _line(cells: list[str], widths: list[int], columns: list[Column] | None = None) -> str:
    padded = [
        cell.rjust(width) if columns and columns[i].is_number else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def _escaped(words: str) -> str:
    """Words that Markdown shows as they are: no table cells, emphasis, tags, links or formulas."""
    return SPECIAL.sub(_without_meaning, words)


def _without_meaning(found: re.Match[str]) -> str:
    letter = found.group()
    return f"&#{ord(letter)};" if found["entity"] else f"\\{letter}"
