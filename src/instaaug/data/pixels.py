"""Arrays of numbers in any usual layout, as bytes ``(N, H, W, C)``."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from instaaug.errors import DataError

__all__ = ["Scale", "bad_images", "channels_last", "find_scale", "to_bytes"]

CHUNK = 1024  # images; an array may be a memory map larger than memory


class Scale(NamedTuple):
    """Which number stands for white: 1 or 255."""

    white: float


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


def find_scale(arrays: Sequence[np.ndarray], *, where: Callable[[int], str]) -> Scale:
    """Whether numbers go up to 1 or to 255, judged by all arrays of a data set together.

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
    return Scale(1.0 if is_float and high <= 1 else 255.0)


def to_bytes(images: np.ndarray, scale: Scale) -> np.ndarray:
    """Images as uint8, rounded to the nearest of 256 values; bytes are returned as they are."""
    if images.dtype == np.uint8:
        return images
    factor = 255.0 if images.dtype == np.bool_ else 255.0 / scale.white
    result = np.empty(images.shape, dtype=np.uint8)
    for start in range(0, len(images), CHUNK):
        chunk = images[start : start + CHUNK].astype(np.float32)
        result[start : start + CHUNK] = np.rint(chunk * factor)
    return result


def _chunks(images: np.ndarray) -> list[np.ndarray]:
    """Views of a few images each."""
    return [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]
