"""Frozen models and photos of Table 2 at the laptop's scale, by names that ``instaaug`` takes.

See ``benchmarks/imagenet.py`` for what must be there.
"""

import numpy as np
from torch import nn

from benchmarks.imagenet import Labeled, load_model, nips_photos, other_photos
from instaaug.data import DataSplits

__all__ = ["load_lite0", "load_nips", "load_scored", "load_squeezenet"]


def load_lite0() -> nn.Module:
    """EfficientNet-Lite0 for images in [0, 1]."""
    return load_model("Lite0")


def load_squeezenet() -> nn.Module:
    """SqueezeNet 1.1 for images in [0, 1]."""
    return load_model("SqueezeNet")


def load_nips() -> DataSplits:
    """1,000 photos to fit views to."""
    return _splits(nips_photos(), step=1)


def load_scored() -> DataSplits:
    """650 validation photos of ImageNet: every second of those that have no larger version."""
    return _splits(other_photos(), step=2)


def _splits(photos: Labeled, *, step: int) -> DataSplits:
    data = photos.data.subset(np.arange(0, len(photos.data), step))
    return DataSplits(data, None, data.subset(np.arange(0)), name="photos")
