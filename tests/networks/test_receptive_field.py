"""What units see, measured, against the hand formula."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks import PreActTrunk, ReceptiveField, make_network, receptive_fields
from tests.support.feature_networks import Chain

Step = tuple[int, int, int, int]  # kernel, stride, padding, dilation


def by_hand(steps: list[Step], n_pixels: int) -> ReceptiveField:
    """The recurrence of the textbooks: each layer adds (k - 1)·d jumps, and moves the start."""
    size, jump, start, n = 1, 1, 0.0, n_pixels
    for kernel, stride, padding, dilation in steps:
        reach = (kernel - 1) * dilation
        n = (n + 2 * padding - reach - 1) // stride + 1
        size += reach * jump
        start -= padding * jump
        jump *= stride
    return ReceptiveField(size, jump, start + size / 2, n)


def convolution(before: int, step: Step, bias: bool = True) -> nn.Module:
    kernel, stride, padding, dilation = step
    return nn.Conv2d(before, 4, kernel, stride, padding, dilation, bias=bias)


def pool(step: Step) -> nn.Module:
    kernel, stride, padding, dilation = step
    return nn.MaxPool2d(kernel, stride, padding, dilation)


class FunctionalPool(nn.Module):
    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step

    @override
    def forward(self, x: Tensor) -> Tensor:
        kernel, stride, padding, dilation = self.step
        return F.max_pool2d(F.relu(x), kernel, stride, padding, dilation)


CHAINS: dict[str, list[tuple[str, Step]]] = {
    "plain": [("conv", (3, 1, 1, 1)), ("conv", (5, 2, 2, 1)), ("conv", (3, 2, 1, 1))],
    "even_kernels": [("conv", (4, 2, 1, 1)), ("conv", (2, 2, 0, 1))],
    "no_padding": [("conv", (7, 2, 0, 1)), ("conv", (5, 1, 0, 1)), ("conv", (3, 2, 0, 1))],
    "much_without_padding": [("conv", (9, 2, 0, 1)), ("conv", (15, 1, 0, 1))],
    "dilated": [("conv", (3, 1, 2, 2)), ("conv", (3, 2, 4, 4))],
    "without_bias": [("conv_without_bias", (3, 2, 1, 1)), ("conv_without_bias", (3, 2, 1, 1))],
    "max_pool": [("conv", (3, 1, 1, 1)), ("pool", (2, 2, 0, 1)), ("pool", (3, 2, 1, 1))],
    "dilated_max_pool": [("pool", (3, 2, 1, 2)), ("conv", (3, 1, 1, 1))],
    "functional_max_pool": [("conv", (3, 1, 1, 1)), ("functional_pool", (4, 4, 0, 1))],
    "mean_pool": [("conv", (3, 1, 1, 1)), ("mean_pool", (3, 3, 0, 1))],
    "patches": [("conv", (8, 8, 0, 1)), ("conv", (1, 1, 0, 1))],
    "wide": [("conv", (31, 4, 15, 1)), ("conv", (31, 4, 15, 1))],
}


def chain(steps: list[tuple[str, Step]]) -> Chain:
    layers = []
    for index, (kind, step) in enumerate(steps):
        before = 3 if index == 0 else 4
        if kind == "pool" and index == 0:
            layers.append(nn.Sequential(convolution(3, (1, 1, 0, 1)), pool(step)))
        elif kind == "pool":
            layers.append(nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(), pool(step)))
        elif kind == "functional_pool":
            layers.append(nn.Sequential(FunctionalPool(step)))
        elif kind == "mean_pool":
            layers.append(nn.Sequential(nn.GELU(), nn.AvgPool2d(step[0], step[1])))
        else:
            layers.append(nn.Sequential(convolution(before, step, bias=kind == "conv")))
    return Chain(*layers)


@pytest.mark.parametrize("steps", CHAINS.values(), ids=CHAINS)
def test_fields_are_those_of_the_hand_formula(steps: list[tuple[str, Step]]) -> None:
    image_size = (50, 83)
    measured = receptive_fields(chain(steps), image_size)
    expected = [
        tuple(by_hand([step for _, step in steps[: last + 1]], side) for side in image_size)
        for last in range(len(steps))
    ]
    assert measured == expected


THREE_BY_THREE: Step = (3, 1, 1, 1)
STRIDED: Step = (3, 2, 1, 1)


@pytest.mark.parametrize("image_size", [(64, 64), (63, 100)], ids=str)
def test_the_pyramid_sees_what_the_formula_says(image_size: tuple[int, int]) -> None:
    stem, stage = [STRIDED], [THREE_BY_THREE, THREE_BY_THREE]
    halving = [STRIDED, THREE_BY_THREE]
    paths = [stem + stage, stem + stage + halving, stem + stage + halving + halving]
    measured = receptive_fields(make_network("pyramid", in_channels=3, width=1.0), image_size)
    assert measured == [tuple(by_hand(path, side) for side in image_size) for path in paths]
    sizes = [(vertical.size, vertical.stride) for vertical, _ in measured]
    assert sizes == [(11, 2), (23, 4), (47, 8)]


def test_the_resnet_sees_what_the_formula_says() -> None:
    stage, halving = [THREE_BY_THREE] * 4, [STRIDED, *[THREE_BY_THREE] * 3]
    path, expected = [STRIDED, *stage], []
    for _ in range(4):
        field = by_hand(path, 64)
        expected.append((field, field))
        path = path + halving
    network = make_network("preact_resnet18", in_channels=3, width=0.0625)
    assert receptive_fields(network, (64, 64)) == expected
    assert [v.size for v, _ in expected] == [19, 47, 103, 215]


@pytest.mark.parametrize("index", [0, 1, 7])
def test_centers_are_a_stride_apart(index: int) -> None:
    assert ReceptiveField(23, 4, 0.5, 16).center(index) == 0.5 + 4 * index


def test_only_the_layers_that_were_asked_for_are_measured() -> None:
    network = Chain(nn.Conv2d(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1))
    (field,) = receptive_fields(network, (32, 32), layers=[0])
    assert field[0].size == 3


@pytest.mark.parametrize("in_channels", [1, 4])
def test_any_number_of_channels_will_do(in_channels: int) -> None:
    fields = receptive_fields(PreActTrunk(in_channels), (32, 32), in_channels=in_channels)
    assert [vertical.size for vertical, _ in fields] == [11, 23, 47]


def test_the_network_is_left_as_it_was() -> None:
    network = PreActTrunk()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    receptive_fields(network, (32, 32))
    assert network.training
    assert all(p.grad is None and p.dtype == torch.float32 for p in network.parameters())
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


class MeanAdded(nn.Module):
    """Every unit also hears the mean of all others."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return x + x.mean(dim=(2, 3), keepdim=True)


GLOBAL = {
    "one": nn.AdaptiveAvgPool2d(1),
    "two": nn.AdaptiveAvgPool2d(2),
    "four": nn.AdaptiveAvgPool2d(4),
    "eight": nn.AdaptiveAvgPool2d(8),
    "mean_added": MeanAdded(),
}


@pytest.mark.parametrize("layer", GLOBAL.values(), ids=GLOBAL)
def test_a_layer_that_sees_everything_is_refused(layer: nn.Module) -> None:
    network = Chain(nn.Conv2d(3, 4, 3, 2, 1), layer)
    match = (
        r"`layers` must name maps whose units see a part of the image: units of map 1 see every"
    )
    with pytest.raises(ArgumentError, match=match):
        receptive_fields(network, (64, 64))


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_map_that_is_not_there_is_refused(layer: int) -> None:
    network = Chain(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3))
    match = rf"`layers` must name maps of the network: got {layer}, but it returns 2 maps"
    with pytest.raises(ArgumentError, match=match):
        receptive_fields(network, (32, 32), layers=[layer])
