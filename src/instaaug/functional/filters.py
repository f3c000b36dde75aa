"""Blur and noise whose strength differs from image to image."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from instaaug.shapes import Images

__all__ = ["gaussian_blur", "gaussian_noise_field"]

SMALLEST_SIGMA = 1e-3  # pixels; the neighbors' weight is exactly zero there
MASK_32 = 0xFFFFFFFF


def gaussian_blur(x: Images, sigma: Float[Tensor, " batch"], *, max_sigma: float) -> Images:
    """Blur each image with its own Gaussian; edges are repeated.

    Arguments:
        x: Images.
        sigma: Standard deviations in pixels, at most ``max_sigma``; 0 gives ``x`` back exactly.
        max_sigma: Decides the size of the kernel: three of these to either side.
    """
    batch, channels, height, width = x.shape
    radius = max(1, round(3 * max_sigma))
    offsets = torch.arange(-radius, radius + 1, device=x.device, dtype=sigma.dtype)
    narrow = sigma.clamp(min=SMALLEST_SIGMA)[:, None]
    kernel = torch.exp(-(offsets**2) / (2 * narrow**2))
    kernel = (kernel / kernel.sum(dim=-1, keepdim=True)).to(x.dtype)
    taps = kernel.repeat_interleave(channels, dim=0)[:, None, None, :]
    lanes = x.reshape(1, batch * channels, height, width)
    lanes = F.pad(lanes, (radius, radius, radius, radius), mode="replicate")
    with torch.autocast(x.device.type, enabled=False):  # or the identity would be rounded
        lanes = F.conv2d(lanes, taps, groups=batch * channels)
        lanes = F.conv2d(lanes, taps.mT, groups=batch * channels)
    return lanes.view(batch, channels, height, width)


def gaussian_noise_field(seed: Float[Tensor, " batch"], *, like: Images) -> Images:
    """Standard normal noise that is a pure function of ``seed`` in [0, 1) and the position.

    A counter-based generator: every pixel hashes its own index together with the seed of its
    image, so that noise can be replayed, and drawing it needs no state. Both are hashed before
    they meet: were they added, two seeds could give the same noise, moved by some pixels. Only
    the leading 24 bits of the seed count.
    """
    with torch.no_grad():
        n = like[0].numel()
        index = _mix(torch.arange(n, device=like.device))
        stream = _mix((seed.double() * 2**24).long() * 0x9E3779B1)
        word = _mix(stream[:, None] ^ index)
        angle = _unit(word) * (2 * torch.pi)
        radius = (-2 * (1 - _unit(_mix(word ^ 0x5BD1E995))).log()).sqrt()
        return (radius * angle.cos()).to(like.dtype).view(like.shape)


def _mix(word: Tensor) -> Tensor:
    """A 32-bit integer hash in two multiply-xorshift rounds (lowbias32)."""
    word = word & MASK_32
    word = ((word ^ (word >> 16)) * 0x7FEB352D) & MASK_32
    word = ((word ^ (word >> 15)) * 0x846CA68B) & MASK_32
    return word ^ (word >> 16)


def _unit(word: Tensor) -> Tensor:
    return word.double() / 2**32
