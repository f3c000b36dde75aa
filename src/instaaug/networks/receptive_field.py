"""What a unit of a feature map can see, measured on the network itself."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

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
    network: nn.Module, image_size: tuple[int, int], *, in_channels: int = 3
) -> list[tuple[ReceptiveField, ReceptiveField]]:
    """The receptive fields (vertical, horizontal) of every map that ``network`` returns.

    Nothing is assumed of the architecture but that it is built of convolutions and pooling: a
    copy whose normalizations and activations pass everything on and whose weights are all
    positive is asked, by one gradient per map, which pixels reach a unit. Kernels, strides,
    paddings and shortcuts are thereby those of the network.

    Arguments:
        network: Returns a list of maps.
        image_size: (height, width) of the images it will see.
        in_channels: Channels of the images.
    """
    probe = _linear_copy(network)
    with torch.no_grad():
        maps = probe(torch.zeros(1, in_channels, *image_size, dtype=torch.float64))
    return [
        (
            _field_along(probe, layer, 0, image_size, in_channels),
            _field_along(probe, layer, 1, image_size, in_channels),
        )
        for layer in range(len(maps))
    ]


def _field_along(
    probe: nn.Module, layer: int, axis: int, image_size: tuple[int, int], in_channels: int
) -> ReceptiveField:
    canvas_side = 512
    while True:
        size = [1, in_channels, 32, 32]
        size[2 + axis] = canvas_side
        x = torch.zeros(size, dtype=torch.float64, requires_grad=True)
        out = probe(x)[layer]
        middle = out.shape[2 + axis] // 2
        spans = [_span_of_unit(out, x, axis, unit) for unit in (middle, middle + 1)]
        (start, stop), (next_start, next_stop) = spans
        if start > 0 and next_stop < canvas_side:
            break
        canvas_side *= 2
        if canvas_side > 1 << 14:
            raise ArgumentError(
                "`layers` must name maps whose units see a part of the image: units of map "
                f"{layer} see everything. Use an explicit CropGrid for global layers."
            )
    stride = next_start - start
    with torch.no_grad():
        real = probe(torch.zeros(1, in_channels, *image_size, dtype=torch.float64))[layer]
    first_center = (start + stop) / 2 - middle * stride
    return ReceptiveField(stop - start, stride, first_center, real.shape[2 + axis])


def _span_of_unit(out: Tensor, x: Tensor, axis: int, unit: int) -> tuple[int, int]:
    row = out.select(2 + axis, unit).sum()
    (gradient,) = torch.autograd.grad(row, x, retain_graph=True)
    seen = gradient.abs().sum(dim=(0, 1, 3 - axis)).nonzero().flatten()
    return int(seen[0]), int(seen[-1]) + 1


def _linear_copy(network: nn.Module) -> nn.Module:
    probe = copy.deepcopy(network).double().eval()
    for parent in list(probe.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, (*NORMALIZATIONS, *ACTIVATIONS)):
                setattr(parent, name, nn.Identity())
            elif isinstance(child, nn.MaxPool2d):
                stride = child.stride
                pool = nn.AvgPool2d(child.kernel_size, stride, child.padding, child.ceil_mode)
                setattr(parent, name, pool)
    with torch.no_grad():
        for parameter in probe.parameters():
            fan_in = max(1, parameter[0].numel()) if parameter.ndim > 1 else 1
            parameter.fill_(1.0 / fan_in)
    return probe
