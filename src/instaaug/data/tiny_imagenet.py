"""Tiny-ImageNet in its original layout, any number of its classes."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from instaaug.data.cache import cached_pixels
from instaaug.data.labeled import LabeledImages
from instaaug.data.named import Request, find_files, hash_arrays, register_set
from instaaug.errors import DataError

__all__ = ["tiny_imagenet_boxes", "tiny_imagenet_folder"]

SIDE = 64
BELOW = (".", "tiny-imagenet-200")
Box = tuple[int, int, int, int]


def tiny_imagenet_folder(place: Path) -> Path | None:
    """The folder at or below ``place`` in the layout of Tiny-ImageNet, or None."""
    for folder in (place / below for below in BELOW):
        lists = (folder / "wnids.txt", folder / "val" / "val_annotations.txt")
        if all(path.is_file() for path in lists) and (folder / "train").is_dir():
            return folder
    return None


@register_set(
    "tiny-imagenet",
    "Tiny-ImageNet: 110 000 color photos, 64 × 64; 200 classes, or some of them.",
    find=tiny_imagenet_folder,
)
def read_tiny_imagenet(request: Request) -> dict[str, LabeledImages]:
    """Training images, and the validation images as a test, whose labels are secret."""
    root = find_files(
        request,
        tiny_imagenet_folder,
        files="wnids.txt, words.txt, train and val",
        source="Get tiny-imagenet-200.zip from the project page, "
        "cs231n.stanford.edu/tiny-imagenet-200.zip.",
    )
    wnids = _wnids(root)
    classes = _classes(root, wnids)
    train = [(path, wnid) for wnid in wnids for path in _training_images(root, wnid)]
    val = [(root / "val" / "images" / name, wnid) for name, wnid, _ in _validation_rows(root)]
    return {
        "train": _part(request, root, train, wnids=wnids, classes=classes),
        "test": _part(request, root, val, wnids=wnids, classes=classes),
    }


def tiny_imagenet_boxes(root: str | Path) -> dict[str, Box]:
    """Where the object is: (left, top, right, bottom) in pixels of the original 64 × 64.

    Keys are the images' names as in ``LabeledImages.names``: ``train/<wnid>/images/<file>`` and
    ``val/images/<file>``.
    """
    request = Request("tiny-imagenet", root=Path(root))
    folder = find_files(
        request, tiny_imagenet_folder, files="wnids.txt, train and val", source="See the README."
    )
    boxes = {f"val/images/{name}": box for name, _, box in _validation_rows(folder)}
    for wnid in _wnids(folder):
        path = folder / "train" / wnid / f"{wnid}_boxes.txt"
        for name, *numbers in _rows(path, 5, "name, left, top, right, bottom"):
            boxes[f"train/{wnid}/images/{name}"] = _box(path, numbers)
    return boxes


def _part(
    request: Request,
    root: Path,
    files: Sequence[tuple[Path, str]],
    *,
    wnids: Sequence[str],
    classes: tuple[str, ...],
) -> LabeledImages:
    number = {wnid: k for k, wnid in enumerate(wnids)}
    _check_known(root, {wnid for _, wnid in files} - set(number))
    paths = [path for path, _ in files]
    found = cached_pixels(
        paths,
        size=SIDE if request.size is None else request.size,
        channels=3,
        cache_dir=request.cache_dir,
        on_bad_image=request.on_bad_image,
        on_progress=request.on_progress,
    )
    targets = torch.tensor([number[files[i][1]] for i in found.kept.tolist()])
    return LabeledImages(
        found.pixels,
        targets,
        classes=classes,
        names=[paths[i].relative_to(root).as_posix() for i in found.kept.tolist()],
        fingerprint=hash_arrays(found.fingerprint, targets.numpy(), repr(classes)),
        skipped=found.skipped,
    )


def _check_known(root: Path, unknown: set[str]) -> None:
    if unknown:
        raise DataError(
            f"{str(root / 'val' / 'val_annotations.txt')!r} must use the classes of wnids.txt: "
            f"{min(unknown)} is none of them. Take both files from one copy."
        )


def _wnids(root: Path) -> list[str]:
    wnids = sorted((root / "wnids.txt").read_text(encoding="utf-8", errors="replace").split())
    if not wnids:
        raise DataError(f"{str(root / 'wnids.txt')!r} must name at least one class: it is empty.")
    return wnids


def _classes(root: Path, wnids: Sequence[str]) -> tuple[str, ...]:
    """The first of each class's names; where two classes share it, with the wnid."""
    path = root / "words.txt"
    rows = _rows(path, 2, "wnid, names") if path.is_file() else iter(())
    words = {wnid: names.split(",")[0].strip() for wnid, names in rows}
    first = [words.get(wnid, wnid) for wnid in wnids]
    count = Counter(first)
    return tuple(
        f"{word} ({wnid})" if count[word] > 1 else word
        for word, wnid in zip(first, wnids, strict=True)
    )


def _training_images(root: Path, wnid: str) -> list[Path]:
    folder = root / "train" / wnid / "images"
    paths = sorted(folder.glob("*.JPEG"))
    if not paths:
        raise DataError(
            f"{str(folder)!r} must hold the training images of {wnid} (*.JPEG): it holds none. "
            "Unpack the set again, or take the class out of wnids.txt."
        )
    return paths


def _validation_rows(root: Path) -> Iterator[tuple[str, str, Box]]:
    path = root / "val" / "val_annotations.txt"
    for name, wnid, *numbers in _rows(path, 6, "name, wnid, left, top, right, bottom"):
        yield name, wnid, _box(path, numbers)


def _rows(path: Path, n_columns: int, columns: str) -> Iterator[list[str]]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Unpack the whole set again.")
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        row = line.split("\t")
        if len(row) != n_columns:
            raise DataError(
                f"{str(path)!r} must have {n_columns} columns ({columns}) between tabs: line "
                f"{number} has {len(row)}."
            )
        yield row


def _box(path: Path, numbers: Sequence[str]) -> Box:
    try:
        left, top, right, bottom = map(int, numbers)
    except ValueError as error:
        raise DataError(
            f"{str(path)!r} must give boxes in whole pixels: got {' '.join(numbers)!r}."
        ) from error
    return left, top, right, bottom
