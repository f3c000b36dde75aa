"""From image files to rows of predictions, a chunk at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instaaug.data.decode import decode_image
from instaaug.data.files import image_files
from instaaug.errors import ArgumentError, DataError

__all__ = ["class_columns", "decoded_files", "image_paths", "predicted_rows"]

CHUNK = 64


def predicted_rows(
    images: Sequence[str | Path],
    rows_of: Callable[[Tensor], list[dict[str, Any]]],
    *,
    without: dict[str, Any],
    size: int,
    channels: int,
    skip_bad: bool,
) -> Iterator[dict[str, Any]]:
    """A row per image file, with its path first and what is wrong with it last.

    Arguments:
        images: Files, or folders whose images are taken.
        rows_of: From the 8-bit pixels of some images to the other columns of each.
        without: These columns where there is no prediction.
        size: Side in pixels that images are decoded to.
        channels: 1 or 3.
        skip_bad: Whether a file that cannot be read gets a row with the reason, not an error.
    """
    files = iter(image_paths(images))
    while chunk := list(islice(files, CHUNK)):
        pixels, errors = decoded_files(chunk, size=size, channels=channels, skip_bad=skip_bad)
        rows = iter(rows_of(pixels) if len(pixels) else ())
        for file, error in zip(chunk, errors, strict=True):
            yield {"path": str(file), **(without if error else next(rows)), "error": error}


def class_columns(
    logits: Tensor | None, classes: Sequence[str], n_top: int = 1
) -> dict[str, str | float | None]:
    """The most probable classes of an image with their probabilities, by column.

    Arguments:
        logits: Of the classes; None leaves every column empty.
        classes: Their names.
        n_top: How many to list.

    Example:
        >>> class_columns(torch.tensor([0.0, 0.0, 50.0]), ["cat", "dog", "ibis"])
        {'label': 'ibis', 'probability': 1.0}
    """
    row: dict[str, str | float | None] = {}
    probs = None if logits is None else logits.softmax(dim=0).sort(descending=True)
    for rank in range(min(n_top, len(classes))):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        row[f"label{suffix}"] = None if probs is None else classes[int(probs.indices[rank])]
        row[f"probability{suffix}"] = (
            None if probs is None else round(float(probs.values[rank]), 6)
        )
    return row


def image_paths(images: Sequence[str | Path]) -> list[Path]:
    """The files that are named, and those in the folders that are."""
    found: list[Path] = []
    for image in map(Path, images):
        if image.is_dir():
            found += image_files(image)
        elif image.is_file():
            found.append(image)
        else:
            raise FileNotFoundError(f"There is no image {str(image)!r}.")
    if not found:
        raise ArgumentError("`images` must name at least one image: got folders without any.")
    return found


def decoded_files(
    files: Sequence[Path], *, size: int, channels: int, skip_bad: bool
) -> tuple[Tensor, list[str]]:
    """8-bit pixels of those files that can be read, and what is wrong with each of them."""
    pixels, errors = [], []
    for file in files:
        try:
            pixels.append(decode_image(file, size=size, channels=channels))
            errors.append("")
        except DataError as error:
            if not skip_bad:
                raise
            errors.append(str(error))
    stacked = np.stack(pixels) if pixels else np.zeros((0, 1, 1, channels), np.uint8)
    return torch.from_numpy(stacked).permute(0, 3, 1, 2), errors
