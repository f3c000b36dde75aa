"""Mean and spread of each channel, to normalize inputs with."""

import numpy as np

from instaaug.data.labeled import LabeledImages
from instaaug.data.sizes import evenly_spaced

__all__ = ["channel_statistics"]

N_IMAGES = 5000
CHUNK = 256


def channel_statistics(data: LabeledImages) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, on the scale where white is 1.

    At most 5000 images count, evenly spaced. Pixels are counted by value, so the result is exact
    and does not depend on their order. A standard deviation is at least 1/255, one step of a byte:
    a channel that never changes can still be divided by it.

    Example:
        >>> import torch
        >>> pixels = np.array([0, 255], dtype=np.uint8).reshape(2, 1, 1, 1)
        >>> channel_statistics(LabeledImages(pixels, torch.tensor([0, 1])))
        ((0.5,), (0.5,))
    """
    chosen = np.array(evenly_spaced(len(data), N_IMAGES), dtype=np.int64)
    rows = chosen if data.rows is None else data.rows[chosen]
    counts = np.zeros((data.images.shape[3], 256), dtype=np.int64)
    for start in range(0, len(rows), CHUNK):
        pixels = data.images[rows[start : start + CHUNK]]
        for channel in range(len(counts)):
            counts[channel] += np.bincount(pixels[..., channel].ravel(), minlength=256)
    values = np.arange(256) / 255
    total = counts.sum(axis=1)
    mean = counts @ values / total
    variance = (counts * (values - mean[:, None]) ** 2).sum(axis=1) / total
    std = np.maximum(np.sqrt(variance), 1 / 255)
    return tuple(mean.tolist()), tuple(std.tolist())
