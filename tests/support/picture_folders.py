"""Small data sets of files that a classifier can tell apart, made by code."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.picture_files import save_rotated, truncated

__all__ = ["CLASSES", "KINDS", "gray_levels", "mixed_folder", "plain_folder", "truncated_jpeg"]

CLASSES = {"cat": 50, "dog": 120, "ibis": 190}  # and how bright they are


def noise(level: int, number: int, height: int = 32, width: int = 32) -> np.ndarray:
    """An RGB image of about this brightness; another one for another number."""
    generator = np.random.default_rng([level, number])
    return generator.integers(level - 20, level + 20, (height, width, 3), dtype=np.uint8)


def rgb_png(folder: Path, level: int, number: int) -> None:
    Image.fromarray(noise(level, number)).save(folder / f"rgb {number}.png")


def tall_jpeg(folder: Path, level: int, number: int) -> None:
    Image.fromarray(noise(level, number, 60, 36)).save(folder / f"tall {number}.jpg")


def wide_webp(folder: Path, level: int, number: int) -> None:
    Image.fromarray(noise(level, number, 32, 50)).save(folder / f"wide {number}.webp")


def gray_png(folder: Path, level: int, number: int) -> None:
    Image.fromarray(noise(level, number)[..., 0]).save(folder / f"gray {number}.png")


def cmyk_jpeg(folder: Path, level: int, number: int) -> None:
    Image.fromarray(noise(level, number)).convert("CMYK").save(folder / f"cmyk {number}.jpg")


def deep_png(folder: Path, level: int, number: int) -> None:
    deep = noise(level, number)[..., 0].astype(np.uint16) * 257
    Image.fromarray(deep).save(folder / f"deep {number}.png")


def turned_jpeg(folder: Path, level: int, number: int) -> None:
    save_rotated(folder / f"turned {number}.jpeg", Image.fromarray(noise(level, number)), 6)


KINDS: tuple[Callable[[Path, int, int], None], ...] = (
    *(rgb_png, tall_jpeg, wide_webp, gray_png, cmyk_jpeg, deep_png, turned_jpeg),
)


def mixed_folder(root: Path, n: int = 14) -> Path:
    """A folder per class, ``n`` images each, of every kind that people have."""
    return _folder(root, n, KINDS)


def plain_folder(root: Path, n: int = 12) -> Path:
    """A folder per class, ``n`` small PNG files each."""
    return _folder(root, n, (rgb_png,))


def _folder(root: Path, n: int, kinds: tuple[Callable[[Path, int, int], None], ...]) -> Path:
    for name, level in CLASSES.items():
        (root / name).mkdir(parents=True)
        for number in range(n):
            kinds[number % len(kinds)](root / name, level, number)
    return root


def truncated_jpeg(path: Path) -> Path:
    """A JPEG file whose second half is missing."""
    return truncated(path, 1500)


def gray_levels(path: Path, *, n: int = 37, side: int = 16) -> Path:
    """An .npz file of color images in three classes, told apart by their brightness."""
    labels = np.arange(n) % 3
    levels = list(CLASSES.values())
    images = np.stack([noise(levels[k], i, side, side) for i, k in enumerate(labels)])
    np.savez(path, images=images, labels=labels)
    return path
