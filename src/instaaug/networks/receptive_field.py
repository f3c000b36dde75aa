"""What a unit of a feature map can see, measured on the network itself."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from instaaug.errors import ArgumentError

__all__ = ["ReceptiveField", "receptive_fields"]

NORMALIZATIONS = (
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.InstanceNorm2d,
    nn.SyncBatchNorm,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.Dropout,
    nn.Dropout2d,
)
ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Hardswish)
LARGEST_CANVAS = 1 << 12


@dataclass(frozen=True)
class ReceptiveField:
    """The pixels that units of one map see along one axis, in pixels of the input.

    Arguments:
        size: How many pixels a unit sees.
        stride: How far apart neighbors look.
        first_center: The middle of what unit 0 sees; pixel i spans [i, i + 1].
        n_units: Units along this axis.
    """

    size: int
    stride: int
    first_center: float
    n_units: int

    def center(self, index: int) -> float:
        """The middle of what unit ``index`` sees."""
        return self.first_center + index * self.stride


def receptive_fields(
    network: nn.Module,
    image_size: tuple[int, int],
    *,
    in_channels: int = 3,
    layers: Sequence[int] | None = None,
) -> list[tuple[ReceptiveField, ReceptiveField]]:
    """The receptive fields (vertical, horizontal) of the maps that ``network`` returns.

    Nothing is assumed of the architecture but that it is built of convolutions and pooling: a
    copy whose normalizations and activations pass everything on and whose weights are all
    positive is asked, by one gradient per map, which pixels reach a unit. Kernels, strides,
    paddings and shortcuts are thereby those of the network.

    Arguments:
        network: Returns a list of maps.
        image_size: (height, width) of the images it will see.
        in_channels: Channels of the images.
        layers: Which maps to look at, numbered from 0; all by default.
    """
    probe = _linear_copy(network)
    with torch.no_grad():
        maps = probe(torch.zeros(1, in_channels, *image_size, dtype=torch.float64))
    fields = []
    for layer in range(len(maps)) if layers is None else layers:
        if not 0 <= layer < len(maps):
            raise ArgumentError(
                f"`layers` must name maps of the network: got {layer}, but it returns "
                f"{len(maps)} maps, numbered from 0, finest first."
            )
        n_units = maps[layer].shape[2:]
        vertical, horizontal = (
            _field_along(probe, layer, axis, image_size, in_channels, n_units[axis])
            for axis in (0, 1)
        )
        fields.append((vertical, horizontal))
    return fields


def _field_along(
    probe: nn.Module,
    layer: int,
    axis: int,
    image_size: tuple[int, int],
    in_channels: int,
    n_units: int,
) -> ReceptiveField:
    side = image_size[axis]
    across = min(image_size[1 - axis], 64)
    canvas_side = max(512, 2 * side)
    while canvas_side <= max(LARGEST_CANVAS, 2 * side):
        size = [1, in_channels, across, across]
        size[2 + axis] = canvas_side
        # Ones, not zeros: a rectifier passes no gradient at zero.
        x = torch.ones(size, dtype=torch.float64, requires_grad=True)
        with _MeanForMax():
            out = probe(x)[layer]
        n_on_canvas = out.shape[2 + axis]
        middle = n_on_canvas // 2
        if middle + 1 >= n_on_canvas:
            break
        start, stop = _span_of_unit(out, x, axis, middle)
        next_start, next_stop = _span_of_unit(out, x, axis, middle + 1)
        if start > 0 and next_stop < canvas_side:
            stride = next_start - start
            # Adaptive pooling is recognized by its number of units, the same on a larger image.
            if abs(n_on_canvas - n_units - (canvas_side - side) / stride) > 2:
                break
            return ReceptiveField(
                stop - start, stride, (start + stop) / 2 - middle * stride, n_units
            )
        canvas_side *= 2
    raise ArgumentError(
        "`layers` must name maps whose units see a part of the image: units of map "
        f"{layer} see everything, or a part that depends on the image's size. Use an explicit "
        "CropGrid, or a network that resizes nothing, such as pyramid or preact_resnet18_bn."
    )


def _span_of_unit(out: Tensor, x: Tensor, axis: int, unit: int) -> tuple[int, int]:
    row = out.select(2 + axis, unit).sum()
    (gradient,) = torch.autograd.grad(row, x, retain_graph=True)
    seen = gradient.abs().sum(dim=(0, 1, 3 - axis)).nonzero().flatten()
    return int(seen[0]), int(seen[-1]) + 1


def _linear_copy(network: nn.Module) -> nn.Module:
    probe = copy.deepcopy(network).cpu().double().eval()
    for parent in list(probe.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, (*NORMALIZATIONS, *ACTIVATIONS)):
                setattr(parent, name, nn.Identity())
    with torch.no_grad():
        for parameter in probe.parameters():
            fan_in = max(1, parameter[0].numel()) if parameter.ndim > 1 else 1
            parameter.fill_(1.0 / fan_in)
    return probe


class _MeanForMax(TorchFunctionMode):
    """While active, max pooling is a mean over the same pixels, each of which gets a gradient."""

    @override
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        pool = _mean_pool if func is F.max_pool2d else func
        return pool(*args, **(kwargs or {}))


def _mean_pool(
    x: Tensor,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    **_: Any,
) -> Tensor:
    kernel = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
    channels = x.shape[1]
    weight = x.new_full((channels, 1, *kernel), 1 / prod(kernel))
    return F.conv2d(x, weight, None, stride or kernel, padding, dilation, groups=channels)
