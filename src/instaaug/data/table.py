"""A CSV file that names image files and their targets."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from instaaug.data.cache import OnBadImage, OnProgress, check_policy
from instaaug.data.labeled import LabeledImages
from instaaug.data.labels import TaskKind, check_task, listed
from instaaug.data.parts import PARTS, FileEntry, read_files
from instaaug.errors import ArgumentError, DataError

__all__ = ["read_table"]

PATH_COLUMNS = ("path", "file", "filename", "image")
TARGET_COLUMNS = ("label", "class", "target")


class Row(NamedTuple):
    """A row of the table and its number, the header being row 1 as in a spreadsheet."""

    number: int
    cells: list[str]


class Columns(NamedTuple):
    """Where in a row to look."""

    path: int
    targets: tuple[int, ...]
    split: int | None


def read_table(
    path: str | Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    cache_dir: str | Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
    path_column: str | None = None,
    target_column: str | None = None,
    task: TaskKind = "classification",
) -> dict[str, LabeledImages]:
    """The images that a CSV file lists, with their targets.

    The first row names the columns. If there is a column ``split``, its values ``train``,
    ``validation`` (or ``val``) and ``test`` keep the parts apart. Semicolons and tabs separate
    as well as commas do. Errors count rows as a spreadsheet does: the header is row 1.

    Arguments:
        path: The CSV file, in UTF-8. The paths in it start at its folder.
        size: Height and width in pixels; None chooses by up to 100 images, at most 224.
        channels: 1 or 3; None takes 1 if up to 100 images are all grayscale, else 3.
        cache_dir: Where decoded images are kept; see `cached_pixels`.
        on_bad_image: Whether an image that is missing or cannot be read is an ``"error"``, or
            left out and listed (``"skip"``).
        on_progress: Called with the number of images done and of all, while decoding.
        path_column: The column of file names; None takes path, file, filename or image.
        target_column: The column of targets; None takes label, class or target. For regression
            on several numbers, several columns, separated by commas.
        task: Targets are names of classes (``"classification"``) or numbers (``"regression"``).

    Returns:
        ``{"all": …}``, or ``{"train": …, "test": …}``, perhaps with ``"validation"``.

    Raises:
        ArgumentError: If there are no such columns.
        DataError: If the file or a row of it cannot be used; the message names the row.
    """
    check_policy(on_bad_image)
    check_task(task)
    file = Path(path)
    header, rows = _read_rows(file)
    columns = Columns(
        _find(header, path_column, PATH_COLUMNS, argument="path_column"),
        _find_targets(header, target_column, task),
        _find_split(header),
    )
    entries: list[FileEntry] = []
    missing: list[str] = []
    for row in rows:
        entry = _entry(row, columns, file, task)
        if entry.path.is_file():
            entries.append(entry)
        else:
            missing.append(str(entry.path))
    if missing and (on_bad_image == "error" or not entries):
        raise DataError(
            f"{str(file)!r} must name image files that exist: {len(missing)} of {len(rows)} are "
            f"missing: {listed(missing)}. Paths start at the folder of the table; correct them, "
            'or leave these rows out with on_bad_image="skip".'
        )
    return read_files(
        entries,
        where=repr(str(file)),
        task=task,
        size=size,
        channels=channels,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
        skipped=[f"{name!r} was left out: there is no such file." for name in missing],
    )


def _read_rows(file: Path) -> tuple[list[str], list[Row]]:
    """The names of the columns, and all rows that are not blank."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(
            f"`path` must be a CSV file: {str(file)!r} cannot be read "
            f"({error.strerror or error}). Check the spelling."
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{str(file)!r} must be text in UTF-8: byte {error.start} is not. "
            "Save the table again as CSV in UTF-8."
        ) from error
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise DataError(f"{str(file)!r} must be a CSV file: {error}. Save it again.") from error
    rows = [Row(i, [c.strip() for c in cells]) for i, cells in enumerate(lines, 1) if any(cells)]
    if len(rows) < 2:
        raise DataError(
            f"{str(file)!r} must have a header and at least one row: got {len(rows)} lines. "
            "The header names the columns, for example: path,label"
        )
    return rows[0].cells, rows[1:]


def _find(header: list[str], name: str | None, guesses: Sequence[str], *, argument: str) -> int:
    """The position of a column, by its name or by the usual names; case does not matter."""
    lower = [cell.lower() for cell in header]
    for guess in guesses if name is None else (name.strip().lower(),):
        if guess in lower:
            return lower.index(guess)
    arrived = f"got {name!r}, but" if name is not None else f"there is no {' or '.join(guesses)};"
    raise ArgumentError(
        f"`{argument}` must be a column of the table: {arrived} the columns are "
        f"{', '.join(header)}. Choose one of them."
    )


def _find_targets(header: list[str], names: str | None, task: TaskKind) -> tuple[int, ...]:
    if names is None or task == "classification":
        return (_find(header, names, TARGET_COLUMNS, argument="target_column"),)
    return tuple(
        _find(header, name, TARGET_COLUMNS, argument="target_column") for name in names.split(",")
    )


def _find_split(header: list[str]) -> int | None:
    lower = [cell.lower() for cell in header]
    return lower.index("split") if "split" in lower else None


def _entry(row: Row, columns: Columns, file: Path, task: TaskKind) -> FileEntry:
    where = f"row {row.number} of {str(file)!r}"
    needed = max(columns.path, *columns.targets, columns.split or 0) + 1
    if len(row.cells) < needed:
        raise DataError(
            f"Every row must have at least {needed} cells: {where} has {len(row.cells)}. "
            "Fill it in, or remove it."
        )
    name = row.cells[columns.path]
    if not name:
        raise DataError(f"Every row must name a file: {where} names none. Fill it in.")
    target: str | tuple[float, ...] = row.cells[columns.targets[0]]
    if task == "regression":
        target = tuple(_number(row.cells[column], where) for column in columns.targets)
    elif not target:
        raise DataError(f"Every row must have a label: {where} has none. Fill it in.")
    part = "train" if columns.split is None else _part(row.cells[columns.split], where)
    return FileEntry(file.parent / name, part, target)


def _number(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"Regression targets must be finite numbers: {where} has {cell!r}. Correct it, or "
            'choose task="classification".'
        )
    return value


def _part(cell: str, where: str) -> str:
    if cell.lower() not in PARTS:
        raise DataError(
            f"The column `split` must say {', '.join(PARTS)}: {where} says {cell!r}. Correct it."
        )
    return PARTS[cell.lower()]
