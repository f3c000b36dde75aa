"""Sprites turned by known angles: to classify, to estimate the angle, and the paper's own two."""

from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from instaaug.data.labeled import LabeledImages
from instaaug.data.named.build import labeled
from instaaug.data.named.catalog import Request, located, named_set
from instaaug.data.sprites import RotatedSprites, draw_sprites, load_mario_iggy

__all__ = ["read_mario_iggy", "read_sprite_angle", "read_sprites"]

N_TRAIN, N_TEST = 2000, 1000
UPRIGHT = (0, 2)  # labels of RotatedSprites


@named_set(
    "sprites",
    "Built in: a robot and a cactus, upright and upside-down, turned by at most 45°; 4 classes.",
    needs_files=False,
)
def read_sprites(request: Request) -> dict[str, LabeledImages]:
    """2000 and 1000 images."""
    parts = _turned(_sprites(request.size), request.seed)
    return {part: _classified(data, request.size) for part, data in parts.items()}


@named_set(
    "sprite-angle",
    "Built in: the upright sprites; the angle by which each is turned, in radians.",
    needs_files=False,
)
def read_sprite_angle(request: Request) -> dict[str, LabeledImages]:
    """The 1000 and 500 images of ``sprites`` that are upright."""
    parts = _turned(_sprites(request.size), request.seed)
    answer = {}
    for part, data in parts.items():
        upright = torch.isin(data.labels, torch.tensor(UPRIGHT))
        pixels = _bytes(data.images[upright])
        answer[part] = labeled(pixels, data.angles[upright], size=request.size)
    return answer


@named_set(
    "mario-iggy",
    "The two sprites of the paper's rotation experiment, turned as `sprites` are; 4 classes.",
)
def read_mario_iggy(request: Request) -> dict[str, LabeledImages]:
    """2000 and 1000 images."""
    path = located(
        request,
        _archive,
        files="images.npz",
        source="It is part of Augerino's public code (g-benton/learning-invariances).",
    )
    parts = _turned(load_mario_iggy(path), request.seed)
    return {part: _classified(data, request.size) for part, data in parts.items()}


def _archive(place: Path) -> Path | None:
    path = place / "images.npz" if place.is_dir() else place
    return path if path.is_file() else None


def _sprites(size: int | None) -> Tensor:
    return draw_sprites(size) if size and size % 16 == 0 else draw_sprites()


def _turned(sprites: Tensor, seed: int) -> dict[str, RotatedSprites]:
    generator = Generator().manual_seed(seed)
    sizes = {"train": N_TRAIN, "test": N_TEST}
    return {p: RotatedSprites(n, sprites=sprites, generator=generator) for p, n in sizes.items()}


def _classified(data: RotatedSprites, size: int | None) -> LabeledImages:
    return labeled(_bytes(data.images), data.labels, size=size, classes=tuple(data.classes))


def _bytes(images: Tensor) -> np.ndarray:
    bits = (images * 255).round().clamp(0, 255).to(torch.uint8)
    return bits.permute(0, 2, 3, 1).contiguous().numpy()
