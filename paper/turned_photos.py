"""Real photos, each turned by an angle that is to be found again: a regression on real images.

A data source for ``instaaug.data.load_data``. It needs INSTAAUG_DATA, a folder with
``groceries-81``: photos of a shop, which all have an upright. A photo is turned about its middle
and seen through a disc, so that no corner tells the angle.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Generator, Tensor

from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.functional.affine import rotation_matrix
from instaaug.functional.warp import pixel_centers, warp
from paper.comparing import data_folder

__all__ = ["load_turned", "turn"]

PHOTOS = "groceries-81"
FARTHEST = torch.pi / 4
VALIDATION = 0.15


@lru_cache(maxsize=1)  # the runs of one process have the same images
def load_turned(size: int = 32, n_train: int | None = None) -> DataSplits:
    """Photos turned by up to 45° to either side; the target is the angle in radians.

    Arguments:
        size: Side in pixels.
        n_train: How many training photos, from all over the set; all if None.
    """
    photos = load_data(
        data_folder(PHOTOS), size=size, validation_fraction=VALIDATION, split="random"
    )
    assert photos.validation is not None  # noqa: S101  # a share was asked for
    train, validation = photos.train, photos.validation
    if n_train is not None:
        train = train.subset(evenly_spaced_indices(len(train), n_train))
    return DataSplits(
        train=turn(train, seed=1),
        validation=turn(validation, seed=2),
        test=turn(photos.test, seed=3),
        name="turned groceries",
    )


def turn(photos: LabeledImages, *, seed: int) -> LabeledImages:
    """Each photo turned by an angle of its own, seen through a disc."""
    x = torch.stack([photos[i][0] for i in range(len(photos))]).float() / 255
    angles = (2 * torch.rand(len(x), generator=Generator().manual_seed(seed)) - 1) * FARTHEST
    turned = warp(x, rotation_matrix(angles)) * _disc(x.shape[-1])
    pixels = (turned * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()
    return LabeledImages(np.ascontiguousarray(pixels), angles, fingerprint=f"turned {seed}")


def _disc(side: int) -> Tensor:
    axis = pixel_centers(side, like=torch.empty(0))
    return (axis[:, None] ** 2 + axis[None] ** 2 <= 1).float()
