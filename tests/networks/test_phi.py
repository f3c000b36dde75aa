"""What is asked of a network that gives feature maps."""

import pytest
import torch
from torch import nn

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.networks import NETWORKS, feature_channels, make_network
from tests.support.feature_networks import Chain, OneMap

NOT_A_LIST = r"`network` must return a list of feature maps \(B, C, H, W\), finest first: got "


def test_three_networks_are_registered() -> None:
    assert list(NETWORKS) == ["glance", "preact_resnet18", "pyramid"]


@pytest.mark.parametrize("side", [32, 48, 64, 224])
def test_a_glance_costs_the_same_whatever_the_image(side: int) -> None:
    maps = make_network("glance", in_channels=3, width=1.0)(torch.rand(1, 3, side, side))
    assert [tuple(m.shape[1:]) for m in maps] == [(8, 16, 16), (32, 8, 8)]


def test_a_glance_sees_the_same_in_an_image_and_in_its_enlargement() -> None:
    network = make_network("glance", in_channels=3, width=1.0)
    x = torch.rand(2, 3, 32, 40)
    larger = x.repeat_interleave(3, dim=2).repeat_interleave(3, dim=3)
    for one, other in zip(network(x), network(larger), strict=True):
        torch.testing.assert_close(one, other)


def test_an_unknown_network_gets_a_suggestion() -> None:
    match = r"There is no network called 'pyramd'\. Did you mean 'pyramid'\?"
    with pytest.raises(UnknownNameError, match=match):
        make_network("pyramd", in_channels=3, width=1.0)


@pytest.mark.parametrize("declared", [(5, 7), [5, 7]], ids=["tuple", "list"])
def test_declared_channels_are_believed(declared: list[int] | tuple[int, ...]) -> None:
    network = Chain(nn.Identity())
    network.out_channels = declared  # type: ignore[assignment]
    assert feature_channels(network, in_channels=3) == (5, 7)


@pytest.mark.parametrize("in_channels", [1, 3])
def test_channels_that_are_not_declared_are_measured(in_channels: int) -> None:
    network = Chain(nn.Conv2d(in_channels, 5, 3), nn.Conv2d(5, 7, 3))
    assert feature_channels(network, in_channels=in_channels) == (5, 7)


def test_a_network_without_parameters_is_measured_too() -> None:
    assert feature_channels(Chain(nn.MaxPool2d(2)), in_channels=3) == (3,)


def test_a_network_in_double_precision_is_measured_too() -> None:
    assert feature_channels(Chain(nn.Conv2d(3, 5, 3)).double(), in_channels=3) == (5,)


def test_measuring_leaves_modes_and_statistics_alone() -> None:
    frozen, awake = nn.BatchNorm2d(5).eval(), nn.BatchNorm2d(5)
    network = Chain(nn.Conv2d(3, 5, 3), awake, frozen)
    frozen.eval()
    feature_channels(network, in_channels=3)
    assert (awake.training, frozen.training) == (True, False)
    assert awake.num_batches_tracked is not None
    assert int(awake.num_batches_tracked) == 0


@pytest.mark.parametrize(
    ("network", "got"),
    [
        (OneMap(), "Tensor"),
        (nn.Conv2d(3, 8, 3), "Tensor"),  # declares `out_channels`, but means something else
        (Chain(), "list"),
        (Chain(nn.Flatten()), "list"),
    ],
    ids=["one_map", "convolution", "no_map", "flat_map"],
)
def test_what_is_not_a_list_of_maps_is_refused(network: nn.Module, got: str) -> None:
    with pytest.raises(ArgumentError, match=NOT_A_LIST + got):
        feature_channels(network, in_channels=3)
