"""The registry of data sets that have a name, and where their files are looked for."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug.data.cache import OnBadImage, OnProgress
from instaaug.data.decode import check_shape
from instaaug.data.labeled import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.registry import Registry

__all__ = [
    "DATASETS",
    "NamedSet",
    "Request",
    "find_files",
    "hash_arrays",
    "make_labeled",
    "recognize",
    "register_set",
    "resize",
]


CHUNK = 4096  # images that are scaled at once


@dataclass(frozen=True)
class Request:
    """How to load a named set.

    Arguments:
        name: The set's name.
        root: Folder of its files; None to look in the usual places.
        size: Height and width of the images in pixels; None for the set's own.
        cache_dir: Where decoded images are kept; None for the default.
        on_bad_image: ``"error"`` or ``"skip"``; see `cached_pixels`.
        on_progress: Called with the number of files done and of all files.
        seed: For sets that are drawn at random.
    """

    name: str
    root: Path | None = None
    size: int | None = None
    cache_dir: Path | None = None
    on_bad_image: OnBadImage = "error"
    on_progress: OnProgress | None = None
    seed: int = 0


Reader = Callable[..., dict[str, LabeledImages]]
Finder = Callable[[Path], Path | None]


@dataclass(frozen=True)
class NamedSet:
    """A data set with a name.

    Arguments:
        name: As in `DATASETS`.
        description: One sentence.
        read: Gives the parts of the set for a `Request`; further arguments are its options.
        find: Recognizes the set: gives the folder of its files, at or below a folder, or None.
        needs_files: Whether it needs files that are not part of this library.
    """

    name: str
    description: str
    read: Reader
    find: Finder | None = None
    needs_files: bool = True

    def load(
        self,
        root: str | Path | None = None,
        *,
        size: int | None = None,
        cache_dir: str | Path | None = None,
        on_bad_image: OnBadImage = "error",
        on_progress: OnProgress | None = None,
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> dict[str, LabeledImages]:
        """The parts of the set: "train" and "test", or "all" where there is no official split."""
        request = Request(
            self.name,
            root=None if root is None else Path(root),
            size=size,
            cache_dir=None if cache_dir is None else Path(cache_dir),
            on_bad_image=on_bad_image,
            on_progress=on_progress,
            seed=seed,
        )
        options = options or {}
        _, *known = signature(self.read).parameters
        if unknown := [name for name in options if name not in known]:
            raise ArgumentError(
                f"`options` must be those of the data set {self.name!r}, "
                f"{', '.join(known) or 'which has none'}: got {', '.join(unknown)}."
            )
        return self.read(request, **options)


DATASETS = Registry[NamedSet]("data set")
"""Every named set: ``DATASETS["sprites"].load()``."""


def register_set(
    name: str, description: str, *, find: Finder | None = None, needs_files: bool = True
) -> Callable[[Reader], Reader]:
    """Return a decorator that registers a function as the reader of a set."""

    def register(read: Reader) -> Reader:
        DATASETS.register(name)(NamedSet(name, description, read, find, needs_files))
        return read

    return register


def recognize(path: str | Path) -> str | None:
    """The name of the set that a folder holds, by its layout; None if it is none of `DATASETS`.

    Fashion-MNIST has the files of MNIST; it is recognized by the word "fashion" in its path.
    """
    folder = Path(path)
    if not folder.is_dir():
        return None
    finders = {name: known.find for name, known in DATASETS.items() if known.find is not None}
    return next((name for name, find in finders.items() if find(folder) is not None), None)


def find_files(
    request: Request,
    find: Finder,
    *,
    files: str,
    source: str,
    also: Sequence[Path] = (),
) -> Path:
    """The folder of a set's files.

    Without a root, $INSTAAUG_DATA/<name> is tried, then ``also``.

    Arguments:
        request: Its name and root count.
        find: Gives the folder with the files, at or below a folder, or None.
        files: Describes the files, for the error message.
        source: Says where to get them, for the error message.
        also: Further places, where packages put it.

    Raises:
        FileNotFoundError: If the files are in none of the places.
    """
    places = _places(request, also)
    for place in places:
        found = find(place) if place.exists() else None
        if found is not None:
            return found
    raise FileNotFoundError(
        f"`root` must be a folder with {files}: {_describe(places)}. {source} Name its folder "
        f"with --data.root, or set INSTAAUG_DATA to the folder that contains {request.name!r}."
    )


def _places(request: Request, also: Sequence[Path]) -> list[Path]:
    if request.root is not None:
        return [request.root.expanduser()]
    base = os.environ.get("INSTAAUG_DATA")
    return [*([Path(base).expanduser() / request.name] if base else []), *also]


def _describe(places: Sequence[Path]) -> str:
    if not places:
        return "none was given, and INSTAAUG_DATA is not set"
    states = ["lacks them" if place.exists() else "does not exist" for place in places]
    return ", ".join(f"{str(p)!r} {state}" for p, state in zip(places, states, strict=True))


def make_labeled(
    pixels: np.ndarray,
    targets: Tensor,
    *,
    size: int | None,
    classes: tuple[str, ...] = (),
    names: Sequence[str] = (),
) -> LabeledImages:
    """A data set of pixels ``(N, H, W, C)`` in memory, at the size that was asked for."""
    images = resize(pixels, size)
    key = hash_arrays(images, targets.numpy(), repr(classes))
    return LabeledImages(images, targets, classes=classes, names=names, fingerprint=key)


def resize(pixels: np.ndarray, size: int | None) -> np.ndarray:
    """The largest centered square of each image, scaled with an antialiasing bicubic filter."""
    check_shape(size=size, channels=None)
    height, width = pixels.shape[1:3]
    if size is None or (height, width) == (size, size):
        return pixels
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[:, top : top + side, left : left + side]
    chunks = [square[start : start + CHUNK] for start in range(0, len(square), CHUNK)]
    return np.concatenate([_resize_chunk(chunk, size) for chunk in chunks])


def _resize_chunk(pixels: np.ndarray, size: int) -> np.ndarray:
    x = torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).float()
    y = F.interpolate(x, (size, size), mode="bicubic", antialias=True, align_corners=False)
    return y.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def hash_arrays(*parts: np.ndarray | str) -> str:
    """SHA-256 of arrays and strings."""
    digest = sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
