"""Viewmaker: views that a network makes as hard as a budget of distortion allows."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.color import Normalization
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Maps, Rendered, Rows, at_least_float32, check_images

__all__ = ["Viewmaker", "ViewmakerNetwork"]


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


WIDEST = 64
SMALLEST_SIDE = 8
LARGEST_EPS = 1.0


@METHODS.register("viewmaker")
class Viewmaker(SimpleAugmenter):
    r"""Adds to every image what a network g makes of it and of noise, to maximize the loss.

    .. math:: \tilde x = \mathrm{clip}(x + \delta,\, 0,\, 1), \qquad
              \delta = \frac{\varepsilon\,t}{\mathrm{mean}|t|}, \qquad t = \tanh g(x, \theta)

    with pixels in [0, 1] and the mean over all pixels and channels of an image: before it is
    clipped, a view is ε away from its image on average. θ is the noise, all of it, uniform on
    (0, 1); a view is a function of image and θ alone.

    The model minimizes and g maximizes the same loss. The source does so in turns, with two
    passes per batch, the second of which sees the step of the first. Here one pass serves both:
    the gradient changes its sign where it enters g, so that an optimizer that descends moves the
    model down and g up, at the same time. The objective is the mean loss.

    Arguments:
        eps: ε, the budget of distortion.
        width: Multiplies the channels of g; at 1 it costs more than most models of small images.
        in_channels: Channels of the images.
        mean: Per-channel mean the images were normalized with; g sees them without.
        std: Per-channel standard deviation the images were normalized with.

    References:
        | Viewmaker Networks: Learning Views for Unsupervised Representation Learning
        | (Tamkin et al., 2021)
        | https://arxiv.org/abs/2010.07432

    Example:
        >>> aug, x = Viewmaker(width=0.25), torch.full((2, 3, 16, 16), 0.5)
        >>> views = aug(x, n_samples=4).inputs.detach()
        >>> (views - x[:1]).abs().mean(dim=(1, 2, 3))
        tensor([0.0500, 0.0500, 0.0500, 0.0500, 0.0500, 0.0500, 0.0500, 0.0500])
    """

    learns_from_training_loss = True
    own_options = frozenset({"width"})

    def __init__(
        self,
        *,
        eps: float = 0.05,
        width: float = 1.0,
        in_channels: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if not 0 < eps <= LARGEST_EPS:
            raise ArgumentError(
                f"`eps` must lie in (0, {LARGEST_EPS:g}], for pixels lie in [0, 1]: got {eps}. "
                "0.05 is usual."
            )
        if in_channels < 1 or not 0 < width <= WIDEST:
            raise ArgumentError(
                f"`in_channels` must be at least 1 and `width` lie in (0, {WIDEST}]: got "
                f"{in_channels} and {width}. Color images have 3 channels."
            )
        self.eps, self.in_channels = float(eps), in_channels
        self.normalization = Normalization(mean, std)
        self.network = ViewmakerNetwork(in_channels, width=width)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        shape = (n_samples, len(x), self._n_noise(x))
        return torch.rand(shape, generator=generator, device=x.device)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        pixels = self.normalization.denormalize(x)
        delta = self.distortion(pixels, theta).to(x.dtype)
        return self.normalization.normalize((pixels + delta).clamp(0, 1))

    def distortion(self, pixels: Images, theta: Float[Tensor, "batch d"]) -> Images:
        """δ of images in [0, 1]; its gradient is reversed."""
        check_images(pixels, channels=self.in_channels)
        n_noise = self._n_noise(pixels)
        if theta.shape != (len(pixels), n_noise):
            raise ShapeError(
                f"`theta` must hold {n_noise} numbers of noise for each of {len(pixels)} images: "
                f"got shape {tuple(theta.shape)}. Draw it for images of this size."
            )
        weight = self.network.last.weight
        made = self.network(pixels.to(weight.dtype), theta.to(weight.dtype))
        direction = at_least_float32(_reverse_gradient(made)).tanh()
        size = direction.abs().mean(dim=(1, 2, 3), keepdim=True)
        # An output of zeros, as of weights that are all zero, has no direction.
        return direction * (self.eps / size.masked_fill(size == 0, 1))

    def _n_noise(self, x: Images) -> int:
        height, width = x.shape[-2:]
        if min(height, width) < SMALLEST_SIDE:
            raise ShapeError(
                f"`x` must have sides of at least {SMALLEST_SIDE} pixels for the viewmaker: got "
                f"{height} by {width}. Enlarge the images."
            )
        return self.network.n_noise(height=height, width=width)

    @override
    def extra_repr(self) -> str:
        return f"eps {self.eps:g}"


class _GradientReversal(torch.autograd.Function):
    """The identity, whose gradient has the other sign."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient


def _reverse_gradient(x: Tensor) -> Tensor:
    return _GradientReversal.apply(x)  # type: ignore[no-untyped-call]
