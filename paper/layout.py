"""Tables as Markdown, LaTeX, CSV and JSON: the paper's number beside ours."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from instaaug.report.comparison import join_words
from paper.exhibits import Exhibit, Findings, Row, Score

__all__ = [
    "describe_runs",
    "from_json",
    "row_scores",
    "table_columns",
    "to_csv",
    "to_json",
    "to_latex",
    "to_markdown",
    "write_score",
]

NOTHING = "–"
TEX = {
    "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#",
    "λ": r"$\lambda$", "φ": r"$\phi$", "×": r"$\times$", "–": "--",
}  # fmt: skip


def write_score(score: Score | None, *, plus_minus: str = " ± ") -> str:
    """A score as the paper writes it.

    Example:
        >>> write_score(Score(66.0249, 0.18, 10)), write_score(Score(3.5)), write_score(None)
        ('66.02 ± 0.18', '3.50', '–')
    """
    if score is None:
        return NOTHING
    return f"{score.mean:.2f}" + ("" if score.error is None else f"{plus_minus}{score.error:.2f}")


def table_columns(found: Findings) -> list[tuple[str, str, int]]:
    """Name, source and number of every column of scores; the paper's only where it has any.

    Example:
        >>> table_columns(Findings(("risk",), (Row("a", (Score(0.2),), (None,)),), ""))
        [('risk', 'ours', 0)]
    """
    return [
        (name, source, number)
        for number, name in enumerate(found.columns)
        for source in ("paper", "ours")
        if source == "ours" or any(row.paper[number] is not None for row in found.rows)
    ]


def row_scores(row: Row, columns: Sequence[tuple[str, str, int]]) -> list[Score | None]:
    """The scores of a row, one per column."""
    return [
        (row.paper if source == "paper" else row.ours)[number] for _, source, number in columns
    ]


def describe_runs(found: Findings) -> tuple[str, ...]:
    """A sentence if lines were measured with different numbers of runs.

    Example:
        >>> rows = (Row("a", (Score(1.0, 0.1, 3),), (None,)), Row("b", (Score(2.0),), (None,)))
        >>> describe_runs(Findings(("x",), rows, ""))
        ()
        >>> rows = (rows[0], Row("b", (Score(2.0, None, 1),), (None,)))
        >>> describe_runs(Findings(("x",), rows, ""))
        ('Seeds: 3, but 1 of b.',)
    """
    names: dict[int, list[str]] = {}
    for row in found.rows:
        counts = [score.runs for score in row.ours if score is not None and score.runs]
        if counts:
            names.setdefault(max(counts), []).append(row.name)
    if len(names) < 2:
        return ()
    usual = max(names, key=lambda n: (len(names[n]), n))
    others = sorted(names.keys() - {usual}, reverse=True)
    words = (f"{n} of {join_words(names[n])}" for n in others)
    return (f"Seeds: {usual}, but {'; '.join(words)}.",)


def to_markdown(found: Findings) -> str:
    """The table: for every column the paper's number and ours."""
    columns = table_columns(found)
    heads = [f"{name}, {source}" for name, source, _ in columns]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for row in found.rows:
        cells = [write_score(score) for score in row_scores(row, columns)]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def to_latex(found: Findings) -> str:
    """The table for booktabs, with a rule between groups."""
    columns = table_columns(found)
    heads = [f"{_tex(name)} ({source})" for name, source, _ in columns]
    lines = [
        r"\begin{tabular}{l" + "c" * len(heads) + "}", r"\toprule",
        " & ".join(["", *heads]) + r" \\", r"\midrule",
    ]  # fmt: skip
    group = found.rows[0].group if found.rows else 0
    for row in found.rows:
        if row.group != group:
            lines.append(r"\midrule")
            group = row.group
        cells = [_tex_score(score) for score in row_scores(row, columns)]
        lines.append(" & ".join([_tex(row.name), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def to_csv(found: Findings) -> str:
    """One line per number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", "column", "source", "mean", "error", "runs"))
    for row in found.rows:
        for column, ours, paper in zip(found.columns, row.ours, row.paper, strict=True):
            for source, score in (("paper", paper), ("ours", ours)):
                if score is not None:
                    writer.writerow(
                        (row.name, column, source, score.mean, score.error, score.runs)
                    )
    return text.getvalue()


def to_json(exhibit: Exhibit, found: Findings, *, command: str, commit: str) -> str:
    """All that is known, to be read by :func:`from_json`."""
    record = asdict(found) | {
        "name": exhibit.name,
        "title": exhibit.title,
        "command": command,
        "commit": commit,
        "pictures": [path.name for path in found.pictures],
    }
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str, folder: Path) -> tuple[Findings, dict[str, Any]]:
    """Findings, and what else the file says: name, title, command, commit.

    Arguments:
        text: As :func:`to_json` writes it.
        folder: Where the pictures are.
    """
    record = json.loads(text)
    found = Findings(
        columns=tuple(record.pop("columns")),
        rows=tuple(_read_row(row) for row in record.pop("rows")),
        setting=record.pop("setting"),
        unit=record.pop("unit"),
        seconds=record.pop("seconds"),
        notes=tuple(record.pop("notes")),
        pictures=tuple(folder / name for name in record.pop("pictures")),
    )
    return found, record


def _read_row(row: Mapping[str, Any]) -> Row:
    def read(scores: list[dict[str, Any] | None]) -> tuple[Score | None, ...]:
        return tuple(None if score is None else Score(**score) for score in scores)

    return Row(row["name"], read(row["ours"]), read(row["paper"]), row["group"])


def _tex(words: str) -> str:
    for letter, escaped in TEX.items():
        words = words.replace(letter, escaped)
    return words


def _tex_score(score: Score | None) -> str:
    if score is None:
        return "--"
    error = "" if score.error is None else rf"{{\tiny $\pm {score.error:.2f}$}}"
    return f"${score.mean:.2f}${error}"
