"""Other libraries' data sets: Hugging Face's tables of rows, torchvision's pairs."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from instaaug.data.cache import OnBadImage, OnProgress, check_policy
from instaaug.data.decode import (
    GRAY_MODES,
    PictureHeader,
    decode_bytes,
    decode_image,
    from_array,
    picture_pixels,
    read_header,
    refusal,
)
from instaaug.data.files import choose_shape
from instaaug.data.labeled import LabeledImages, evenly_spaced_indices, hash_content
from instaaug.data.labels import (
    TaskKind,
    check_task,
    class_labels,
    number_classes,
    regression_targets,
)
from instaaug.errors import ArgumentError, DataError

__all__ = ["from_dataset"]

IMAGE_COLUMNS = (
    *("image", "img", "images", "picture", "pixels", "pixel_values", "path", "file"),
    *("jpg", "jpeg", "png", "webp"),  # of webdataset: how a file's name ends
)
TARGET_COLUMNS = ("label", "labels", "target", "targets", "class", "y", "cls")


class ItemColumns(NamedTuple):
    """Where an item has its image and its target: names of a row, or places in a pair."""

    image: str | int
    target: str | int


def from_dataset(
    dataset: Any,
    *,
    size: int | None = None,
    channels: int | None = None,
    task: TaskKind = "classification",
    image_column: str | None = None,
    target_column: str | None = None,
    limit: int | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
) -> LabeledImages:
    """All items of another library's data set, decoded once into memory.

    Items are rows with columns, as Hugging Face's ``datasets.Dataset`` has them, or pairs (image,
    target), as torchvision's data sets have them; neither library is needed. An image may be a
    Pillow image, a tensor ``(C, H, W)``, an array ``(H, W, C)`` or ``(H, W)``, the bytes or the
    path of a file, or a mapping with ``bytes`` or ``path``. Tensors and arrays are uint8, or
    floating-point in [0, 1]. Images are scaled and cropped as by `decode_image`.

    Arguments:
        dataset: Anything with a length and items; or a stream, with ``limit``.
        size: Height and width in pixels; None chooses by up to 100 images, at most 224.
        channels: 1 or 3; None takes 1 if up to 100 images are all grayscale, else 3.
        task: Targets are classes (``"classification"``) or numbers (``"regression"``).
        image_column: The column of images; None guesses.
        target_column: The column of targets; None guesses.
        limit: Take at most so many items: evenly spaced, or the first ones of a stream, such as
            webdataset's or those of Hugging Face with ``streaming=True``.
        on_bad_image: Whether an image that cannot be decoded is an ``"error"``, or left out and
            listed (``"skip"``).
        on_progress: Called with the number of items done and of all.

    Raises:
        ArgumentError: If this is no such data set, or its columns cannot be guessed.
        DataError: If an item is something else; the message names its index and type.
    """
    check_task(task)
    check_policy(on_bad_image)
    source, dataset = dataset, _take(dataset, limit)
    indices = _indices(dataset, limit)
    columns = _columns(dataset, image_column, target_column)
    items = Items(dataset, columns)
    size, channels = choose_shape(
        lambda i: _header(items.get(indices[i])[0]), len(indices), size=size, channels=channels
    )
    pixels = np.empty((len(indices), size, size, channels), dtype=np.uint8)
    kept: list[int] = []
    skipped: list[str] = []
    values: list[Any] = []
    for done, index in enumerate(indices, 1):
        try:
            picture, value = items.get(index)
            pixels[len(kept)] = _pixels(picture, index, size=size, channels=channels)
        except DataError as error:
            if on_bad_image == "error":
                raise
            skipped.append(str(error))
        else:
            values.append(value)
            kept.append(index)
        if on_progress is not None:
            on_progress(done, len(indices))
    if not kept:
        raise DataError(f"None of the {len(indices)} images can be used. {skipped[0]}")
    pixels = pixels[: len(kept)]
    names = tuple(f"item {index}" for index in kept)
    targets, classes = _targets(values, names, task, _class_names(source, columns.target))
    return LabeledImages(
        pixels,
        targets,
        classes=classes,
        names=names,
        fingerprint=hash_content(pixels, targets.numpy(), *classes),
        skipped=tuple(skipped),
    )


class Items:
    """The items of a data set as pairs of an image, in one of four forms, and a plain target.

    The forms: a Pillow image, bytes, a path, or an array ``(H, W, C)`` of bytes.
    """

    def __init__(self, dataset: Any, columns: ItemColumns) -> None:
        self.dataset = dataset
        self.columns = columns

    def get(self, index: int) -> tuple[Any, Any]:
        """One item."""
        item = _fetch(self.dataset, index)
        try:
            image, target = item[self.columns.image], item[self.columns.target]
        except (KeyError, IndexError, TypeError) as error:
            raise DataError(
                f"Every item must be like the first: item {index} is of {_kind(item)} and lacks "
                f"{error}. Repair the data set."
            ) from error
        return _picture(image, index), _plain(target, index)


def _fetch(dataset: Any, index: int) -> Any:
    try:
        return dataset[index]
    except Exception as error:  # whatever another library's decoder raises
        raise DataError(
            f"Every item of the data set must load: item {index} does not "
            f"({type(error).__name__}: {error}). Repair it, or leave it out with "
            'on_bad_image="skip".'
        ) from error


def _kind(thing: Any) -> str:
    kind = type(thing)
    return f"type {kind.__module__}.{kind.__qualname__}".replace(" builtins.", " ")


def _take(dataset: Any, limit: int | None) -> Any:
    """A data set as it is, or the first items of a stream."""
    if limit is not None and limit < 1:
        raise ArgumentError(f"`limit` must be at least 1: got {limit}. None takes all items.")
    has_items = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
    if has_items or limit is None or not hasattr(dataset, "__iter__"):
        return dataset
    return list(islice(dataset, limit))


def _indices(dataset: Any, limit: int | None) -> list[int]:
    if isinstance(dataset, Mapping):
        raise ArgumentError(
            f"`dataset` must be one data set: got a mapping of {', '.join(map(str, dataset))}. "
            "Choose one, as in dataset['train']."
        )
    has_items = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if not has_items or isinstance(dataset, IterableDataset):
        raise ArgumentError(
            f"`dataset` must have a length and items: got {_kind(dataset)}. "
            "Of a stream, say with `limit` how many items to take."
        )
    n = len(dataset)
    if n == 0:
        raise DataError("`dataset` must have items: got none. Check how it was made.")
    return evenly_spaced_indices(n, n if limit is None else limit)


def _columns(dataset: Any, image_column: str | None, target_column: str | None) -> ItemColumns:
    first = _fetch(dataset, 0)
    if isinstance(first, Mapping):
        names = [str(name) for name in first]
        return ItemColumns(
            _find(names, image_column, IMAGE_COLUMNS, argument="image_column"),
            _find(names, target_column, TARGET_COLUMNS, argument="target_column"),
        )
    if isinstance(first, tuple | list) and len(first) >= 2:
        return ItemColumns(0, 1)
    raise DataError(
        f"Items must be pairs (image, target) or rows with columns: item 0 is of {_kind(first)}. "
        "Wrap the data set so that it returns pairs."
    )


def _find(names: Sequence[str], name: str | None, guesses: Sequence[str], *, argument: str) -> str:
    for guess in guesses if name is None else (name,):
        if guess in names:
            return guess
    arrived = f"got {name!r}, but" if name is not None else f"there is no {' or '.join(guesses)};"
    raise ArgumentError(
        f"`{argument}` must be a column of the data set: {arrived} the columns are "
        f"{', '.join(names)}. Choose one of them."
    )


def _picture(image: Any, index: int) -> Any:
    """An image in one of the four forms."""
    if isinstance(image, Mapping) and (image.get("bytes") or image.get("path")):
        image = image.get("bytes") or image["path"]
    if isinstance(image, Tensor):
        array = image.detach().cpu().numpy()
        return _bytes(array.transpose(1, 2, 0) if array.ndim == 3 else array, index)
    if isinstance(image, np.ndarray):
        is_first = image.ndim == 3 and image.shape[2] not in (1, 3, 4) and image.shape[0] in (1, 3)
        return _bytes(image.transpose(1, 2, 0) if is_first else image, index)
    if isinstance(image, str | Path | bytes) or _is_pillow(image):
        return image
    raise DataError(
        "Images must be Pillow images, tensors, arrays, bytes or paths: item "
        f"{index} has {_kind(image)}. Convert it in the data set."
    )


def _is_pillow(image: Any) -> bool:
    return all(hasattr(image, name) for name in ("mode", "size", "convert", "resize"))


def _bytes(array: np.ndarray, index: int) -> np.ndarray:
    """An array ``(H, W)`` or ``(H, W, C)`` as bytes ``(H, W, C)``."""
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or 0 in array.shape:
        raise DataError(
            "Images must be tensors (C, H, W) or arrays (H, W, C) or (H, W) with 1 or 3 channels: "
            f"item {index} has shape {array.shape}. Reorder its axes."
        )
    if array.dtype == np.uint8:
        return array
    low, high = float(array.min()), float(array.max())  # NaN if any number is
    if array.dtype.kind not in "fb" or not (low >= 0 and high <= 1):
        raise DataError(
            "Images must be uint8, or floating-point in [0, 1]: item "
            f"{index} is {array.dtype} from {low:g} to {high:g}. Take the data set without its "
            "normalization."
        )
    return np.rint(array.astype(np.float32) * 255).astype(np.uint8)


def _pixels(picture: Any, index: int, *, size: int, channels: int) -> np.ndarray:
    if isinstance(picture, bytes):
        return decode_bytes(picture, name=f"item {index}", size=size, channels=channels)
    if isinstance(picture, str | Path):
        return decode_image(picture, size=size, channels=channels)
    if isinstance(picture, np.ndarray):
        if picture.shape == (size, size, channels):
            return picture
        picture = from_array(picture)
    try:
        return picture_pixels(picture, size=size, channels=channels)
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{refusal(f'item {index}')}{error}.") from error


def _header(picture: Any) -> PictureHeader:
    if isinstance(picture, str | Path | bytes):
        return read_header(picture)
    if isinstance(picture, np.ndarray):
        height, width, channels = picture.shape
        return PictureHeader(height, width, channels == 1)
    width, height = picture.size
    return PictureHeader(height, width, picture.mode in GRAY_MODES)


def _plain(target: Any, index: int) -> Any:
    """A target as Python's own numbers, strings or lists of numbers."""
    if isinstance(target, bytes):  # a text file of webdataset
        target = target.decode("utf-8", errors="replace").strip()
    if isinstance(target, Tensor | np.ndarray | np.generic):
        target = target.tolist()
    if isinstance(target, int | float | str | list | tuple):
        return target
    raise DataError(
        f"Targets must be numbers or strings: item {index} has {_kind(target)}. "
        "Choose another `target_column`, or convert it in the data set."
    )


def _class_names(dataset: Any, target: str | int) -> tuple[str, ...]:
    """The classes' names as the data set tells them, or none."""
    feature = (getattr(dataset, "features", None) or {}).get(target)
    names = getattr(feature, "names", None) or getattr(dataset, "classes", None)
    if names is None and hasattr(dataset, "dataset"):  # torch.utils.data.Subset
        return _class_names(dataset.dataset, target)
    return tuple(str(name) for name in names or ())


def _targets(
    values: Sequence[Any], names: Sequence[str], task: TaskKind, classes: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    try:
        array = np.array(values)
    except ValueError as error:
        raise DataError(
            "Targets must have the same length in all items: got lists of several lengths. "
            "Choose another `target_column`."
        ) from error
    if task == "regression":
        return regression_targets(array, where=lambda i: names[i]), ()
    if array.ndim != 1:
        raise DataError(
            f"Class labels must be one per image: item 0 has {array.shape[1:]}. Turn one-hot rows "
            'into classes with argmax, or choose task="regression".'
        )
    labels = class_labels(array, where=lambda i: names[i])
    if classes and array.dtype.kind in "iufb":
        return torch.tensor([int(label) for label in labels]), classes
    return number_classes(labels, is_train=[True] * len(labels))
