"""Image files with targets: one folder per class, one folder without classes, or a table."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from torch import Tensor

from instaaug.data.cache import OnBadImage, OnProgress, cached_pixels, check_policy
from instaaug.data.decode import IMAGE_ENDINGS, PictureHeader, check_shape, read_header
from instaaug.data.labeled import LabeledImages, evenly_spaced_indices, hash_content
from instaaug.data.labels import (
    TaskKind,
    check_task,
    natural_order,
    number_classes,
    quote_first,
    regression_targets,
)
from instaaug.errors import ArgumentError, DataError

__all__ = [
    "PARTS",
    "FileEntry",
    "choose_shape",
    "fitting_size",
    "image_files",
    "is_unlabeled",
    "read_files",
    "read_folder",
    "read_table",
    "read_unlabeled",
    "result_names",
]


PARTS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}

SIZES = (32, 64, 96, 128, 160, 192, 224)
N_HEADERS = 100

LAYOUT = (
    "Expected is one folder per class, <folder>/<class>/<image>, or the same within parts, "
    "<folder>/train/<class>/<image> and <folder>/test/<class>/<image>."
)

NO_TARGET = (0.0,)

PATH_COLUMNS = ("path", "file", "filename", "image", "image_id", "id")
TARGET_COLUMNS = ("label", "class", "target")


class FileEntry(NamedTuple):
    """One image file, the part it belongs to, and its target: a class name or numbers."""

    path: Path
    part: str
    target: str | tuple[float, ...]


def result_names(found: Iterable[str], *, where: str) -> dict[str, str]:
    """What each part that was found is called in the result.

    Training images alone are ``"all"``, to be split by the caller; validation images without
    test images are the ``"test"`` set.

    Example:
        >>> result_names(["train", "validation"], where="'pets'")
        {'train': 'train', 'validation': 'test'}
    """
    parts = set(found)
    if "train" not in parts:
        raise DataError(
            f"{where} must have training images: got only {', '.join(sorted(parts)) or 'none'}. "
            "Add a part called 'train'."
        )
    if parts == {"train"}:
        return {"train": "all"}
    names = {part: part for part in PARTS.values() if part in parts}
    return names if "test" in parts else {**names, "validation": "test"}


def read_files(
    entries: Sequence[FileEntry],
    *,
    where: str,
    task: TaskKind,
    size: int | None,
    channels: int | None,
    cache_dir: str | Path | None,
    on_bad_image: OnBadImage,
    on_progress: OnProgress | None,
    skipped: Sequence[str] = (),
) -> dict[str, LabeledImages]:
    """Decode files and sort them into parts, which share one array of pixels.

    Arguments:
        entries: The files; their order is kept within each part.
        where: The folder or table, for errors.
        task: Whether targets are class names or numbers.
        size: Height and width in pixels; chosen by the files' headers if None.
        channels: 1 or 3; chosen by the files' headers if None.
        cache_dir: See `cached_pixels`.
        on_bad_image: See `cached_pixels`.
        on_progress: See `cached_pixels`.
        skipped: What was left out before, with reasons.
    """
    names = result_names({entry.part for entry in entries}, where=where)
    paths = [entry.path for entry in entries]
    size, channels = choose_shape(
        lambda i: read_header(paths[i]), len(paths), size=size, channels=channels
    )
    pixels, kept, bad, content = cached_pixels(
        paths,
        size=size,
        channels=channels,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
    )
    alive = [entries[i] for i in kept]
    if gone := set(names) - {entry.part for entry in alive}:
        raise DataError(
            f"Every part of {where} must have images: none of {', '.join(sorted(gone))} can be "
            f"read. The first: {bad[0]}"
        )
    targets, classes = _targets(alive, task)
    lost = sorted({str(e.target) for e in entries} - set(classes)) if classes else []
    whole = LabeledImages(
        pixels,
        targets,
        classes=classes,
        names=tuple(str(entry.path) for entry in alive),
        fingerprint=hash_content(content.encode(), targets.numpy(), *classes),
        skipped=(
            *skipped,
            *bad,
            *(
                f"The class {name!r} was left out: none of its images can be read."
                for name in lost
            ),
        ),
    )
    parts = np.array([entry.part for entry in alive])
    data = {name: whole.subset(np.flatnonzero(parts == part)) for part, name in names.items()}
    # What was left out is listed once, with the training images.
    return {
        name: part if name in ("all", "train") else replace(part, skipped=())
        for name, part in data.items()
    }


def _targets(entries: Sequence[FileEntry], task: TaskKind) -> tuple[Tensor, tuple[str, ...]]:
    if task == "classification":
        return number_classes(
            [str(entry.target) for entry in entries],
            is_train=[entry.part == "train" for entry in entries],
        )
    values = np.array([entry.target for entry in entries], dtype=np.float64)
    return regression_targets(values, where=lambda i: str(entries[i].path)), ()


def choose_shape(
    read: Callable[[int], PictureHeader], n: int, *, size: int | None, channels: int | None
) -> tuple[int, int]:
    """The size and number of channels asked for; where None was asked for, fitting ones.

    At most 100 headers are read, evenly spaced. The size is `fitting_size` of the short sides;
    one channel is enough if all of the images are grayscale.

    Arguments:
        read: Reads the header of an image, by its index.
        n: How many images there are.
        size: Height and width in pixels, or None.
        channels: 1, 3 or None.

    Raises:
        DataError: If none of the headers can be read.
    """
    check_shape(size=size, channels=channels)
    if size is not None and channels is not None:
        return size, channels
    headers: list[PictureHeader] = []
    first_error: DataError | None = None
    for index in evenly_spaced_indices(n, N_HEADERS):
        try:
            headers.append(read(index))
        except DataError as error:  # reported with all the others when it is decoded
            first_error = first_error or error
    if first_error is not None and not headers:
        raise first_error
    gray = all(header.is_gray for header in headers)
    return (
        size or fitting_size(min(header.height, header.width) for header in headers),
        channels or (1 if gray else 3),
    )


def fitting_size(short_sides: Iterable[int]) -> int:
    """The one of 32, 64, 96, 128, 160, 192 and 224 that is nearest to the median short side.

    Example:
        >>> fitting_size([28, 28, 30])
        32
        >>> fitting_size([480, 600, 1200])
        224
    """
    middle = median(short_sides)
    return min(SIZES, key=lambda size: abs(size - middle))


def read_folder(
    path: str | Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    cache_dir: str | Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
) -> dict[str, LabeledImages]:
    """The images below a folder, labeled by the name of their class's folder.

    Classes and images come in natural order (2 before 10). A class folder is searched through
    all its sub-folders; hidden files and files with other endings than an image's are passed
    over. If the folder has parts, ``train`` with ``test`` or ``val`` (or ``valid``, or
    ``validation``), they are kept apart: validation images are the test set if there is no other.

    Arguments:
        path: The folder.
        size: Height and width in pixels; None chooses by up to 100 images, at most 224.
        channels: 1 or 3; None takes 1 if up to 100 images are all grayscale, else 3.
        cache_dir: Where decoded images are kept; see `cached_pixels`.
        on_bad_image: Whether an image that cannot be read and a class without images are an
            ``"error"``, or left out and listed (``"skip"``).
        on_progress: Called with the number of images done and of all, while decoding.

    Returns:
        ``{"all": …}``, or ``{"train": …, "test": …}``, perhaps with ``"validation"``.

    Raises:
        DataError: If the folder is missing or not laid out like this, if there are fewer than
            two classes, or a class is only in a part other than ``train``.
    """
    check_policy(on_bad_image)
    folder = Path(path)
    _check_folder(folder)
    entries: list[FileEntry] = []
    skipped: list[str] = []
    for part, place in _parts(folder).items():
        for class_folder in _class_folders(place):
            files = image_files(class_folder)
            entries += [FileEntry(file, part, class_folder.name) for file in files]
            if not files:
                skipped.append(
                    f"The class folder {str(class_folder)!r} was left out: it has no image."
                )
    if skipped and on_bad_image == "error":
        raise DataError(_empty_class_message(skipped))
    if not entries:
        raise DataError(f"{str(folder)!r} must hold images: got none. {LAYOUT}")
    return read_files(
        entries,
        where=repr(str(folder)),
        task="classification",
        size=size,
        channels=channels,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
        skipped=skipped,
    )


def image_files(folder: Path) -> list[Path]:
    """All image files below a folder, in natural order; links are followed, but not in circles."""
    files = [p for p in _walk(folder, set()) if p.suffix.lower() in IMAGE_ENDINGS]
    return sorted(files, key=lambda p: [natural_order(s) for s in p.relative_to(folder).parts])


def _walk(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    status = folder.stat()
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    for path in _visible(folder):
        if path.is_dir():
            yield from _walk(path, seen)
        elif path.is_file() or path.is_symlink():  # a dangling link is a bad image, not none
            yield path


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if not _is_hidden(p.name))
    except OSError as error:
        raise DataError(
            f"{str(folder)!r} must be a folder that can be listed: {error.strerror or error}. "
            "Check its permissions."
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"  # what macOS adds to archives


def _check_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if folder.exists():
        raise DataError(
            f"`path` must be a folder of images: {str(folder)!r} is a file. "
            "Tables end in .csv and arrays in .npz or .npy; other files cannot be read."
        )
    raise DataError(
        f"`path` must be a folder of images: there is no {str(folder)!r}. Check the spelling; "
        f"relative paths start at the working directory."
    )


def _folders(folder: Path) -> list[Path]:
    found = [p for p in _visible(folder) if p.is_dir()]
    return sorted(found, key=lambda p: natural_order(p.name))


def _parts(folder: Path) -> dict[str, Path]:
    """The folder of each part; the folder itself is all for training if it has none."""
    folders = _folders(folder)
    named = [(PARTS[p.name.lower()], p) for p in folders if p.name.lower() in PARTS]
    parts = dict(named)
    only_parts = len(named) == len(folders)
    if not parts or (not only_parts and ("train" not in parts or len(parts) == 1)):
        return {"train": folder}  # "train" may well be a class, next to "car"
    if len(parts) < len(named):
        names = ", ".join(p.name for _, p in named)
        raise DataError(
            f"{str(folder)!r} must have one folder per part: got {names}, of which two are the "
            "same part. Merge or rename them."
        )
    return parts


def _class_folders(place: Path) -> list[Path]:
    folders = _folders(place)
    if folders:
        return folders
    n_images = sum(p.suffix.lower() in IMAGE_ENDINGS for p in _visible(place))
    what = f"{n_images} images directly in it" if n_images else "no folder at all"
    raise DataError(f"{str(place)!r} must hold one folder per class: got {what}. {LAYOUT}")


def _empty_class_message(skipped: list[str]) -> str:
    more = f" {len(skipped)} class folders are empty." if len(skipped) > 1 else ""
    first = skipped[0].replace("was left out: it has no image", "must hold images: got none")
    return f'{first}{more} Remove it, or leave it out with on_bad_image="skip".'


def is_unlabeled(path: Path) -> bool:
    """Whether a folder has images directly in it, and no folders that could be classes."""
    visible = [p for p in path.iterdir() if not p.name.startswith(".")]
    return bool(visible) and not any(p.is_dir() for p in visible)


def read_unlabeled(
    path: Path,
    *,
    size: int | None = None,
    channels: int | None = None,
    cache_dir: str | Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
) -> dict[str, LabeledImages]:
    """The images in a folder, without classes; all targets are 0.

    Arguments:
        path: The folder.
        size: Height and width in pixels; chosen by the images if None.
        channels: 1 or 3; chosen by the images if None.
        cache_dir: Where decoded images are kept.
        on_bad_image: Whether an unreadable image is an ``"error"``, or left out and listed.
        on_progress: Called with the number of images done and of all, while decoding.
    """
    return read_files(
        [FileEntry(file, "train", NO_TARGET) for file in image_files(path)],
        where=repr(str(path)),
        task="regression",
        size=size,
        channels=channels,
        cache_dir=cache_dir,
        on_bad_image=on_bad_image,
        on_progress=on_progress,
    )


class TableColumns(NamedTuple):
    """Positions of the columns in a row."""

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

    A file may be named without its ending if no other image has that name. The first row names the
    columns. If there is a column ``split``, its values ``train``,
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
        path_column: The column of file names; None takes path, file, filename, image, image_id or
            id.
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
    columns = TableColumns(
        _find_column(header, path_column, PATH_COLUMNS, argument="path_column"),
        _find_targets(header, target_column, task),
        _find_split(header),
    )
    entries: list[FileEntry] = []
    missing: list[str] = []
    endings = _Endings()
    for number, cells in rows:
        where = f"row {number} of {str(file)!r}"
        entry = _entry(cells, columns, where, file.parent, task)
        found = entry.path if _is_file(entry.path) else endings.complete(entry.path, where)
        if found is None:
            missing.append(str(entry.path))
        else:
            entries.append(entry._replace(path=found))
    if missing and (on_bad_image == "error" or not entries):
        raise DataError(
            f"{str(file)!r} must name image files that exist: {len(missing)} of {len(rows)} are "
            f"missing: {quote_first(missing)}. Paths start at the folder of the table; correct "
            'them, or leave these rows out with on_bad_image="skip".'
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


class _Endings:
    """Image files by their names without endings; each folder is listed once."""

    def __init__(self) -> None:
        self.folders: dict[Path, dict[str, list[Path]]] = {}

    def complete(self, path: Path, where: str) -> Path | None:
        """The one image file that has this name and an ending, if there is one."""
        folder = path.parent
        if folder not in self.folders:
            self.folders[folder] = {}
            for file in _list_images(folder):
                self.folders[folder].setdefault(file.stem, []).append(file)
        found = self.folders[folder].get(path.name, [])
        if len(found) > 1:
            raise DataError(
                f"A name without an ending must be that of one image: {where} has {path.name!r}, "
                f"and there are {', '.join(file.name for file in sorted(found))}. Add the ending."
            )
        return found[0] if found else None


def _list_images(folder: Path) -> list[Path]:
    try:
        return [file for file in folder.iterdir() if file.suffix.lower() in IMAGE_ENDINGS]
    except OSError:  # there is no such folder
        return []


def _is_file(path: Path) -> bool:
    """Whether there is such a file; no file has a name that the system refuses."""
    try:
        return path.is_file()
    except OSError:
        return False


def _read_rows(file: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns, and the number and cells of all rows that are not blank."""
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
    rows = [(i, [c.strip() for c in cells]) for i, cells in enumerate(lines, 1) if any(cells)]
    if len(rows) < 2:
        raise DataError(
            f"{str(file)!r} must have a header and at least one row: got {len(rows)} lines. "
            "The header names the columns, for example: path,label"
        )
    return rows[0][1], rows[1:]


def _find_column(
    header: list[str], name: str | None, guesses: Sequence[str], *, argument: str
) -> int:
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
        return (_find_column(header, names, TARGET_COLUMNS, argument="target_column"),)
    return tuple(
        _find_column(header, name, TARGET_COLUMNS, argument="target_column")
        for name in names.split(",")
    )


def _find_split(header: list[str]) -> int | None:
    lower = [cell.lower() for cell in header]
    return lower.index("split") if "split" in lower else None


def _entry(
    cells: list[str], columns: TableColumns, where: str, folder: Path, task: TaskKind
) -> FileEntry:
    needed = max(columns.path, *columns.targets, columns.split or 0) + 1
    if len(cells) < needed:
        raise DataError(
            f"Every row must have at least {needed} cells: {where} has {len(cells)}. "
            "Fill it in, or remove it."
        )
    name = cells[columns.path]
    if not name:
        raise DataError(f"Every row must name a file: {where} names none. Fill it in.")
    target: str | tuple[float, ...] = cells[columns.targets[0]]
    if task == "regression":
        target = tuple(_number(cells[column], where) for column in columns.targets)
    elif not target:
        raise DataError(f"Every row must have a label: {where} has none. Fill it in.")
    part = "train" if columns.split is None else _part_of_cell(cells[columns.split], where)
    return FileEntry(folder / name, part, target)


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


def _part_of_cell(cell: str, where: str) -> str:
    if cell.lower() not in PARTS:
        raise DataError(
            f"The column `split` must say {', '.join(PARTS)}: {where} says {cell!r}. Correct it."
        )
    return PARTS[cell.lower()]
