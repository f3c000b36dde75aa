"""Images and targets that are arrays already: in memory, in .npz or in .npy files."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from instaaug.data.cache import OnBadImage, check_policy
from instaaug.data.files import PARTS, result_names
from instaaug.data.labeled import LabeledImages, hash_content
from instaaug.data.labels import (
    TaskKind,
    check_task,
    class_labels,
    number_classes,
    regression_targets,
)
from instaaug.errors import ArgumentError, DataError

__all__ = ["read_arrays"]


IMAGE_WORDS = ("images", "image", "x", "pixels", "data")
TARGET_WORDS = ("labels", "label", "y", "targets", "target")
Arrays = dict[str, np.ndarray]
Source = str | Path | Mapping[str, Any] | tuple[Any, Any]

CHUNK = 1024  # images; an array may be a memory map larger than memory


@dataclass
class Part:
    """Images and targets of one part, and what they were called."""

    image_key: str
    target_key: str
    images: np.ndarray
    targets: np.ndarray

    def row(self, index: int) -> str:
        """Name a row, for errors."""
        return f"row {index} of `{self.target_key}`"


def read_arrays(
    source: Source,
    *,
    task: TaskKind = "classification",
    classes: Sequence[str] | None = None,
    on_bad_image: OnBadImage = "error",
) -> dict[str, LabeledImages]:
    """Images and targets from arrays.

    An archive or a mapping has one array of images (``images``, ``x``) and one of targets
    (``labels``, ``y``), or one of each per part (``x_train``, ``y_train``, ``x_test``, ``y_test``,
    ``train_images``, …); case does not matter, other arrays are ignored. Images are ``(N, H, W,
    C)``, ``(N, C, H, W)`` or ``(N, H, W)``. Floating-point pixels that nowhere exceed 1 are taken
    to be in [0, 1], others in [0, 255]; both are rounded to 8 bits.

    Labels that are numbers index ``classes`` if there are any; otherwise the labels that occur
    are the classes, so that 3 and 7 become class '3' and class '7'.

    Arguments:
        source: An .npz file; an images' .npy file with its targets beside it (``x.npy`` and
            ``y.npy``, ``images.npy`` and ``labels.npy``); a mapping of arrays; or a pair (images,
            targets) of arrays or .npy files.
        task: Targets are classes (``"classification"``) or numbers (``"regression"``).
        classes: The classes' names; an array ``classes`` of the archive if None.
        on_bad_image: Whether images with NaN or infinite pixels are an ``"error"``, or left out
            and listed (``"skip"``).

    Returns:
        ``{"all": …}``, or ``{"train": …, "test": …}``, perhaps with ``"validation"``.

    Raises:
        ArgumentError: If there are no such files or arrays.
        DataError: If pixels or targets cannot be used; the message names the first such row.

    Example:
        >>> x, y = np.zeros((4, 8, 8)), np.array([7, 3, 3, 7])
        >>> data = read_arrays((x, y))["all"]
        >>> data.image_shape, data.classes, data.targets
        ((1, 8, 8), ('3', '7'), tensor([1, 0, 0, 1]))
    """
    check_task(task)
    check_policy(on_bad_image)
    arrays = _arrays(source)
    parts = {part: _part(arrays, keys) for part, keys in _pairs(arrays).items()}
    names = result_names(parts, where="The arrays")
    _check_same_shape(list(parts.values()))
    if task == "classification":
        given = classes if classes is not None else arrays.get("classes")
        targets, classes = _classification(parts, None if given is None else [*map(str, given)])
    else:
        targets = {k: regression_targets(p.targets, where=p.row) for k, p in parts.items()}
        classes = ()
    keys = [part.image_key for part in parts.values()]
    white = find_white([part.images for part in parts.values()], where=lambda i: keys[i])
    return {
        name: _to_labeled_images(parts[k], targets[k], tuple(classes), white, on_bad_image)
        for k, name in names.items()
    }


def _to_labeled_images(
    part: Part, targets: Tensor, classes: tuple[str, ...], white: float, policy: OnBadImage
) -> LabeledImages:
    images = part.images
    names: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    bad = bad_images(images)
    if len(bad):
        if policy == "error" or len(bad) == len(images):
            raise DataError(
                f"`{part.image_key}` must be finite: image {bad[0]} has NaN or infinite pixels, "
                f"as {len(bad)} of {len(images)} images have. Repair them, or leave them out with "
                'on_bad_image="skip".'
            )
        good = np.setdiff1d(np.arange(len(images)), bad)
        skipped = tuple(
            f"Image {i} of `{part.image_key}` was left out: it has NaN or infinite pixels."
            for i in bad
        )
        names = tuple(f"image {i} of `{part.image_key}`" for i in good)
        images, targets = images[good], targets[torch.from_numpy(good)]
    pixels = to_bytes(images, white)
    return LabeledImages(
        pixels,
        targets,
        classes=classes,
        names=names,
        fingerprint=hash_content(pixels, targets.numpy(), *classes),
        skipped=skipped,
    )


def _classification(
    parts: Mapping[str, Part], classes: Sequence[str] | None
) -> tuple[dict[str, Tensor], Sequence[str]]:
    labels = {k: class_labels(_flat(part), where=part.row) for k, part in parts.items()}
    if classes is not None:
        return {k: _indices(parts[k], labels[k], classes) for k in parts}, classes
    everything = [label for part in labels.values() for label in part]
    is_train = np.repeat([k == "train" for k in labels], [len(part) for part in labels.values()])
    numbers, found = number_classes(everything, is_train=is_train)
    split = numbers.split([len(part) for part in labels.values()])
    return dict(zip(labels, split, strict=True)), found


def _flat(part: Part) -> np.ndarray:
    """Labels ``(N,)``; ``(N, 1)`` is common, and as good."""
    targets = part.targets
    if targets.ndim == 2 and targets.shape[1] == 1:
        return targets[:, 0]
    if targets.ndim != 1:
        raise DataError(
            f"`{part.target_key}` must be one class per image, (N,): got shape {targets.shape}. "
            "Turn one-hot rows into classes with argmax(axis=1)."
        )
    return targets


def _indices(part: Part, labels: Sequence[str], classes: Sequence[str]) -> Tensor:
    """Class numbers where the classes' names are given: labels are their numbers or names."""
    numeric = part.targets.dtype.kind not in "US"
    known = {str(i) if numeric else name: i for i, name in enumerate(classes)}
    for i, label in enumerate(labels):
        if label not in known:
            raise DataError(
                f"`{part.target_key}` must be one of the {len(classes)} classes: {part.row(i)} is "
                f"{label if numeric else repr(label)}. Correct it, or add the class's name."
            )
    return torch.tensor([known[label] for label in labels], dtype=torch.int64)


def _part(arrays: Arrays, keys: tuple[str, str]) -> Part:
    image_key, target_key = keys
    images, targets = channels_last(arrays[image_key], name=image_key), arrays[target_key]
    if targets.ndim == 0 or len(targets) != len(images):
        n = "a single number" if targets.ndim == 0 else len(targets)
        raise DataError(
            f"`{target_key}` must have one entry per image: got {n} for {len(images)} images. "
            "Check that both arrays belong together."
        )
    return Part(image_key, target_key, images, targets)


def _check_same_shape(parts: Sequence[Part]) -> None:
    for part in parts[1:]:
        if part.images.shape[1:] != parts[0].images.shape[1:]:
            raise DataError(
                f"All images must have one shape: `{part.image_key}` has (H, W, C) = "
                f"{part.images.shape[1:]}, and `{parts[0].image_key}` has "
                f"{parts[0].images.shape[1:]}. Resize them to the same shape."
            )


def _pairs(arrays: Arrays) -> dict[str, tuple[str, str]]:
    """For each part, the names of its images and of its targets."""
    images, targets = (
        {part: key for key in arrays if (part := _part_of(key, words)) is not None}
        for words in (IMAGE_WORDS, TARGET_WORDS)
    )
    if not images or images.keys() != targets.keys():
        lone = sorted(
            key
            for d, e in ((images, targets), (targets, images))
            for part, key in d.items()
            if part not in e
        )
        raise ArgumentError(
            "`source` must have images and targets, such as images and labels, or x_train and "
            f"y_train: got {', '.join(sorted(arrays)) or 'nothing'}"
            f"{f', where {lone[0]} stands alone' if lone else ''}. Rename the arrays."
        )
    return {part: (images[part], targets[part]) for part in images}


def _part_of(key: str, words: Sequence[str]) -> str | None:
    """The part that the array ``key`` belongs to, if it is named by one of ``words``."""
    pieces = key.lower().split("_")
    parts = [PARTS[piece] for piece in pieces if piece in PARTS]
    rest = [piece for piece in pieces if piece not in PARTS]
    if len(rest) != 1 or rest[0] not in words or len(parts) > 1:
        return None
    return parts[0] if parts else "train"


def _arrays(source: Source) -> Arrays:
    if isinstance(source, Mapping):
        return {str(key): np.asanyarray(value) for key, value in source.items()}
    if isinstance(source, tuple):
        images, targets = (
            _load(Path(s)) if isinstance(s, str | Path) else np.asanyarray(s) for s in source
        )
        return {"images": images, "labels": targets}
    path = Path(source)
    if path.suffix.lower() == ".npz":
        return _archive(path)
    if path.suffix.lower() == ".npy":
        targets_path = _targets_file(path)
        return {path.stem: _load(path), targets_path.stem: _load(targets_path)}
    raise ArgumentError(
        f"`source` must be an .npz or .npy file, or arrays: got {str(path)!r}. Save arrays with "
        "numpy.savez(file, images=…, labels=…)."
    )


def _archive(path: Path) -> Arrays:
    with _explain_errors(path), path.open("rb") as stream:
        _check_start(stream, b"PK")
        with np.load(stream, allow_pickle=False) as file:
            return {key: _checked(file[key]) for key in file.files}


def _load(path: Path) -> np.ndarray:
    with _explain_errors(path):
        with path.open("rb") as stream:
            _check_start(stream, b"\x93NUMPY")
        return _checked(np.load(path, mmap_mode="r", allow_pickle=False))


def _checked(array: np.ndarray) -> np.ndarray:
    """The array, unless it holds text that is none, on which Python fails later."""
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        characters = np.ascontiguousarray(array).view(f"{array.dtype.byteorder}u4")
        if characters.max() > sys.maxunicode:
            raise ValueError("it holds characters that do not exist")
    return array


def _check_start(stream: BinaryIO, start: bytes) -> None:
    """Raise unless a file starts as its kind does; NumPy would take it for a pickle."""
    if stream.read(len(start)) != start:
        raise ValueError("it does not start like one")
    stream.seek(0)


def _targets_file(path: Path) -> Path:
    """The targets' file that belongs to an images' file."""
    pieces = path.stem.split("_")
    for i, piece in enumerate(pieces):
        for word in TARGET_WORDS if piece.lower() in IMAGE_WORDS else ():
            candidate = path.with_stem("_".join([*pieces[:i], word, *pieces[i + 1 :]]))
            if candidate.is_file():
                return candidate
    raise ArgumentError(
        f"`source` must come with targets: there is no file of labels beside {str(path)!r}. Name "
        "them images.npy and labels.npy, or pass a pair (images, labels)."
    )


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    """Turn NumPy's errors on a file into advice."""
    try:
        with np.errstate(over="ignore"):  # of sizes that are lies
            yield
    except FileNotFoundError as error:
        raise DataError(
            f"`source` must be a file that exists: there is no {str(path)!r}. Check the spelling."
        ) from error
    except Exception as error:  # on damaged files NumPy raises anything, TokenError included
        if "object" in str(error).lower():  # as NumPy puts it
            raise DataError(
                f"{str(path)!r} must hold plain arrays: got pickled Python objects, which are not "
                "loaded because they could run code. Save numbers or strings, not dtype=object."
            ) from error
        raise DataError(
            f"{str(path)!r} must be a NumPy file: it cannot be read as one ({error}). "
            "Save it again with numpy.savez or numpy.save."
        ) from error


def channels_last(images: np.ndarray, *, name: str) -> np.ndarray:
    """A view ``(N, H, W, C)`` of images ``(N, H, W, C)``, ``(N, C, H, W)`` or ``(N, H, W)``.

    The last axis is the channels if it is 1 or 3 long, else the second; C is 1 or 3.

    Raises:
        DataError: If it can be none of these, or there is no image.
    """
    if images.ndim == 3:
        images = images[..., None]
    elif images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = images.transpose(0, 2, 3, 1)
    if images.ndim != 4 or images.shape[3] not in (1, 3) or 0 in images.shape:
        raise DataError(
            f"`{name}` must be images (N, H, W, C), (N, C, H, W) or (N, H, W) with 1 or 3 "
            f"channels: got shape {images.shape}. Reorder the axes, or drop an alpha channel."
        )
    return images


def bad_images(images: np.ndarray) -> np.ndarray:
    """The indices of images with a NaN or infinite pixel."""
    if images.dtype.kind != "f":
        return np.empty(0, dtype=np.int64)
    finite = [np.isfinite(chunk).all(axis=(1, 2, 3)) for chunk in _chunks(images)]
    return np.flatnonzero(~np.concatenate(finite))


def find_white(arrays: Sequence[np.ndarray], *, where: Callable[[int], str]) -> float:
    """The number that stands for white, 1 or 255, judged by all arrays of a data set together.

    Floating-point numbers that never exceed 1 go up to 1; everything else goes up to 255.

    Arguments:
        arrays: The images of all parts.
        where: Names the n-th of them, for errors.

    Raises:
        DataError: If a finite number is negative or exceeds 255, or the type is no number.
    """
    low, high = np.inf, -np.inf
    for i, images in enumerate(arrays):
        if images.dtype.kind not in "iufb":
            raise DataError(
                f"`{where(i)}` must hold numbers: got {images.dtype}. Store pixels as uint8."
            )
        if images.dtype in (np.uint8, np.bool_):
            continue
        for chunk in _chunks(images):
            finite = chunk[np.isfinite(chunk)]
            low, high = min(low, finite.min(initial=0)), max(high, finite.max(initial=0))
        if low < 0 or high > 255:
            raise DataError(
                f"`{where(i)}` must be in [0, 1] or [0, 255]: got numbers from {low:g} to "
                f"{high:g}. Undo the normalization, or scale to 8 bits."
            )
    is_float = any(images.dtype.kind == "f" for images in arrays)
    return 1.0 if is_float and high <= 1 else 255.0


def to_bytes(images: np.ndarray, white: float) -> np.ndarray:
    """Images as uint8, rounded to the nearest of 256 values; bytes are returned as they are."""
    if images.dtype == np.uint8:
        return images
    factor = 255.0 if images.dtype == np.bool_ else 255.0 / white
    result = np.empty(images.shape, dtype=np.uint8)
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK].astype(np.float32)
        result[start : start + CHUNK] = np.rint(chunk * factor)
    return result


def _chunks(images: np.ndarray) -> list[np.ndarray]:
    """Views of a few images each."""
    return [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]
