"""Per-pixel color: HSV jitter without HSV images, and affine changes of intensity."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.functional.exactness import with_exact_rows
from instaaug.shapes import Images, Maps, Rows, Scalars

__all__ = ["affine_intensity", "hsv_jitter", "luma"]

SEXTANT_OF_RED_GREEN_BLUE = (0.0, 2.0, 4.0)


def luma(x: Images) -> Float[Tensor, "batch 1 height width"]:
    """Perceived brightness of RGB (ITU-R BT.601); the plain mean for any other channels."""
    if x.shape[1] != 3:
        return x.mean(dim=1, keepdim=True)
    red, green, blue = x.split(1, dim=1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def affine_intensity(x: Images, gain: Rows, offset: Rows) -> Images:
    """Scale and shift the intensity of each image, then clip to [0, 1]."""
    return torch.addcmul(offset[:, :, None, None], x, gain[:, :, None, None]).clamp(0, 1)


def hsv_jitter(x: Images, hue: Scalars | None, saturation: Scalars, value: Scalars) -> Images:
    r"""Shift the hue, scale the saturation and the value of RGB images in [0, 1].

    With :math:`V = \max`, chroma :math:`C = \max - \min` and hue :math:`h` in sextants of the
    circle, a channel whose hue is :math:`p` (red 0, green 2, blue 4) has the intensity

    .. math:: V - C\,\mathrm{clip}(d - 1, 0, 1), \qquad d = 3 - \bigl||h - p| - 3\bigr|

    with :math:`d` the distance from :math:`h` to :math:`p` on the circle. The jitter changes
    :math:`V`, :math:`C` and :math:`h` in this formula and nothing else. Which channel is largest
    is read off the colors themselves, never from a rounded hue, so that two equal channels stay
    equal.

    Arguments:
        x: RGB images in [0, 1].
        hue: Shift as a fraction of the circle; ``None`` skips the costly part. 0 shifts nothing.
        saturation: Factor; the result is clipped to full saturation. 1 changes nothing.
        value: Factor; the result is clipped to 1. 1 changes nothing.

    Returns:
        Images in [0, 1]; ``x`` to the last bit where hue, saturation and value are (0, 1, 1).

    Example:
        >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
        >>> one, third = torch.ones(1), torch.tensor([1 / 3])
        >>> hsv_jitter(red, third, one, one).flatten()  # a third of the circle on
        tensor([0., 1., 0.])
    """
    v = x.amax(dim=1, keepdim=True)
    chroma = v - x.amin(dim=1, keepdim=True)
    new_v = (v * _per_image(value, x)).clamp_(max=1)
    gain = new_v / _one_for_zero(v)
    new_chroma = (chroma * _per_image(saturation, x)).minimum(v).mul_(gain)
    if hue is None:
        return _unturned(x, v, chroma, new_v, new_chroma)

    h = _hue_sextant(x, v, chroma) + 6 * _per_image(hue, x)
    h = h - 6 * torch.floor(h / 6)
    peak = x.new_tensor(SEXTANT_OF_RED_GREEN_BLUE).view(1, 3, 1, 1)
    # strength is 2 - clip(d - 1, 0, 1), which leaves one multiplication for all three channels
    strength = (h - peak).abs().sub_(3).abs().clamp_(1, 2)
    turned = torch.addcmul(new_v - 2 * new_chroma, new_chroma, strength)
    parts = (x, v, chroma, new_v, new_chroma)
    return with_exact_rows(turned, hue == 0, lambda rows: _unturned(*(p[rows] for p in parts)))


def _unturned(x: Images, v: Maps, chroma: Maps, new_v: Maps, new_chroma: Maps) -> Images:
    """New value and chroma at the old hue: linear in the color, and exact where both are old."""
    stretch = new_chroma / _one_for_zero(chroma)
    return torch.addcmul(new_v - stretch * v, stretch, x)


def _per_image(value: Scalars, x: Images) -> Float[Tensor, "batch 1 1 1"]:
    return value.to(x.dtype)[:, None, None, None]


def _one_for_zero(divisor: Maps) -> Maps:
    """A divisor that neither overflows at zero nor, unlike a tiny bound, makes gradients huge."""
    return divisor.masked_fill(divisor == 0, 1)


def _hue_sextant(x: Images, v: Maps, chroma: Maps) -> Maps:
    """Hue in sextants of the circle, in [-1, 5); zero for grays."""
    red, green, blue = x.split(1, dim=1)
    numerator = torch.where(
        red == v,
        green - blue,
        torch.where(green == v, blue - red + 2 * chroma, red - green + 4 * chroma),
    )
    return numerator / _one_for_zero(chroma)
