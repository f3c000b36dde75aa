"""Pictures of inputs as large as their files have them, for a page."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from instaaug.data import LabeledImages
from instaaug.data.decode import decode_image, natural_size
from instaaug.errors import DataError

__all__ = ["larger_pictures"]


def larger_pictures(
    images: LabeledImages, pictures: UInt8[Tensor, "n h w c"], *, most: int
) -> list[UInt8[Tensor, "_ _ c"]]:
    """Each picture, read again from its file where that has more pixels.

    A file counts only if it still holds, at the size of ``images``, the very same pixels: it may
    have changed, or the name may be that of another file.

    Arguments:
        images: What a run sees, by the names of files or otherwise.
        pictures: The same, small enough for a page, to keep where there is nothing larger.
        most: Largest side in pixels.
    """
    found = []
    for i, picture in enumerate(pictures):
        try:
            larger = _read_larger(images, i, most)
        except DataError:  # no file, or none that can be read
            larger = None
        found.append(picture if larger is None else larger)
    return found


def _read_larger(images: LabeledImages, i: int, most: int) -> UInt8[Tensor, "_ _ c"] | None:
    channels, height, width = images.image_shape
    path = Path(images.name(i))
    if height != width or not path.is_absolute():
        return None
    side = min(*natural_size(path), most)
    if side <= height:
        return None
    own = images.__getitems__([i])[0][0].permute(1, 2, 0).numpy()
    if not np.array_equal(decode_image(path, size=height, channels=channels), own):
        return None
    return torch.from_numpy(decode_image(path, size=side, channels=channels))
