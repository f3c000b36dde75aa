"""Images to feature maps: named networks for φ, and the requirements on a user's own."""

import copy
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError, ShapeError
from instaaug.registry import Registry
from instaaug.shapes import Images, Maps, Rendered

__all__ = [
    "NETWORKS",
    "BasicCNN",
    "EnvelopeTrunk",
    "FeatureNetwork",
    "PreActBlock",
    "PreActResNet18",
    "PreActTrunk",
    "downsample",
    "feature_channels",
    "group_norm",
    "make_network",
]

Norm = Callable[[int], nn.Module]
TINY = 1e-12


def group_norm(channels: int) -> nn.Module:
    """Normalization within one image: the same in training and evaluation, whatever the batch."""
    groups = max(g for g in (1, 2, 4, 8) if (channels % g == 0 and channels // g >= 2) or g == 1)
    return nn.GroupNorm(groups, channels)


def downsample(x: Images, side: int) -> Rendered:
    """``x`` averaged down until its smaller side has ``side`` pixels; as it is if it has fewer.

    Planes, whatever the memory order of ``x``: on these, GroupNorm is five times as fast.

    Example:
        >>> downsample(torch.zeros(1, 3, 64, 96), 32).shape
        torch.Size([1, 3, 32, 48])
    """
    height, width = x.shape[-2:]
    share = side / min(height, width)
    if share >= 1:
        return x.contiguous()
    return F.adaptive_avg_pool2d(x, (round(height * share), round(width * share))).contiguous()


class PreActBlock(nn.Module):
    """Two 3 × 3 convolutions, each after normalization and ReLU, beside a shortcut.

    References:
        | Identity Mappings in Deep Residual Networks (He et al., 2016)
        | https://arxiv.org/abs/1603.05027
    """

    def __init__(self, in_channels: int, out_channels: int, *, stride: int, norm: Norm) -> None:
        super().__init__()
        self.norm1 = norm(in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm2 = norm(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.shortcut: nn.Module | None = None
        self.stride = stride
        if stride != 1 or in_channels != out_channels:
            self.shortcut = nn.Conv2d(in_channels, out_channels, 1, bias=False)

    @override
    def forward(self, x: Maps) -> Maps:
        out = F.relu(self.norm1(x), inplace=True)
        past = x
        if self.shortcut is not None:
            # A strided 1 × 1 convolution would do; its backward pass corrupts memory in torch
            # 2.13 on processors, for fewer than 8 channels in channels-last order.
            past = self.shortcut(out[:, :, :: self.stride, :: self.stride])
        out = self.conv1(out)
        return past + self.conv2(F.relu(self.norm2(out), inplace=True))


class PreActTrunk(nn.Module):
    """A stem and stages of pre-activation blocks; returns the map of every stage, finest first.

    Arguments:
        in_channels: Channels of the image.
        channels: Channels of each stage.
        strides: Stride of each stage.
        n_blocks: Blocks per stage.
        stem_stride: Stride of the first convolution.
        side: Pixels of the smaller side that larger images are averaged down to first.
        norm: Makes a normalization layer for a number of channels. GroupNorm by default: with
            BatchNorm, what φ says in evaluation had nothing to do with what it said in training.

    Example:
        >>> [tuple(m.shape[1:]) for m in PreActTrunk()(torch.zeros(1, 3, 64, 64))]
        [(8, 32, 32), (16, 16, 16), (32, 8, 8)]
    """

    def __init__(
        self,
        in_channels: int = 3,
        *,
        channels: Sequence[int] = (8, 16, 32),
        strides: Sequence[int] = (1, 2, 2),
        n_blocks: int = 1,
        stem_stride: int = 2,
        side: int | None = None,
        norm: Norm = group_norm,
    ) -> None:
        super().__init__()
        self.out_channels, self.side = tuple(channels), side
        self.stem = nn.Conv2d(in_channels, channels[0], 3, stem_stride, padding=1, bias=False)
        stages: list[nn.Module] = []
        previous = channels[0]
        for width, stride in zip(channels, strides, strict=True):
            blocks = [PreActBlock(previous, width, stride=stride, norm=norm)]
            blocks += [PreActBlock(width, width, stride=1, norm=norm) for _ in range(n_blocks - 1)]
            stages.append(nn.Sequential(*blocks))
            previous = width
        self.stages = nn.ModuleList(stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    @override
    def forward(self, x: Images) -> list[Maps]:
        x = self.stem(x if self.side is None else downsample(x, self.side))
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return maps


class EnvelopeTrunk(nn.Module):
    """Mean and spread of stretches of a signal, followed by a trunk; returns the trunk's maps.

    The spread keeps what a mean over a stretch of sound would lose.

    Arguments:
        in_channels: Channels of the signal, an image of one row.
        length: How many stretches a longer signal is divided into.
        channels: Channels of each of the trunk's stages.
        strides: Stride of each of its stages.

    Example:
        >>> [tuple(m.shape[1:]) for m in EnvelopeTrunk(6)(torch.zeros(2, 6, 1, 4000))]
        [(8, 1, 64), (32, 1, 32)]
    """

    def __init__(
        self,
        in_channels: int,
        *,
        length: int = 128,
        channels: Sequence[int] = (8, 32),
        strides: Sequence[int] = (1, 2),
    ) -> None:
        super().__init__()
        self.length, self.out_channels = length, tuple(channels)
        self.trunk = PreActTrunk(2 * in_channels, channels=channels, strides=strides)

    @override
    def forward(self, x: Images) -> list[Maps]:
        size = (1, min(x.shape[-1], self.length))
        mean, square = (F.adaptive_avg_pool2d(v, size) for v in (x, x.square()))
        spread = (square - mean.square()).clamp(min=TINY).sqrt()  # whose slope is finite
        return list(self.trunk(torch.cat([mean, spread], dim=1)))


class BasicCNN(nn.Module):
    """2 × 2 convolutions, each followed by 2 × 2 max pooling; returns every pooled map.

    Nothing is padded or normalized, and pooling is the only nonlinearity: the network of Algorithm
    1 of the paper. The unit at row i, column j of map l sees 2 ** (l + 2) - 1 pixels a side.

    Arguments:
        in_channels: Channels of the image.
        channels: Channels of each map.

    References:
        | Learning Instance-Specific Augmentations by Capturing Local Invariances
        | (Miao et al., 2023), Algorithm 1
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> [tuple(m.shape[1:]) for m in BasicCNN(channels=(8, 16))(torch.zeros(1, 3, 64, 64))]
        [(8, 31, 31), (16, 15, 15)]
    """

    def __init__(self, in_channels: int = 3, *, channels: Sequence[int]) -> None:
        super().__init__()
        self.out_channels = tuple(channels)
        before = (in_channels, *channels)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(n, m, 2), nn.MaxPool2d(2))
            for n, m in zip(before, channels, strict=False)
        )

    @override
    def forward(self, x: Images) -> list[Maps]:
        least = 2 ** (len(self.layers) + 1) - 1
        if min(x.shape[-2:]) < least:
            raise ShapeError(
                f"`x` must have at least {least} × {least} pixels for {len(self.layers)} "
                f"convolutions without padding: got {tuple(x.shape[-2:])}. Choose another network."
            )
        maps = []
        for layer in self.layers:
            x = layer(x)
            maps.append(x)
        return maps


class PreActResNet18(nn.Module):
    """PreActResNet-18, the paper's classifier; ``width=1`` has 64 channels in the first stage.

    Arguments:
        num_classes: Number of outputs.
        width: Multiplies all channels: 0.25 costs a sixteenth.
        in_channels: Channels of the image.
        stem_stride: 1 for images of 32 pixels, 2 for 64 and more.

    Example:
        >>> PreActResNet18(10, width=0.125)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self, num_classes: int, *, width: float = 1.0, in_channels: int = 3, stem_stride: int = 1
    ) -> None:
        super().__init__()
        channels = [max(1, round(64 * width)) * 2**i for i in range(4)]
        self.trunk = PreActTrunk(
            in_channels,
            channels=channels,
            strides=(1, 2, 2, 2),
            n_blocks=2,
            stem_stride=stem_stride,
            norm=nn.BatchNorm2d,
        )
        self.norm = nn.BatchNorm2d(channels[-1])
        self.head = nn.Linear(channels[-1], num_classes)

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch classes"]:
        out = F.relu(self.norm(self.trunk(x)[-1]), inplace=True)
        return self.head(out.mean(dim=(2, 3)))


FeatureNetwork = nn.Module
"""Any module that maps ``(B, C, H, W)`` to a list of feature maps, finest first."""

NETWORKS: Registry[Callable[..., FeatureNetwork]] = Registry("network")


@NETWORKS.register("glance")
def glance(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """The default: reads images at 32 × 32 pixels at most; two stages, 8 and 32 channels.

    Units of its maps, 16 × 16 and 8 × 8, see 11 and 23 of the 32 pixels: the paper's boxes.
    """
    channels = [max(1, round(c * width)) for c in (8, 32)]
    return PreActTrunk(in_channels, channels=channels, strides=(1, 2), side=32)


@NETWORKS.register("envelope")
def envelope(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """For signals, images of one row: mean and spread of 128 stretches; 8 and 32 channels."""
    return EnvelopeTrunk(in_channels, channels=[max(1, round(c * width)) for c in (8, 32)])


@NETWORKS.register("pyramid")
def pyramid(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """Looks at every pixel: a stride-2 stem and three stages, 8, 16 and 32 channels."""
    channels = [max(1, round(c * width)) for c in (8, 16, 32)]
    return PreActTrunk(in_channels, channels=channels)


@NETWORKS.register("preact_resnet18")
def preact_resnet18(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """The base that the paper's appendix names, with GroupNorm."""
    return _resnet18_trunk(in_channels, width, group_norm)


@NETWORKS.register("preact_resnet18_bn")
def preact_resnet18_bn(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """The same with BatchNorm, as published.

    In evaluation BatchNorm multiplies and adds constants, so that a unit depends on the pixels of
    its receptive field and on no others; GroupNorm lets it depend on all, by mean and variance.
    """
    return _resnet18_trunk(in_channels, width, nn.BatchNorm2d)


def _resnet18_trunk(in_channels: int, width: float, norm: Norm) -> PreActTrunk:
    channels = [max(1, round(64 * width)) * 2**i for i in range(4)]
    return PreActTrunk(in_channels, channels=channels, strides=(1, 2, 2, 2), n_blocks=2, norm=norm)


@NETWORKS.register("basic_cnn")
def basic_cnn(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """Algorithm 1 of the paper: 2 × 2 convolutions and pooling; 16, 32, 64 and 128 channels.

    Its units see 3, 7, 15 and 31 pixels. The paper leaves the number of layers and of channels
    open.
    """
    return BasicCNN(in_channels, channels=[max(1, round(c * width)) for c in (16, 32, 64, 128)])


def make_network(name: str, *, in_channels: int, width: float) -> FeatureNetwork:
    """Build a registered network."""
    return NETWORKS[name](in_channels, width=width)


def feature_channels(network: FeatureNetwork, *, in_channels: int) -> tuple[int, ...]:
    """Channels of each map, as the network says or as a blank image shows."""
    declared = getattr(network, "out_channels", None)
    if isinstance(declared, list | tuple):  # a single number belongs to some layer
        return tuple(declared)
    reference = next(network.parameters(), torch.zeros(1))
    with torch.no_grad():
        maps = copy.deepcopy(network).eval()(reference.new_zeros(1, in_channels, 64, 64))
    if not (
        isinstance(maps, list | tuple)
        and maps
        and all(isinstance(m, Tensor) and m.ndim == 4 for m in maps)
    ):
        raise ArgumentError(
            "`network` must return a list of feature maps (B, C, H, W), finest first: got "
            f"{type(maps).__name__}. Wrap it so that forward returns [maps]."
        )
    return tuple(m.shape[1] for m in maps)
