"""Noise in the layout of public data sets."""

from pathlib import Path

import torch
from PIL import Image

__all__ = ["draw_picture", "make_rawfoot", "make_tiny_imagenet"]

WNIDS = ("n01", "n02")
FOODS = (1, 2)


def draw_picture(path: Path, side: int, generator: torch.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = torch.randint(256, (side, side, 3), dtype=torch.uint8, generator=generator)
    Image.fromarray(pixels.numpy()).save(path)


def make_tiny_imagenet(root: Path, generator: torch.Generator) -> None:
    """Noise in the layout of Tiny-ImageNet: 16 training and 4 validation images a class."""
    rows = []
    for wnid in WNIDS:
        for i in range(16):
            draw_picture(root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", 64, generator)
        for i in range(4):
            name = f"val_{wnid}_{i}.JPEG"
            draw_picture(root / "val" / "images" / name, 64, generator)
            rows.append(f"{name}\t{wnid}\t0\t0\t32\t32\n")
    (root / "val" / "val_annotations.txt").write_text("".join(rows))
    (root / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in WNIDS))
    (root / "words.txt").write_text("".join(f"{wnid}\tthing {wnid}\n" for wnid in WNIDS))


def make_rawfoot(root: Path, generator: torch.Generator) -> None:
    """Noise in the layout of RawFooT: two foods under all lights."""
    for food in FOODS:
        for light in range(1, 47):
            draw_picture(root / f"{food:04}-{light:02}.png", 128, generator)
