"""Crops that know where the object is: how much could be won by choosing them well.

Tiny-ImageNet gives a box for every photo. The oracle recognizes a photo by its pixels, and draws
any box of the grid that holds half of the object or consists of it to 70 %, all sizes with the
same probability. Nothing of it is in the package: no user has these boxes.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.data import DataSplits, load_data
from instaaug.data.tiny_imagenet import tiny_imagenet_boxes
from instaaug.functional.warp import PaddingMode
from instaaug.methods.simple import TransformAugmenter
from instaaug.parameterizations import CropGrid
from instaaug.shapes import Images
from instaaug.spaces import Level
from instaaug.transforms import Crop

__all__ = ["OracleCrops", "box_probabilities", "load_photos", "photo_folder"]

SIDE = 64
EVERY = 4  # one pixel in so many tells photos apart
LEAST_INSIDE = 0.5  # of the object
LEAST_OBJECT = 0.7  # of the box
NAMES = ("tiny-imagenet", "tiny-imagenet-30")


def photo_folder() -> Path | None:
    """The folder of Tiny-ImageNet in INSTAAUG_DATA, if there is one."""
    root = os.environ.get("INSTAAUG_DATA")
    folders = [] if root is None else [Path(root) / name for name in NAMES]
    return next((folder for folder in folders if folder.is_dir()), None)


@cache
def load_photos() -> DataSplits:
    """All photos, as they are."""
    folder = photo_folder()
    if folder is None:
        raise FileNotFoundError("INSTAAUG_DATA names no folder with 'tiny-imagenet'.")
    return load_data(folder, validation_fraction=0.0)


@cache
def _known_boxes() -> dict[bytes, tuple[float, ...]]:
    """By some of its pixels, the box of every photo: left, top, right, bottom in [-1, 1]."""
    folder = photo_folder()
    assert folder is not None  # noqa: S101  # load_photos raises before
    splits = load_photos()
    boxes = tiny_imagenet_boxes(folder)
    known = {}
    for part in (splits.train, splits.test):
        for i in range(len(part)):
            left, top, right, bottom = boxes[part.name(i)]
            ends = (left, top, right + 1, bottom + 1)
            row = i if part.rows is None else int(part.rows[i])
            known[_key(part.images[row])] = tuple(2 * end / SIDE - 1 for end in ends)
    return known


def _key(pixels: np.ndarray) -> bytes:
    return np.ascontiguousarray(pixels[::EVERY, ::EVERY]).tobytes()


class OracleCrops(TransformAugmenter):
    """Draws boxes of the grid that show enough of the object.

    Arguments:
        levels: Boxes: pairs (side, places per axis).
        max_outside: Share of a box that may lie outside of the image.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation they were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side; the input's own by default.
    """

    def __init__(
        self,
        *,
        levels: Sequence[Level],
        max_outside: float = 0.0,
        mean: Sequence[float],
        std: Sequence[float],
        padding_mode: PaddingMode = "zeros",
        size: int | None = None,
    ) -> None:
        super().__init__(Crop(), mean=mean, std=std, padding_mode=padding_mode, size=size)
        grid = CropGrid(levels, max_outside=max_outside)
        self.boxes = grid.boxes
        counts = [level.shape[0] * level.shape[1] for level in grid.levels]
        self.level_of = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        objects = self._find_objects(x)
        probs = box_probabilities(self.boxes, self.level_of, objects)
        drawn = torch.multinomial(probs, n_samples, replacement=True, generator=generator)
        return self.boxes[drawn.T]

    def _find_objects(self, x: Images) -> Float[Tensor, "batch 4"]:
        """The box of every photo, mirrored where the photo is."""
        colors = self.transform.normalization.denormalize(x)
        pixels = (colors * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        known = _known_boxes()
        found = []
        for photo in pixels:
            box = known.get(_key(photo))
            if box is None:
                left, top, right, bottom = known[_key(photo[:, ::-1])]
                box = (-right, top, -left, bottom)
            found.append(box)
        return torch.tensor(found)


def box_probabilities(
    boxes: Float[Tensor, "k 4"], level_of: Int[Tensor, " k"], objects: Float[Tensor, "batch 4"]
) -> Float[Tensor, "batch k"]:
    """Each size that has an allowed box with the same probability, and so each box of a size.

    Arguments:
        boxes: Center x, center y, width, height.
        level_of: The size that each belongs to; the last is the whole image.
        objects: Left, top, right, bottom.

    Example:
        >>> whole, left, right = (0, 0, 2, 2), (-0.5, 0, 1, 2), (0.5, 0, 1, 2)
        >>> boxes, levels = torch.tensor([left, right, whole]), torch.tensor([0, 0, 1])
        >>> box_probabilities(boxes, levels, torch.tensor([[-1.0, -1.0, -0.2, 1.0]]))
        tensor([[0.5000, 0.0000, 0.5000]])
    """
    allowed = _are_allowed(boxes, objects)
    n_levels = int(level_of.max()) + 1
    members = torch.nn.functional.one_hot(level_of, n_levels).float()
    per_level = allowed.float() @ members
    share = allowed.float() / per_level.clamp(min=1)[:, level_of]
    return share / (per_level > 0).sum(dim=1, keepdim=True)


def _are_allowed(
    boxes: Float[Tensor, "k 4"], objects: Float[Tensor, "batch 4"]
) -> Bool[Tensor, "batch k"]:
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    first, last = objects[:, None, :2], objects[:, None, 2:]
    common = (torch.minimum(last, high) - torch.maximum(first, low)).clamp(min=0).prod(dim=-1)
    object_area, box_area = (last - first).prod(dim=-1), boxes[:, 2:].prod(dim=-1)
    allowed = (common >= LEAST_INSIDE * object_area) | (common >= LEAST_OBJECT * box_area)
    return allowed | (boxes[:, 2] >= 2)
