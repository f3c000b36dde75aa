"""Transforms and boxes from the words that name them."""

from inspect import signature
from typing import Any

from instaaug.errors import ArgumentError
from instaaug.runs.config import TrainConfig
from instaaug.spaces import Level
from instaaug.transforms import TRANSFORMS, Transform

__all__ = ["levels_of", "transforms_of"]

ROTATION_SETS = ("sprites", "mario-iggy", "sprite-angle", "mnist-6-9")


def transforms_of(config: TrainConfig) -> list[Transform]:
    """The transforms; by default rotation for the sets made for it, else crops."""
    names = [name.strip() for name in config.transforms.split(",") if name.strip()]
    if names == ["auto"]:
        names = ["rotation"] if config.data in ROTATION_SETS else ["crop"]
    kinds = [TRANSFORMS["hsv_jitter" if name == "color" else name] for name in names]
    boxes: dict[str, Any] = {"levels": levels_of(config.grid), "max_outside": config.max_outside}
    accepted = [boxes.keys() & signature(kind).parameters for kind in kinds]
    return [
        kind(**{name: boxes[name] for name in names})
        for kind, names in zip(kinds, accepted, strict=True)
    ]


def levels_of(grid: str) -> tuple[Level, ...]:
    """The levels of a grid of boxes, from text.

    Example:
        >>> levels_of("0.75x8,1x1")
        ((0.75, 8), (1.0, 1))
    """
    try:
        pairs = [piece.split("x") for piece in grid.split(",")]
        return tuple((float(size), int(n)) for size, n in pairs)
    except ValueError:
        raise ArgumentError(
            f"`grid` must be like 0.375x16,0.75x8,1x1, sides and places per axis: got {grid!r}."
        ) from None
