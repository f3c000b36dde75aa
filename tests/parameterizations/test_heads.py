"""Heads: the right unit gets the right logit, at any image size."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug.distributions import UniformBox
from instaaug.errors import ArgumentError
from instaaug.networks import make_network
from instaaug.parameterizations import (
    ClassHead,
    CropGrid,
    Head,
    LocationHead,
    PooledHead,
    SharedHead,
    make_family,
)
from instaaug.spaces import Boxes, Interval, Level, Parameter
from instaaug.transforms import Crop
from tests.support.feature_networks import Brightness

Size = tuple[int, int]
PAPER: tuple[Level, ...] = ((0.375, 16), (0.75, 8), (1.0, 1))
SIZES: list[Size] = [(17, 40), (64, 64), (224, 96), (8, 8), (33, 5)]
each_size = pytest.mark.parametrize("size", SIZES, ids=str)
each_network = pytest.mark.parametrize("name", ["pyramid", "preact_resnet18"])


@each_size
@each_network
@pytest.mark.parametrize("head_kind", ["location", "pooled"])
def test_a_head_works_at_any_image_size(size: Size, name: str, head_kind: str) -> None:
    network = make_network(name, in_channels=3, width=0.125)
    channels = [m.shape[1] for m in network(torch.zeros(1, 3, 32, 32))]
    bias = torch.zeros(321)
    grid = CropGrid(PAPER)
    head = (
        LocationHead(channels, grid, bias)
        if head_kind == "location"
        else PooledHead(channels, bias)
    )
    maps = network(torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0)))
    raw = head(maps, None, 2)
    assert raw.shape == (2, 321)
    assert raw.isfinite().all()
    assert not torch.allclose(raw[0], raw[1], atol=1e-6)


def brightness_logits(image: Tensor, level: int, sabotage: Callable[[Tensor], Tensor]) -> Tensor:
    """Logits (B, rows, columns) of one level of the paper grid, where logit = brightness."""
    grid = CropGrid(PAPER)
    network = Brightness((4, 8), sabotage)
    head = LocationHead((1, 1), grid, torch.zeros(321))
    with torch.no_grad():
        for scorer in head.scorers:
            next(scorer.parameters()).fill_(1.0)
    raw = head(network(image), None, len(image))
    n = (16, 8)[level]
    return raw[:, (0, 256)[level] :][:, : n * n]


def lit_cells(n: int, size: Size) -> Tensor:
    """n² images (n², 1, H, W), each with another cell of an n × n division lit."""
    cells = torch.eye(n * n).view(n * n, 1, n, n)
    return cells.repeat_interleave(size[0] // n, 2).repeat_interleave(size[1] // n, 3)


def check_the_likeliest_box_shows_the_lit_cell(
    level: int, size: Size, sabotage: Callable[[Tensor], Tensor] = lambda m: m
) -> None:
    images = lit_cells((16, 8)[level], size)
    likeliest = brightness_logits(images, level, sabotage).argmax(dim=-1) + (0, 256)[level]
    crops = Crop().apply(images, CropGrid(PAPER).boxes[likeliest])
    height, width = size
    middle = crops[:, 0, height // 2 - 1 : height // 2 + 1, width // 2 - 1 : width // 2 + 1]
    assert (middle > 0.999).all(), "the likeliest box shows another cell"


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("size", [(64, 64), (64, 96), (128, 48 + 16)], ids=str)
def test_the_box_of_the_bright_unit_shows_what_is_bright(level: int, size: Size) -> None:
    check_the_likeliest_box_shows_the_lit_cell(level, size)


SABOTAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda m: m.transpose(2, 3),
    "mirrored_left_right": lambda m: m.flip(3),
    "mirrored_up_down": lambda m: m.flip(2),
    "shifted_by_a_column": lambda m: m.roll(1, 3),
    "shifted_by_a_row": lambda m: m.roll(1, 2),
}


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("sabotage", SABOTAGES.values(), ids=SABOTAGES)
def test_the_check_rejects_units_in_the_wrong_order(
    level: int, sabotage: Callable[[Tensor], Tensor]
) -> None:
    with pytest.raises(AssertionError, match="shows another cell"):
        check_the_likeliest_box_shows_the_lit_cell(level, (64, 64), sabotage)


@pytest.mark.parametrize("window", [2, 4, 16, 32])
@pytest.mark.parametrize("axis", [0, 1], ids=["rows", "columns"])
def test_maps_of_another_size_keep_their_place(window: int, axis: int) -> None:
    # A ramp: each unit reads how far along its cell lies, whether its map is coarser or finer.
    ramp = torch.linspace(1 / 128, 1 - 1 / 128, 64)
    image = (ramp[:, None] if axis == 0 else ramp).expand(1, 1, 64, 64)
    head = LocationHead((1,), CropGrid([(0.5, 8)]), torch.zeros(64))
    torch.nn.init.ones_(next(head.scorers.parameters()))
    read = head(Brightness((window,))(image), None, 1).view(8, 8).mean(dim=1 - axis)
    expected = (torch.arange(8) + 0.5) / 8
    between = (expected - 0.5).abs() <= 0.5 - window / 128  # beyond the last center it is flat
    torch.testing.assert_close(read[between], expected[between])
    assert int(between.sum()) >= 4


@pytest.mark.parametrize(("level", "i", "j"), [(0, 0, 0), (0, 2, 13), (1, 7, 1), (2, 0, 0)])
def test_the_bias_of_a_unit_makes_its_box_likely(level: int, i: int, j: int) -> None:
    grid = CropGrid(PAPER)
    first, n = ((0, 16), (256, 8), (320, 1))[level]
    head = LocationHead((8, 16, 32), grid, torch.zeros(321))
    with torch.no_grad():
        head.bias[first + i * n + j] = 100.0
    network = make_network("pyramid", in_channels=3, width=1.0)
    (raw,) = head(network(torch.zeros(1, 3, 64, 64)), None, 1)
    x, y, width, _ = grid.boxes[raw.argmax()].tolist()
    assert (x, y) == pytest.approx(((2 * j + 1) / n - 1, (2 * i + 1) / n - 1))
    assert width == 2 * PAPER[level][0]


def test_a_local_feature_moves_only_logits_nearby() -> None:
    quiet = lit_cells(16, (64, 64))[:1] * 0
    loud = lit_cells(16, (64, 64))[5 * 16 + 11][None]
    before = brightness_logits(quiet, 0, lambda m: m)
    after = brightness_logits(loud, 0, lambda m: m)
    assert (after != before).nonzero().tolist() == [[0, 5 * 16 + 11]]


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (PAPER, [1, 2, 2]),
        (((1.0, 1), (0.75, 8), (0.375, 16)), [2, 2, 1]),
        (((0.8, 2), (0.6, 3), (0.4, 4), (0.2, 5)), [2, 1, 0, 0]),
    ],
)
def test_small_boxes_read_fine_maps(levels: tuple[Level, ...], expected: list[int]) -> None:
    grid = CropGrid(levels)
    assert LocationHead((8, 16, 32), grid, torch.zeros(len(grid))).layers == expected


def test_boxes_that_are_receptive_fields_read_the_map_they_came_from() -> None:
    network = make_network("pyramid", in_channels=3, width=1.0)
    grid = CropGrid.from_receptive_fields(network, 64, layers=[0, 2])
    head = LocationHead((8, 16, 32), grid, torch.zeros(len(grid)))
    assert head.layers == [0, 2, 2]
    assert head(network(torch.zeros(1, 3, 64, 64)), None, 1).shape == (1, 1024 + 64 + 1)


def test_a_grid_of_another_network_is_refused() -> None:
    network = make_network("pyramid", in_channels=3, width=1.0)
    grid = CropGrid.from_receptive_fields(network, 64, layers=[2])
    with pytest.raises(ArgumentError, match=r"`grid` must belong to the network: it reads map 2"):
        LocationHead((8, 16), grid, torch.zeros(len(grid)))


@pytest.mark.parametrize("head_kind", ["location", "pooled"])
def test_a_fresh_head_says_nearly_what_its_bias_says(head_kind: str) -> None:
    family = make_family(Boxes(PAPER))
    bias = family.raw_at(3.25)
    channels = (8, 16, 32)
    grid = CropGrid(PAPER)
    torch.manual_seed(0)
    head = (
        LocationHead(channels, grid, bias)
        if head_kind == "location"
        else PooledHead(channels, bias)
    )
    network = make_network("pyramid", in_channels=3, width=1.0)
    entropy = family(head(network(torch.rand(8, 3, 64, 64)), None, 8)).entropy()
    assert float(entropy.detach().mean()) == pytest.approx(3.25, abs=0.25)


def test_a_gradient_reaches_every_parameter_of_a_location_head() -> None:
    network = make_network("pyramid", in_channels=3, width=1.0)
    head = LocationHead((8, 16, 32), CropGrid(PAPER), torch.zeros(321))
    raw = head(network(torch.rand(2, 3, 64, 64)), None, 2)
    (raw * torch.randn(321)).sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in head.parameters())


@pytest.mark.parametrize(
    ("transform", "estimator"),
    [("crop", "auto"), ("crop", "closed_form"), ("hsv_jitter", "auto")],
)
def test_what_reads_the_input_is_all_but_what_is_common_to_all(
    transform: str, estimator: Any
) -> None:
    phi = InstaAug(transform, estimator=estimator).phi
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in phi.input_parameters():
            parameter.zero_()
        (head,) = phi.heads
        assert isinstance(head, Head)
        head.common.normal_(generator=torch.Generator().manual_seed(1))
    (raw,) = phi.raw(phi.features(x), None, 2)
    assert torch.equal(raw[0], raw[1])
    assert torch.equal(raw[0], head.common)


def test_a_shared_head_gives_every_input_the_same() -> None:
    bias = torch.arange(5.0)
    head = SharedHead(bias)
    assert torch.equal(head([], None, 3), bias.expand(3, 5))
    assert [p.shape for p in head.parameters()] == [(5,)]


def class_head(levels: tuple[Level, ...] = ((0.5, 2),)) -> ClassHead:
    family = make_family(Boxes(levels))
    head = ClassHead(torch.zeros(family.n_raw), num_classes=3)
    with torch.no_grad():
        head.raw.copy_(torch.arange(12.0).view(3, 4))
    return head


def test_a_class_head_looks_the_label_up() -> None:
    raw = class_head()([], torch.tensor([2, 0, 2]), 3)
    assert torch.equal(raw, torch.arange(12.0).view(3, 4)[[2, 0, 2]])


def test_a_class_head_teaches_only_the_classes_it_met() -> None:
    head = class_head()
    head([], torch.tensor([1, 1]), 2).sum().backward()
    assert head.raw.grad is not None
    assert head.raw.grad.tolist() == [[0.0] * 4, [2.0] * 4, [0.0] * 4]


def test_a_class_head_asks_for_targets_in_training() -> None:
    match = r'`targets` must be given in training with conditioning="class": got None'
    with pytest.raises(ArgumentError, match=match):
        class_head()([], None, 2)


def test_without_a_class_intervals_are_those_of_the_mean_over_classes() -> None:
    family = make_family(Interval((Parameter("angle", -1.0, 1.0),)))
    mean = family(torch.tensor([[2.0, 4.0]] * 3))
    found = family.without_class(torch.tensor([[1.0, 2.0], [3.0, 6.0]]), 3)
    assert isinstance(found, UniformBox)
    assert isinstance(mean, UniformBox)
    assert torch.equal(found.low, mean.low)
    assert torch.equal(found.high, mean.high)
