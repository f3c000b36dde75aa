"""Images with targets, ready for training: one array of bytes, one of targets."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from mmap import mmap
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset
from typing_extensions import override

from instaaug.errors import DataError

__all__ = ["LabeledImages", "channel_statistics", "evenly_spaced_indices", "hash_content"]


N_IMAGES = 5000
CHUNK = 256


@dataclass(frozen=True, eq=False)
class LabeledImages(Dataset[tuple[Tensor, Tensor]]):
    """Images of one size as 8-bit numbers, with a target each.

    Pixels may live in a memory-mapped file; a subset shares them. A whole batch is fetched at
    once (``__getitems__``), and comes out in channels-last memory, which convolutions like.

    Arguments:
        images: Pixels ``(N, H, W, C)``, uint8, C 1 or 3.
        targets: Class numbers (int64, ``(N,)``) or regression targets (float32, ``(N,)`` or
            ``(N, D)``).
        classes: Name of each class; empty for regression.
        names: Where each image comes from, to name the culprit in an error; may be empty.
        groups: The kind of each image, such as ``"easy"``, if kinds are also to be scored apart.
        fingerprint: Changes when the pixels or targets do.
        skipped: Files that could not be read and were left out, with the reason.
        rows: The rows of ``images`` that belong to this subset, in order; all by default.

    Example:
        >>> pixels = np.zeros((4, 8, 8, 3), dtype=np.uint8)
        >>> data = LabeledImages(pixels, torch.tensor([0, 1, 0, 1]), classes=("cat", "dog"))
        >>> x, y = data.subset([3, 0]).__getitems__([0, 1])
        >>> x.shape, y
        (torch.Size([2, 3, 8, 8]), tensor([1, 0]))
    """

    images: np.ndarray
    targets: Tensor
    classes: tuple[str, ...] = ()
    names: Sequence[str] = ()
    groups: Sequence[str] = ()
    fingerprint: str = ""
    skipped: tuple[str, ...] = ()
    rows: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise DataError(
                "`images` must be 8-bit pixels (N, H, W, C): got "
                f"{self.images.dtype} of shape {self.images.shape}."
            )
        n = len(self.images) if self.rows is None else len(self.rows)
        if len(self.targets) != n:
            raise DataError(
                f"`targets` must have one entry per image: got {len(self.targets)} for {n}."
            )
        if self.groups and len(self.groups) != len(self.images):
            raise DataError(
                "`groups` must have one entry per image, or none at all: got "
                f"{len(self.groups)} for {len(self.images)}."
            )
        if self.classes:
            self._check_labels()

    def _check_labels(self) -> None:
        wrong = (self.targets < 0) | (self.targets >= len(self.classes))
        if wrong.any():
            first = int(wrong.nonzero()[0])
            raise DataError(
                f"`targets` must lie in [0, {len(self.classes) - 1}], for there are "
                f"{len(self.classes)} classes: {self.name(first)} has label "
                f"{int(self.targets[first])}."
            )

    def __len__(self) -> int:
        return len(self.targets)

    def __getstate__(self) -> dict[str, Any]:
        """A memory map goes to a loader's worker by the name of its file, not as a copy."""
        state = dict(self.__dict__)
        base: Any = self.images.base  # of a whole map the map itself, of a piece of it an array
        if isinstance(self.images, np.memmap) and isinstance(base, mmap):
            where, kind = self.images.filename, self.images.dtype
            state["images"] = (str(where), kind, "r", self.images.offset, self.images.shape)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state["images"], tuple):
            state = {**state, "images": np.memmap(*state["images"])}
        self.__dict__.update(state)

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x, y = self.__getitems__([index])
        return x[0], y[0]

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """A batch: pixels ``(B, C, H, W)``, uint8, and targets."""
        chosen = np.asarray(indices)
        rows = chosen if self.rows is None else self.rows[chosen]
        pixels = torch.from_numpy(self.images[rows])  # fancy indexing copies: the file stays shut
        return pixels.permute(0, 3, 1, 2), self.targets[torch.from_numpy(chosen)]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of every image."""
        height, width, channels = self.images.shape[1:]
        return channels, height, width

    def name(self, index: int) -> str:
        """Where an image comes from, as a readable name."""
        row = index if self.rows is None else int(self.rows[index])
        return self.names[row] if self.names else f"image {row}"

    def group_indices(self) -> dict[str, np.ndarray]:
        """By group, in the order of the alphabet, the indices of its images."""
        groups = np.asarray(self.groups)
        groups = groups if self.rows is None or not len(groups) else groups[self.rows]
        return {str(name): np.flatnonzero(groups == name) for name in np.unique(groups)}

    def subset(self, indices: Sequence[int] | np.ndarray) -> "LabeledImages":
        """Some of the images; pixels are shared, not copied."""
        chosen = np.asarray(indices, dtype=np.int64)
        rows = chosen if self.rows is None else self.rows[chosen]
        return replace(self, targets=self.targets[torch.from_numpy(chosen)], rows=rows)


def channel_statistics(data: LabeledImages) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, on the scale where white is 1.

    At most 5000 images count, evenly spaced. Pixels are counted by value, so the result is exact
    and does not depend on their order. A standard deviation is at least 1/255, one step of a byte:
    a channel that never changes can still be divided by it.

    Example:
        >>> import torch
        >>> pixels = np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1)
        >>> channel_statistics(LabeledImages(pixels, torch.tensor([0, 1])))
        ((0.5,), (0.5,))
    """
    chosen = np.array(evenly_spaced_indices(len(data), N_IMAGES), dtype=np.int64)
    rows = chosen if data.rows is None else data.rows[chosen]
    counts = np.zeros((data.images.shape[3], 256), dtype=np.int64)
    for start in range(0, len(rows), CHUNK):
        pixels = data.images[rows[start : start + CHUNK]]
        for channel in range(len(counts)):
            counts[channel] += np.bincount(pixels[..., channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    total = counts.sum(axis=1)
    mean = counts @ values / total
    variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / total
    std = np.maximum(np.sqrt(variance), 1 / 255)
    return tuple(mean.tolist()), tuple(std.tolist())


def evenly_spaced_indices(n: int, limit: int) -> list[int]:
    """At most ``limit`` of the numbers below ``n``, the first and the last among them.

    Example:
        >>> evenly_spaced_indices(3, 100), evenly_spaced_indices(101, 5)
        ([0, 1, 2], [0, 25, 50, 75, 100])
    """
    if n <= limit:
        return list(range(n))
    return np.linspace(0, n - 1, limit).round().astype(int).tolist()


def hash_content(*pieces: bytes | str | np.ndarray) -> str:
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
