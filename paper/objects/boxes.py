"""Where the object is in every test image of a run: Tiny-ImageNet's own boxes, or a CSV file."""

import csv
from collections.abc import Iterator, Mapping
from math import nan
from pathlib import Path
from typing import Any

from instaaug.data import LabeledImages
from instaaug.data.decode import natural_size
from instaaug.data.named import Request, find_files, recognize
from instaaug.data.tiny_imagenet import tiny_imagenet_boxes, tiny_imagenet_folder
from instaaug.errors import ArgumentError, DataError

__all__ = ["Fractions", "in_the_square", "object_boxes", "read_boxes"]

TINY, TINY_SIDE = "tiny-imagenet", 64
EDGES = ("left", "top", "right", "bottom")

Fractions = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of the width and the height."""


def object_boxes(
    images: LabeledImages, config: Mapping[str, Any], file: str | Path | None = None
) -> dict[int, Fractions]:
    """The box of the object in every image that has one, by the image's number.

    Boxes are shares of what the model is shown: the largest centered square of the picture.

    Arguments:
        images: Those of the run.
        config: Its settings; ``data.source`` and ``data.root`` count.
        file: A CSV file as `read_boxes` takes it; by default the boxes of Tiny-ImageNet.

    Raises:
        ArgumentError: If the data have no boxes of their own and there is no file.
        DataError: If no box belongs to any of the images.
    """
    folder = _folder(config)
    if file is not None:
        boxes, source = read_boxes(file, also_in=folder), str(file)
    elif _is_tiny(config):
        boxes, source = _tiny_boxes(config), "Tiny-ImageNet"
    else:
        raise ArgumentError(
            f"`boxes` must be a CSV file with the columns path,{','.join(EDGES)}, for "
            f"{config.get('data.source')!r} brings no boxes along. Only Tiny-ImageNet does."
        )
    found = {}
    for i in range(len(images)):
        name = images.name(i)
        box = boxes.get(name) or boxes.get(_whole_path(name))
        square = None if box is None else in_the_square(box, _shape(name))
        if square is not None:
            found[i] = square
    if not found:
        raise DataError(
            f"The boxes of {source!r} must belong to test images of the run: none of "
            f"{len(boxes):,} does. Paths are such as {images.name(0)!r}; paths in a CSV may also "
            "start at its own folder, or at that of the data."
        )
    return found


def read_boxes(file: str | Path, *, also_in: Path | None = None) -> dict[str, Fractions]:
    """Boxes from a CSV file with the columns path, left, top, right and bottom.

    Edges are shares of the picture's width and height, from 0 to 1, as a viewer shows it. A path
    counts as it is written, and as one that starts at the folder of the CSV file.

    Arguments:
        file: In UTF-8, with a header.
        also_in: A further folder that paths may start at.

    Returns:
        Boxes by path; every image has two or three entries.
    """
    path = Path(file)
    boxes: dict[str, Fractions] = {}
    seen: set[str] = set()
    for number, row in _rows(path):
        name = (row["path"] or "").strip()
        where = f"row {number} of {str(path)!r}"
        if not name:
            raise DataError(f"Every row must name an image: {where} names none. Fill it in.")
        if name in seen:
            raise DataError(
                f"Every image must have one box: {where} is the second of {name!r}. Keep the box "
                "of the object that the label names."
            )
        seen.add(name)
        box = _box([row[edge] for edge in EDGES], where)
        boxes[name] = box
        for folder in (path.parent, *([] if also_in is None else [also_in])):
            boxes[_whole_path(folder / name)] = box
    return boxes


def in_the_square(box: Fractions, shape: tuple[int, int]) -> Fractions | None:
    """A box of a picture as one of its largest centered square; None if it lies outside.

    Arguments:
        box: Shares of the picture.
        shape: Its height and width.

    Example:
        >>> in_the_square((0.25, 0.0, 0.5, 1.0), (100, 200))  # the left half of the square
        (0.0, 0.0, 0.5, 1.0)
        >>> in_the_square((0.0, 0.0, 0.2, 1.0), (100, 200))  # has been cut off
    """
    side = min(shape)
    down, right = ((length - side) // 2 for length in shape)  # as the picture is decoded
    ends = [
        min(max((share * length - start) / side, 0.0), 1.0)
        for share, length, start in zip(box, 2 * shape[::-1], 2 * (right, down), strict=True)
    ]
    left, top, right_end, bottom = ends
    return (left, top, right_end, bottom) if left < right_end and top < bottom else None


def _is_tiny(config: Mapping[str, Any]) -> bool:
    data = str(config.get("data.source"))
    return data == TINY or recognize(data) == TINY


def _tiny_boxes(config: Mapping[str, Any]) -> dict[str, Fractions]:
    """Its numbers are those of the first and the last pixel of the object."""
    folder = _folder(config)
    root = config.get("data.root") or (None if folder is None else str(folder))
    request = Request(TINY, root=None if root is None else Path(root))
    place = find_files(
        request, tiny_imagenet_folder, files="wnids.txt, train and val", source="See the README."
    )
    return {
        name: (
            left / TINY_SIDE,
            top / TINY_SIDE,
            (right + 1) / TINY_SIDE,
            (bottom + 1) / TINY_SIDE,
        )
        for name, (left, top, right, bottom) in tiny_imagenet_boxes(place).items()
    }


def _folder(config: Mapping[str, Any]) -> Path | None:
    """The folder of the images, if they are files."""
    data = Path(str(config.get("data.source")))
    if data.is_dir():
        return data
    return data.parent if data.is_file() else None


def _whole_path(name: str | Path) -> str:
    return str(Path(name).absolute())


def _shape(name: str) -> tuple[int, int]:
    """Height and width of a picture; what is no file comes as the model is shown it."""
    return natural_size(name) if Path(name).is_file() else (1, 1)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Rows by column, and their numbers in the file, the header being row 1."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"`boxes` must be text in UTF-8: byte {error.start} of {str(path)!r} is not. Save the "
            "table again as CSV in UTF-8."
        ) from error
    reader = csv.DictReader(text.splitlines())
    columns = [name.strip().lower() for name in reader.fieldnames or ()]
    wanted = ("path", *EDGES)
    if missing := [name for name in wanted if name not in columns]:
        raise DataError(
            f"`boxes` must have the columns {','.join(wanted)}: {str(path)!r} lacks "
            f"{', '.join(missing)}. Name them in its first row."
        )
    reader.fieldnames = columns
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise DataError(f"{str(path)!r} must be a CSV file: {error}. Save it again.") from error


def _box(cells: list[str | None], where: str) -> Fractions:
    try:
        left, top, right, bottom = (float(cell or nan) for cell in cells)
    except ValueError:
        left = top = right = bottom = nan
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise DataError(
            "Boxes must have 0 ≤ left < right ≤ 1 and 0 ≤ top < bottom ≤ 1, as shares of the "
            f"picture's width and height: {where} has {', '.join(str(cell) for cell in cells)}. "
            "Divide pixels by the width and the height."
        )
    return left, top, right, bottom
