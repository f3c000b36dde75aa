"""Pillow's operations on pixel values, for batches of images in [0, 1]: one setting per image.

Every function is what ImageOps or ImageEnhance do, but results are not rounded to 8 bits. Only
where a definition counts levels (posterize, solarize, equalize) is a pixel held to be the nearest
of the 256. Results of posterize and equalize are levels, and have no gradient.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug.functional.color import affine_intensity, luma
from instaaug.shapes import Images, Scalars, at_least_float32

__all__ = [
    "autocontrast",
    "brightness",
    "contrast",
    "equalize",
    "invert",
    "posterize",
    "saturation",
    "sharpness",
    "solarize",
]

HIGHEST = 255
"""The highest of the 256 levels."""


def brightness(x: Images, factor: Scalars) -> Images:
    """Multiply all channels; 0 gives black, 1 the image itself."""
    gain = factor.to(x.dtype)[:, None]
    return affine_intensity(x, gain, torch.zeros_like(gain))


def contrast(x: Images, factor: Scalars) -> Images:
    """Multiply the distance to the mean brightness; 0 gives a uniform gray, 1 the image itself."""
    gain = factor.to(x.dtype)[:, None]
    return affine_intensity(x, gain, (1 - gain) * luma(x).mean(dim=(2, 3)))


def saturation(x: Images, factor: Scalars) -> Images:
    """Multiply the distance to the gray picture; 0 gives that, 1 the image itself."""
    return _away_from(luma(x), x, factor)


def sharpness(x: Images, factor: Scalars) -> Images:
    """Multiply the distance to a smoothed picture; 0 gives that, 1 the image, more sharpens.

    A smoothed pixel is the mean of its 3 × 3 neighborhood in which it counts five times. The
    outermost pixels have no such neighborhood and stay as they are.
    """
    if min(x.shape[-2:]) < 3:
        return x
    inside = x[..., 1:-1, 1:-1]
    smooth = (9 * F.avg_pool2d(x, 3, stride=1) + 4 * inside) / 13
    out = x.clone()
    out[..., 1:-1, 1:-1] = _away_from(smooth, inside, factor)
    return out


def invert(x: Images) -> Images:
    """The negative."""
    return 1 - x


def solarize(x: Images, threshold: Scalars) -> Images:
    """Invert what is at or above a level from 0 to 255; 256 leaves everything.

    Example:
        >>> x = torch.tensor([0.0, 127, 128, 255]).view(1, 1, 1, 4) / 255
        >>> (solarize(x, torch.tensor([128.0])) * 255).round().flatten()
        tensor([  0., 127., 127.,   0.])
    """
    below = _levels(x) < _per_image(at_least_float32(threshold))
    return torch.where(below, x, 1 - x)


def posterize(x: Images, bits: Scalars) -> Images:
    """Keep the leading bits, 8 at most, of every level and clear the others.

    Example:
        >>> x = torch.tensor([0.0, 127, 128, 255]).view(1, 1, 1, 4) / 255
        >>> (posterize(x, torch.tensor([1.0])) * 255).flatten()
        tensor([  0.,   0., 128., 128.])
    """
    step = _per_image(2 ** (8 - at_least_float32(bits)))
    return (torch.floor(_levels(x) / step) * step / HIGHEST).to(x.dtype)


def autocontrast(x: Images) -> Images:
    """Stretch each channel so that its darkest pixel becomes 0 and its brightest 1.

    A channel of a single level stays as it is.
    """
    low, high = x.amin(dim=(2, 3), keepdim=True), x.amax(dim=(2, 3), keepdim=True)
    flat = high - low < 0.5 / HIGHEST  # or the rounding errors of a plain color would be stretched
    return torch.where(flat, x, (x - low) / torch.where(flat, 1, high - low))


def equalize(x: Images) -> Images:
    r"""Let the levels of each channel occur about equally often.

    With :math:`h` the histogram of n pixels and :math:`h_\text{last}` its entry for the brightest,
    level i becomes

    .. math:: \Bigl\lfloor \bigl(\lfloor s/2 \rfloor + \textstyle\sum_{j<i} h_j\bigr) / s
              \Bigr\rfloor, \qquad s = \lfloor (n - h_\text{last}) / 255 \rfloor.

    A channel with s = 0 stays as it is.
    """
    levels = _levels(x).long().flatten(2)
    counts = torch.zeros(*levels.shape[:2], HIGHEST + 1, dtype=torch.long, device=x.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    n_brightest = counts.gather(2, levels.amax(dim=2, keepdim=True))
    step = (levels.shape[2] - n_brightest) // HIGHEST
    darker = counts.cumsum(dim=2) - counts
    table = ((step // 2 + darker) // step.clamp(min=1)).clamp(max=HIGHEST)
    equal = (table.gather(2, levels).view(x.shape) / HIGHEST).to(x.dtype)
    return torch.where((step == 0)[..., None], x, equal)


def _away_from(origin: Tensor, x: Images, factor: Scalars) -> Images:
    """Multiply the distance of ``x`` to ``origin``, then clip."""
    return (origin + (x - origin) * _per_image(factor).to(x.dtype)).clamp(0, 1)


def _levels(x: Images) -> Images:
    """The nearest of the 256 levels, still as floating-point numbers."""
    return (at_least_float32(x) * HIGHEST).round()


def _per_image(value: Scalars) -> Tensor:
    return value[:, None, None, None]
