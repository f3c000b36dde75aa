"""Feature networks for φ by name, and what is asked of a network that a user brings."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks.preact import PreActTrunk
from instaaug.registry import Registry

__all__ = ["NETWORKS", "FeatureNetwork", "feature_channels", "make_network"]

FeatureNetwork = nn.Module
"""Any module that maps ``(B, C, H, W)`` to a list of feature maps, finest first."""

NETWORKS: Registry[Callable[..., FeatureNetwork]] = Registry("network")


@NETWORKS.register("glance")
def glance(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """The default: looks at no more than 32 × 32 pixels; two stages, 8 and 32 channels.

    Units of its maps, 16 × 16 and 8 × 8, see 11 and 23 of the 32 pixels: the paper's boxes.
    """
    channels = [max(1, round(c * width)) for c in (8, 32)]
    return PreActTrunk(in_channels, channels=channels, strides=(1, 2), side=32)


@NETWORKS.register("pyramid")
def pyramid(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """Looks at every pixel: a stride-2 stem and three stages, 8, 16 and 32 channels."""
    channels = [max(1, round(c * width)) for c in (8, 16, 32)]
    return PreActTrunk(in_channels, channels=channels)


@NETWORKS.register("preact_resnet18")
def preact_resnet18(in_channels: int, *, width: float = 1.0) -> FeatureNetwork:
    """The base that the paper's appendix names, with GroupNorm."""
    channels = [max(1, round(64 * width)) * 2**i for i in range(4)]
    return PreActTrunk(in_channels, channels=channels, strides=(1, 2, 2, 2), n_blocks=2)


def make_network(name: str, *, in_channels: int, width: float) -> FeatureNetwork:
    """Build a registered network."""
    return NETWORKS[name](in_channels, width=width)


def feature_channels(network: FeatureNetwork, *, in_channels: int) -> tuple[int, ...]:
    """Channels of each map, as the network says or as a blank image shows."""
    declared = getattr(network, "out_channels", None)
    if isinstance(declared, list | tuple):  # a single number is some layer's own affair
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
