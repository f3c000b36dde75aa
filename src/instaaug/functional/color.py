"""Per-pixel color: perceived brightness, and affine changes of intensity."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.shapes import Images, Rows

__all__ = ["affine_intensity", "luma"]


def luma(x: Images) -> Float[Tensor, "batch 1 height width"]:
    """Perceived brightness of RGB (ITU-R BT.601); the plain mean for any other channels."""
    if x.shape[1] != 3:
        return x.mean(dim=1, keepdim=True)
    red, green, blue = x.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def affine_intensity(x: Images, gain: Rows, offset: Rows) -> Images:
    """Scale and shift the intensity of each image, then clip to [0, 1]."""
    return torch.addcmul(offset[:, :, None, None], x, gain[:, :, None, None]).clamp(0, 1)
