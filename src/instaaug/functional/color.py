"""Per-pixel color: HSV jitter without HSV images, and affine changes of intensity."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.shapes import Images, Maps, Rows, Scalars

__all__ = ["affine_intensity", "hsv_jitter", "luma"]

RED_GREEN_BLUE_SECTORS = (5.0, 3.0, 1.0)


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

    With :math:`V = \max`, chroma :math:`C = \max - \min` and hue :math:`h \in [0, 6)` in
    sextants, a color is :math:`V - C\,w_n(h)`, where :math:`w_n(h) = \mathrm{clip}(\min(k, 4 -
    k), 0, 1)` and :math:`k = (n + h) \bmod 6` for :math:`n = 5, 3, 1`. The jitter changes
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
    safe_chroma = _one_for_zero(chroma)
    new_v = (v * _per_image(value, x)).clamp(max=1)
    gain = new_v / _one_for_zero(v)
    new_chroma = (chroma * _per_image(saturation, x)).minimum(v) * gain
    stretch = new_chroma / safe_chroma
    unturned = torch.addcmul(new_v - stretch * v, stretch, x)
    if hue is None:
        return unturned

    shift = _per_image(hue, x)
    n = x.new_tensor(RED_GREEN_BLUE_SECTORS).view(1, 3, 1, 1)
    k = _hue_sextant(x, v, chroma, safe_chroma) + (n + 6 * shift)
    k = k - 6 * torch.floor(k / 6)
    turned = new_v - new_chroma * torch.minimum(k, 4 - k).clamp(0, 1)
    return torch.where(shift == 0, unturned, turned)


def _per_image(value: Scalars, x: Images) -> Float[Tensor, "batch 1 1 1"]:
    return value.to(x.dtype)[:, None, None, None]


def _one_for_zero(divisor: Maps) -> Maps:
    """A divisor that neither overflows at zero nor, unlike a tiny bound, makes gradients huge."""
    return divisor.masked_fill(divisor == 0, 1)


def _hue_sextant(x: Images, v: Maps, chroma: Maps, safe_chroma: Maps) -> Maps:
    """Hue in sextants of the circle, in [-1, 5); zero for grays."""
    red, green, blue = x.split(1, dim=1)
    numerator = torch.where(
        red == v,
        green - blue,
        torch.where(green == v, blue - red + 2 * chroma, red - green + 4 * chroma),
    )
    return numerator / safe_chroma
