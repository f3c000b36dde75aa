"""From image files with labels to data sets: what a folder and a table have in common."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor

from instaaug.data.cache import OnBadImage, OnProgress, cached_pixels
from instaaug.data.labeled import LabeledImages
from instaaug.data.labels import TaskKind, number_classes, regression_targets
from instaaug.data.sizes import choose_shape
from instaaug.errors import DataError

__all__ = ["PARTS", "FileEntry", "fingerprint_of", "read_files", "result_names"]

PARTS = {
    "train": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}


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
        channels: 1 or 3; likewise.
        cache_dir: See `cached_pixels`.
        on_bad_image: See `cached_pixels`.
        on_progress: See `cached_pixels`.
        skipped: What was left out before, with reasons.
    """
    names = result_names({entry.part for entry in entries}, where=where)
    paths = [entry.path for entry in entries]
    size, channels = choose_shape(paths, size=size, channels=channels)
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
        fingerprint=fingerprint_of(content.encode(), targets.numpy(), *classes),
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
    # What was left out is told once, with the training images.
    return {
        name: part if name in ("all", "train") else replace(part, skipped=())
        for name, part in data.items()
    }


def fingerprint_of(*pieces: bytes | str | np.ndarray) -> str:
    """A hash of bytes, strings and arrays, in order, that depends on nothing else."""
    digest = hashlib.sha256()
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            digest.update(f"array {piece.dtype.str} {piece.shape} ".encode())
            for start in range(0, len(piece), 1024):  # a memory map need not fit into memory
                digest.update(np.ascontiguousarray(piece[start : start + 1024]).tobytes())
        else:
            data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogateescape")
            digest.update(f"bytes {len(data)} ".encode() + data)
    return digest.hexdigest()


def _targets(entries: Sequence[FileEntry], task: TaskKind) -> tuple[Tensor, tuple[str, ...]]:
    if task == "classification":
        return number_classes(
            [str(entry.target) for entry in entries],
            is_train=[entry.part == "train" for entry in entries],
        )
    values = np.array([entry.target for entry in entries], dtype=np.float64)
    return regression_targets(values, where=lambda i: str(entries[i].path)), ()
