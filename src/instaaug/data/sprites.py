"""Two pixel-art characters, upright and upside-down, turned at random: the demo's data set."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.utils.data import Dataset
from typing_extensions import override

from instaaug.data.labeled import LabeledImages
from instaaug.data.named import Request, find_files, make_labeled, register_set
from instaaug.errors import ArgumentError
from instaaug.functional.affine import rotation_matrix
from instaaug.functional.warp import warp

__all__ = [
    "RotatedSprites",
    "draw_sprites",
    "load_mario_iggy",
    "read_mario_iggy",
    "read_sprite_angle",
    "read_sprites",
]


PALETTE = {
    ".": 0x000000,
    "b": 0x2F7FD0,
    "g": 0xB8C4CE,
    "k": 0x20242C,
    "n": 0x3FA34D,
    "o": 0xC8672B,
    "p": 0xF06AA6,
    "r": 0xD94040,
    "w": 0xFFFFFF,
    "y": 0xFFC93C,
}

BOLT = """
.......yy.......
.......gg.......
....gggggggg....
....gwwggwwg....
....gwkggwkg....
....gggggggg....
....ggrrrrgg....
......gggg......
..bbbbbbbbbbbb..
..g.bbbyybbb.g..
..g.bbbyybbb.g..
..r.bbbbbbbb.r..
....bbbbbbbb....
.....bb..bb.....
.....gg..gg.....
....ggg..ggg....
"""

SPIKE = """
.......p........
......pyp.......
.......p........
......nnn.......
......nnn.......
..nn..nwn..nn...
..nn..nnn..nn...
..nnn.nnn.nnn...
...nnnnwnnnn....
....nnnnnnn.....
......nnn.......
....oooooooo....
....orrrrrro....
.....oooooo.....
.....oooooo.....
......oooo......
"""

N_TRAIN, N_TEST = 2000, 1000
UPRIGHT = (0, 2)  # labels of RotatedSprites


def draw_sprites(size: int = 32) -> Float[Tensor, "2 3 size size"]:
    """The two characters, Bolt the robot and Spike the cactus, upright, in [0, 1] on black.

    Example:
        >>> draw_sprites().shape
        torch.Size([2, 3, 32, 32])
    """
    if size < 16 or size % 16:
        raise ArgumentError(f"`size` must be a multiple of 16: got {size}. Sprites have 16 × 16.")
    sprites = torch.stack([_paint(BOLT), _paint(SPIKE)])
    return sprites.repeat_interleave(size // 16, dim=2).repeat_interleave(size // 16, dim=3)


def _paint(drawing: str) -> Float[Tensor, "3 16 16"]:
    colors = [[PALETTE[mark] for mark in row] for row in drawing.split()]
    packed = torch.tensor(colors)
    return torch.stack([packed >> 16, (packed >> 8) & 255, packed & 255]) / 255


def load_mario_iggy(path: str | Path) -> Float[Tensor, "2 3 32 32"]:
    """The two sprites of the paper's rotation experiment, from the original ``images.npz``."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no file {str(path)!r}. The original `images.npz` is part of Augerino's "
            "public code (g-benton/learning-invariances); the built-in sprites need no file."
        )
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            found = {name: file[name] for name in ("mario", "iggy") if name in file.files}
    except Exception as error:  # on damaged files NumPy raises anything
        raise ArgumentError(
            f"`path` must be a NumPy archive: {str(path)!r} cannot be read as one."
        ) from error
    if missing := {"mario", "iggy"} - set(found):
        raise ArgumentError(
            f"`path` must hold the arrays 'mario' and 'iggy': {str(path)!r} lacks "
            f"{', '.join(sorted(missing))}."
        )
    wrong = [
        array.shape
        for array in found.values()
        if array.shape != (1, 3, 32, 32) or array.dtype.kind not in "iuf"
    ]
    if wrong:
        raise ArgumentError(
            f"`path` must hold two sprites of 32 × 32 pixels: {str(path)!r} has one of shape "
            f"{wrong[0]}."
        )
    return torch.from_numpy(np.concatenate(list(found.values()))).float()


class RotatedSprites(Dataset[tuple[Tensor, Tensor]]):
    """Each of two sprites, upright and upside-down, turned by a random angle of at most 45°.

    Four classes: 0 and 1 are the first sprite up and down, 2 and 3 the second. Turned by more
    than a right angle, "up" becomes "down": an image that has been turned by a may be turned by
    anything in (-π/2 - a, π/2 - a) without changing its class, and by nothing else.

    Arguments:
        n: Number of images; classes alternate.
        sprites: The two sprites, upright.
        max_angle: Largest turn to either side, in radians.
        generator: Source of randomness.

    Example:
        >>> data = RotatedSprites(8, generator=torch.Generator().manual_seed(0))
        >>> data.labels.tolist()
        [0, 1, 2, 3, 0, 1, 2, 3]
    """

    classes: Sequence[str] = ("first up", "first down", "second up", "second down")

    def __init__(
        self,
        n: int,
        *,
        sprites: Float[Tensor, "2 3 h w"] | None = None,
        max_angle: float = math.pi / 4,
        generator: Generator | None = None,
    ) -> None:
        if n < 1:
            raise ArgumentError(f"`n` must be at least 1: got {n}.")
        upright = draw_sprites() if sprites is None else sprites
        bases = torch.stack([upright, upright.rot90(2, (2, 3))], dim=1).flatten(0, 1)
        self.labels: Int[Tensor, " n"] = torch.arange(n) % 4
        self.angles: Float[Tensor, " n"] = (torch.rand(n, generator=generator) * 2 - 1) * max_angle
        self.images: Tensor = warp(bases[self.labels], rotation_matrix(self.angles))

    def __len__(self) -> int:
        return len(self.labels)

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]

    @property
    def safe_intervals(self) -> Float[Tensor, "n 2"]:
        """The widest label-preserving range of turns of each image, in radians."""
        right_angle = math.pi / 2
        return torch.stack([-right_angle - self.angles, right_angle - self.angles], dim=-1)


@register_set(
    "sprites",
    "Built in: a robot and a cactus, upright and upside-down, turned by at most 45°; 4 classes.",
    needs_files=False,
)
def read_sprites(request: Request) -> dict[str, LabeledImages]:
    """2000 and 1000 images."""
    parts = _rotate(_sprites(request.size), request.seed)
    return {part: _to_classes(data, request.size) for part, data in parts.items()}


@register_set(
    "sprite-angle",
    "Built in: the upright sprites; the angle by which each is turned, in radians.",
    needs_files=False,
)
def read_sprite_angle(request: Request) -> dict[str, LabeledImages]:
    """The 1000 and 500 images of ``sprites`` that are upright."""
    parts = _rotate(_sprites(request.size), request.seed)
    result = {}
    for part, data in parts.items():
        upright = torch.isin(data.labels, torch.tensor(UPRIGHT))
        pixels = _bytes(data.images[upright])
        result[part] = make_labeled(pixels, data.angles[upright], size=request.size)
    return result


@register_set(
    "mario-iggy",
    "The two sprites of the paper's rotation experiment, turned as `sprites` are; 4 classes.",
)
def read_mario_iggy(request: Request) -> dict[str, LabeledImages]:
    """2000 and 1000 images."""
    path = find_files(
        request,
        _archive,
        files="images.npz",
        source="It is part of Augerino's public code (g-benton/learning-invariances).",
    )
    parts = _rotate(load_mario_iggy(path), request.seed)
    return {part: _to_classes(data, request.size) for part, data in parts.items()}


def _archive(place: Path) -> Path | None:
    path = place / "images.npz" if place.is_dir() else place
    return path if path.is_file() else None


def _sprites(size: int | None) -> Tensor:
    return draw_sprites(size) if size and size % 16 == 0 else draw_sprites()


def _rotate(sprites: Tensor, seed: int) -> dict[str, RotatedSprites]:
    generator = Generator().manual_seed(seed)
    sizes = {"train": N_TRAIN, "test": N_TEST}
    return {p: RotatedSprites(n, sprites=sprites, generator=generator) for p, n in sizes.items()}


def _to_classes(data: RotatedSprites, size: int | None) -> LabeledImages:
    return make_labeled(_bytes(data.images), data.labels, size=size, classes=tuple(data.classes))


def _bytes(images: Tensor) -> np.ndarray:
    bits = (images * 255).round().clamp(0, 255).to(torch.uint8)
    return bits.permute(0, 2, 3, 1).contiguous().numpy()
