"""The generator of Viewmaker: from an image and noise to a picture of the same size."""

from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.shapes import Images, Maps, Rows

__all__ = ["ViewmakerNetwork"]

CHANNELS = (32, 64, 128)
N_BLOCKS = 3


class ViewmakerNetwork(nn.Module):
    """A network for style transfer into which noise enters at four places.

    A 9 × 9 convolution and two strided ones lead to maps of a quarter of the side. A channel of
    noise joins the image at first, and one more the maps before each of three residual blocks.
    Nearest-neighbor upsampling and convolutions lead back. Edges are reflected, and normalization
    is within one image. Sides that are no multiple of 4 are rounded up on the way down and cut
    off on the way back.

    Arguments:
        in_channels: Channels of the image, and of what comes out.
        width: Multiplies the 32, 64 and 128 channels.

    References:
        | Viewmaker Networks: Learning Views for Unsupervised Representation Learning
        | (Tamkin et al., 2021)
        | https://arxiv.org/abs/2010.07432
        | Perceptual Losses for Real-Time Style Transfer and Super-Resolution
        | (Johnson et al., 2016)
        | https://arxiv.org/abs/1603.08155

    Example:
        >>> network = ViewmakerNetwork(width=0.25)
        >>> network.n_noise(height=8, width=8)  # 64 pixels, and three times 2 by 2
        76
        >>> network(torch.rand(2, 3, 8, 8), torch.rand(2, 76)).shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(self, in_channels: int = 3, *, width: float = 1.0) -> None:
        super().__init__()
        fine, middle, coarse = (max(1, round(c * width)) for c in CHANNELS)
        self.down = nn.ModuleList(
            [
                _layer(in_channels + 1, fine, kernel=9),
                _layer(fine, middle, kernel=3, stride=2),
                _layer(middle, coarse, kernel=3, stride=2),
            ]
        )
        self.blocks = nn.ModuleList([_Block(coarse + 1 + i) for i in range(N_BLOCKS)])
        self.up = nn.ModuleList(
            [
                _layer(coarse + N_BLOCKS, middle, kernel=3),
                _layer(middle, fine, kernel=3),
            ]
        )
        self.last = _convolution(fine, in_channels, kernel=9)

    @staticmethod
    def n_noise(*, height: int, width: int) -> int:
        """How many numbers of noise an image of this size takes."""
        return height * width + N_BLOCKS * ceil(height / 4) * ceil(width / 4)

    @override
    def forward(self, x: Images, noise: Rows) -> Images:
        sizes = []
        first, *others = self._noise_maps(noise, height=x.shape[-2], width=x.shape[-1])
        maps = torch.cat([x, first], dim=1)
        for layer in self.down:
            maps = layer(maps)
            sizes.append(maps.shape[-2:])
        for block, more in zip(self.blocks, others, strict=True):
            maps = block(torch.cat([maps, more], dim=1))
        for layer, (height, width) in zip(self.up, reversed(sizes[:-1]), strict=True):
            maps = F.interpolate(maps, scale_factor=2, mode="nearest")[..., :height, :width]
            maps = layer(maps)
        return self.last(maps)

    @staticmethod
    def _noise_maps(noise: Rows, *, height: int, width: int) -> list[Float[Tensor, "batch 1 _ _"]]:
        sizes = [(height, width), *[(ceil(height / 4), ceil(width / 4))] * N_BLOCKS]
        parts = noise.split([h * w for h, w in sizes], dim=-1)
        return [part.unflatten(-1, (1, *size)) for part, size in zip(parts, sizes, strict=True)]


class _Block(nn.Module):
    """Two 3 × 3 convolutions beside a shortcut; nothing follows the sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *_layer(channels, channels, kernel=3),
            _convolution(channels, channels, kernel=3),
            nn.InstanceNorm2d(channels, affine=True),
        )

    @override
    def forward(self, x: Maps) -> Maps:
        return x + self.residual(x)


def _convolution(before: int, after: int, *, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, kernel, stride, padding=kernel // 2, padding_mode="reflect")


def _layer(before: int, after: int, *, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        _convolution(before, after, kernel=kernel, stride=stride),
        nn.InstanceNorm2d(after, affine=True),
        nn.ReLU(),
    )
