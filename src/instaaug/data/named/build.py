"""From arrays of pixels to a data set: scaled, fingerprinted, labeled."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug.data.decode import check_shape
from instaaug.data.labeled import LabeledImages

__all__ = ["fingerprint", "labeled", "scaled"]

CHUNK = 4096  # images that are scaled at once


def labeled(
    pixels: np.ndarray,
    targets: Tensor,
    *,
    size: int | None,
    classes: tuple[str, ...] = (),
    names: Sequence[str] = (),
) -> LabeledImages:
    """A data set of pixels ``(N, H, W, C)`` in memory, at the size that was asked for."""
    images = scaled(pixels, size)
    key = fingerprint(images, targets.numpy(), repr(classes))
    return LabeledImages(images, targets, classes=classes, names=names, fingerprint=key)


def scaled(pixels: np.ndarray, size: int | None) -> np.ndarray:
    """The largest centered square of each image, scaled with an antialiasing bicubic filter."""
    check_shape(size=size, channels=None)
    height, width = pixels.shape[1:3]
    if size is None or (height, width) == (size, size):
        return pixels
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = pixels[:, top : top + side, left : left + side]
    chunks = [square[start : start + CHUNK] for start in range(0, len(square), CHUNK)]
    return np.concatenate([_scaled(chunk, size) for chunk in chunks])


def _scaled(pixels: np.ndarray, size: int) -> np.ndarray:
    x = torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).float()
    y = F.interpolate(x, (size, size), mode="bicubic", antialias=True, align_corners=False)
    return y.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def fingerprint(*parts: np.ndarray | str) -> str:
    """SHA-256 of arrays and words."""
    digest = sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            digest.update(f"{part.dtype}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
