"""Image files of every odd kind, made by code."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

__all__ = [
    "BROKEN",
    "bright_corner",
    "class_folders",
    "fake_bomb",
    "plain",
    "save_rotated",
    "twelve_bit_tiff",
]

ORIENTATION = 0x0112


def plain(
    path: Path, color: tuple[int, int, int] = (200, 100, 50), size: tuple[int, int] = (32, 32)
) -> Path:
    """One color, (width, height) pixels; the ending decides the format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


def bright_corner(width: int = 64, height: int = 32) -> Image.Image:
    """Black, with a white upper left quarter: no turn or flip leaves it as it is."""
    image = Image.new("RGB", (width, height))
    image.paste((255, 255, 255), (0, 0, width // 2, height // 2))
    return image


def save_rotated(path: Path, image: Image.Image, orientation: int) -> Path:
    """Save with a tag that says how to turn the image."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    image.save(path, exif=exif)
    return path


def truncated(path: Path, n_bytes: int) -> Path:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:n_bytes])
    return path


def nothing(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def text(path: Path) -> Path:
    path.write_text("This is not an image.\n" * 20)
    return path


def postscript(path: Path) -> Path:
    """A program that Pillow would hand to an interpreter, under the name of an image."""
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n")
    return path


# what is wrong, the file's ending, how to make it, the reason to be given
BROKEN: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "zero bytes": (".png", nothing, r"it is empty \(0 bytes\)"),
    "text": (".png", text, "it is in no known image format"),
    "postscript": (".png", postscript, "it is in no known image format"),
    "truncated jpeg": (".jpg", lambda path: truncated(path, 1500), "truncated"),
    "truncated png": (".png", lambda path: truncated(path, 3000), "truncated|broken"),
    "header of a png only": (".png", lambda path: truncated(path, 20), "."),
    "truncated gif": (".gif", lambda path: truncated(path, 900), "."),
    "truncated tiff": (".tif", lambda path: truncated(path, 2000), "."),
    "truncated bmp": (".bmp", lambda path: truncated(path, 2000), "truncated"),
    "truncated webp": (".webp", lambda path: truncated(path, 500), "."),
}


def fake_bomb(path: Path, width: int, height: int) -> Path:
    """A file of a few bytes that claims many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [
        chunk(b"IHDR", header),
        chunk(b"IDAT", zlib.compress(b"\0" * 64)),
        chunk(b"IEND", b""),
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    return path


def twelve_bit_tiff(path: Path, values: tuple[int, ...] = (0, 2048, 4095, 1024)) -> Path:
    """A square grayscale image of 12-bit numbers, two of them packed in three bytes."""
    side = int(len(values) ** 0.5)
    rows = b""
    for start in range(0, len(values), side):
        bits = "".join(f"{value:012b}" for value in values[start : start + side])
        bits += "0" * (-len(bits) % 8)
        rows += bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))
    tags = [
        (256, 3, side),
        (257, 3, side),
        (258, 3, 12),
        (259, 3, 1),
        (262, 3, 1),
        (273, 4, 8),
        (277, 3, 1),
        (278, 3, side),
        (279, 4, len(rows)),
    ]
    directory = struct.pack("<H", len(tags))
    for tag, kind, value in tags:
        directory += struct.pack("<HHI", tag, kind, 1) + struct.pack("<I", value)
    header = struct.pack("<2sHI", b"II", 42, 8 + len(rows))
    path.write_bytes(header + rows + directory + struct.pack("<I", 0))
    return path


def class_folders(
    root: Path, classes: dict[str, int], *, size: tuple[int, int] = (32, 32), ending: str = ".png"
) -> Path:
    """A folder per class with so many images, all of different colors."""
    for c, (name, count) in enumerate(classes.items()):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            plain(root / name / f"{i}{ending}", (20 * c % 256, 10 * i % 256, 128), size)
    return root
