"""Networks that give feature maps: what is asked of them, and pre-activation residual trunks."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.networks import (
    NETWORKS,
    PreActResNet18,
    PreActTrunk,
    SmallCNN,
    feature_channels,
    make_network,
)
from instaaug.networks.feature_networks import PreActBlock, group_norm
from tests.support.feature_networks import Chain, OneMap

NOT_A_LIST = r"`network` must return a list of feature maps \(B, C, H, W\), finest first: got "


CHANNELS = {
    "basic_cnn": (16, 32, 64, 128),
    "envelope": (8, 32),
    "glance": (8, 32),
    "preact_resnet18": (64, 128, 256, 512),
    "preact_resnet18_bn": (64, 128, 256, 512),
    "pyramid": (8, 16, 32),
}


def test_six_networks_are_registered() -> None:
    assert list(NETWORKS) == list(CHANNELS)


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


each_network = pytest.mark.parametrize("name", sorted(NETWORKS))
each_without_batch_norm = pytest.mark.parametrize(
    "name", sorted(set(NETWORKS) - {"preact_resnet18_bn"})
)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@pytest.mark.parametrize("size", [(64, 64), (17, 40), (224, 96), (1, 1)], ids=str)
@pytest.mark.parametrize("stem_stride", [1, 2])
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_a_trunk_returns_a_map_per_stage_finest_first(
    size: tuple[int, int], stem_stride: int, n_blocks: int
) -> None:
    trunk = PreActTrunk(2, channels=(4, 6, 10), stem_stride=stem_stride, n_blocks=n_blocks)
    maps = trunk(torch.rand(3, 2, *size))
    strides = [stem_stride, 2 * stem_stride, 4 * stem_stride]
    expected = [
        (3, channels, ceil_div(size[0], stride), ceil_div(size[1], stride))
        for channels, stride in zip((4, 6, 10), strides, strict=True)
    ]
    assert [tuple(m.shape) for m in maps] == expected
    assert trunk.out_channels == (4, 6, 10)


@pytest.mark.parametrize(
    ("name", "channels", "strides"),
    [
        ("glance", (8, 32), (4, 8)),
        ("pyramid", (8, 16, 32), (2, 4, 8)),
        ("preact_resnet18", CHANNELS["preact_resnet18"], (2, 4, 8, 16)),
        ("preact_resnet18_bn", CHANNELS["preact_resnet18"], (2, 4, 8, 16)),
    ],
)
def test_the_registered_networks_are_those_of_the_design(
    name: str, channels: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    maps = make_network(name, in_channels=3, width=1.0)(torch.zeros(1, 3, 64, 64))
    assert tuple(m.shape[1] for m in maps) == channels
    assert tuple(64 // m.shape[2] for m in maps) == strides


@each_network
@pytest.mark.parametrize("width", [0.01, 0.25, 0.5, 1.5])
def test_width_multiplies_the_channels(name: str, width: float) -> None:
    network = make_network(name, in_channels=1, width=width)
    full = CHANNELS[name]
    channels = [m.shape[1] for m in network(torch.rand(2, 1, 32, 32))]
    assert channels[0] == max(1, round(width * full[0]))
    if width >= 0.25:
        assert channels == [round(width * c) for c in full]


@each_without_batch_norm
def test_no_network_for_phi_looks_at_the_batch(name: str) -> None:
    batch_dependent = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
    network = make_network(name, in_channels=3, width=0.25)
    assert not any(isinstance(module, batch_dependent) for module in network.modules())
    assert list(network.buffers()) == []


@each_without_batch_norm
def test_training_and_evaluation_are_the_same_to_the_last_bit(name: str) -> None:
    network = make_network(name, in_channels=3, width=0.25)
    x = torch.rand(4, 3, 32, 32)
    before = [m.clone() for m in network.train()(x)]
    after = network.eval()(x)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@each_without_batch_norm
def test_an_image_is_seen_alike_alone_and_in_company(name: str) -> None:
    network = make_network(name, in_channels=3, width=0.25)
    x = torch.rand(4, 3, 32, 32)
    torch.testing.assert_close(network(x)[-1][2:3], network(x[2:3])[-1], atol=1e-5, rtol=1e-5)


@each_network
def test_a_returned_map_is_not_written_over_by_the_next_stage(name: str) -> None:
    network = make_network(name, in_channels=3, width=0.25)
    maps = network(torch.randn(2, 3, 32, 32))
    assert all(bool((m < 0).any()) for m in maps)  # before the activation, so of either sign
    sum(m.sum() for m in maps).backward()
    assert all(p.grad is not None for p in network.parameters())


def test_the_basic_cnn_is_that_of_algorithm_1() -> None:
    network = make_network("basic_cnn", in_channels=3, width=1.0)
    x = torch.rand(2, 3, 64, 64)
    expected = x
    for layer, found in zip(network.layers, network(x), strict=True):  # type: ignore[arg-type]
        expected = F.max_pool2d(F.conv2d(expected, layer[0].weight, layer[0].bias), 2)
        torch.testing.assert_close(found, expected)
    assert [m.shape[2] for m in network(x)] == [31, 15, 7, 3]
    assert [m.shape[2] for m in network(x[..., :31, :31])] == [15, 7, 3, 1]


def test_the_basic_cnn_says_how_large_images_must_be() -> None:
    network = make_network("basic_cnn", in_channels=3, width=0.1)
    with pytest.raises(ShapeError, match=r"at least 31 × 31 pixels for 4 .*: got \(30, 64\)"):
        network(torch.rand(1, 3, 30, 64))


def test_batch_norm_in_evaluation_looks_at_no_other_image() -> None:
    network = make_network("preact_resnet18_bn", in_channels=3, width=0.125)
    x = torch.rand(4, 3, 32, 32)
    network.train()(x)
    network.eval()
    torch.testing.assert_close(network(x)[-1][2:3], network(x[2:3])[-1])


@pytest.mark.parametrize(
    ("channels", "groups"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (8, 4), (16, 8), (64, 8)]
)
def test_a_group_holds_at_least_two_channels_where_it_can(channels: int, groups: int) -> None:
    norm = group_norm(channels)
    assert isinstance(norm, nn.GroupNorm)
    assert norm.num_groups == groups


@pytest.mark.parametrize(
    ("before", "after", "stride", "has_shortcut"),
    [(8, 8, 1, False), (8, 16, 1, True), (8, 8, 2, True)],
)
def test_a_block_is_a_shortcut_plus_what_was_learned(
    before: int, after: int, stride: int, has_shortcut: bool
) -> None:
    block = PreActBlock(before, after, stride=stride, norm=group_norm)
    assert (block.shortcut is not None) is has_shortcut
    nn.init.zeros_(block.conv2.weight)
    x = torch.randn(2, before, 8, 8)
    past = x.clone()
    if block.shortcut is not None:
        past = block.shortcut(block.norm1(x).relu()[:, :, ::stride, ::stride])
    torch.testing.assert_close(block(x), past)


@pytest.mark.parametrize("channels", [2, 4, 7, 8])
def test_a_narrow_block_learns_in_channels_last_order(channels: int) -> None:
    """A strided 1 × 1 convolution would corrupt memory here, and the process with it."""
    block = PreActBlock(channels, 2 * channels, stride=2, norm=group_norm)
    block = block.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(16, channels, 32, 32).contiguous(memory_format=torch.channels_last)
    x.requires_grad_()  # without, torch's GroupNorm has a fault of its own
    for _ in range(3):
        block(x).square().mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in block.parameters() if p.grad is not None)


def preact_resnet18_parameters(num_classes: int, first: int, in_channels: int = 3) -> int:
    """Counted by hand: weights of the convolutions, two numbers per normalized channel, a head."""
    total = in_channels * first * 9
    before = first
    for stage in range(4):
        after = first * 2**stage
        total += before * after * 9 + 3 * after * after * 9  # four convolutions in two blocks
        total += before * after if stage > 0 else 0  # the 1 × 1 shortcut where the stride is 2
        total += 2 * before + 2 * after + 4 * after
        before = after
    return total + 2 * before + before * num_classes + num_classes


@pytest.mark.parametrize(
    ("num_classes", "width", "in_channels"), [(200, 1.0, 3), (10, 0.25, 3), (4, 0.0625, 1)]
)
def test_the_classifier_has_the_parameters_counted_by_hand(
    num_classes: int, width: float, in_channels: int
) -> None:
    model = PreActResNet18(num_classes, width=width, in_channels=in_channels)
    n_parameters = sum(p.numel() for p in model.parameters())
    assert n_parameters == preact_resnet18_parameters(num_classes, round(64 * width), in_channels)


def test_the_paper_classifier_has_eleven_million_parameters() -> None:
    # The widely copied PreActResNet18 for ten classes has 11,171,146 without a final BatchNorm.
    assert preact_resnet18_parameters(10, 64) - 2 * 512 == 11_171_146
    assert preact_resnet18_parameters(200, 64) == 11_269_640
    model = PreActResNet18(200)
    assert sum(p.numel() for p in model.parameters()) == 11_269_640


@pytest.mark.parametrize(("stem_stride", "side"), [(1, 32), (2, 16)])
def test_the_stem_may_halve_the_image(stem_stride: int, side: int) -> None:
    model = PreActResNet18(3, width=0.0625, stem_stride=stem_stride)
    maps = model.trunk(torch.zeros(1, 3, 32, 32))
    assert [m.shape[-1] for m in maps] == [side, side // 2, side // 4, side // 8]


@pytest.mark.parametrize("size", [(64, 64), (17, 40), (7, 3), (224, 96)], ids=str)
@pytest.mark.parametrize(
    "make",
    [lambda: PreActResNet18(5, width=0.0625), lambda: SmallCNN(5, channels=4)],
    ids=["preact_resnet18", "small_cnn"],
)
def test_a_classifier_takes_any_image_size(
    size: tuple[int, int], make: Callable[[], nn.Module]
) -> None:
    logits = make()(torch.rand(2, 3, *size))
    assert logits.shape == (2, 5)
    assert logits.isfinite().all()


def test_the_small_classifier_takes_gray_images() -> None:
    assert SmallCNN(2, in_channels=1)(torch.rand(3, 1, 28, 28)).shape == (3, 2)
