"""The whole image in other sizes: a cheap look before the views, or one larger image instead."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from instaaug.frozen.images import NormalizedImages
from instaaug.frozen.table import FrozenViews, ViewTable, tabulate

__all__ = ["Sizes", "find_sizes", "tabulate_sizes"]

Sizes = Sequence[int] | Literal["auto"] | Mapping[int, ViewTable]
"""Sides of the whole image besides that of the views, to be tabulated or tabulated before."""

SHARES = (0.57, 0.71, 1.25, 1.5)  # of the model's side: about a third to twice its cost
STEP = 32  # pixels; most networks halve their maps five times
SMALLEST = 96  # side of a model that other sizes are tried for


def find_sizes(views: FrozenViews, images: NormalizedImages) -> tuple[int, ...]:
    """Sides of the whole image that the model takes besides its own, none beyond the images'.

    Arguments:
        views: The model, which is tried on one image, and its views.
        images: The images.
    """
    size = views.transform.size or images.image_shape[1:]
    if size[0] != size[1] or size[0] < SMALLEST:
        return ()
    wanted = {STEP * round(share * size[0] / STEP) for share in SHARES}
    wanted = {side for side in wanted if side != size[0] and side <= min(images.image_shape[1:])}
    x = images.first(1)
    expected = _only_whole(views, size[0]).outputs(x)[0].shape
    return tuple(side for side in sorted(wanted) if _takes(views, side, x, expected))


def tabulate_sizes(
    views: FrozenViews,
    images: NormalizedImages,
    sizes: Sizes,
    *,
    folder: Path | None = None,
) -> Mapping[int, ViewTable]:
    """Outputs for the whole image in other sizes; with a folder, each in a folder of it.

    Arguments:
        views: The model and its views.
        images: The images.
        sizes: Sides of the image; ``"auto"`` for those of :func:`find_sizes`; or the tables.
        folder: Where to keep them; in memory if absent.
    """
    if isinstance(sizes, Mapping):
        return sizes
    sides = find_sizes(views, images) if sizes == "auto" else tuple(sizes)
    return {
        side: tabulate(
            _only_whole(views, side),
            images,
            folder=None if folder is None else folder / f"whole{side}",
        )
        for side in sides
    }


def _only_whole(views: FrozenViews, side: int) -> FrozenViews:
    resized = replace(views.transform, size=(side, side))
    return replace(views, transform=resized, rows=views.rows[:1], features=None)


def _takes(views: FrozenViews, side: int, x: Tensor, expected: torch.Size) -> bool:
    try:
        outputs = _only_whole(views, side).outputs(x)[0]
    except Exception:  # whatever a model raises that is made for one size
        return False
    return outputs.shape == expected and bool(outputs.isfinite().all())
