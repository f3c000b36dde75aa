"""The boxes that φ chooses from."""

import json
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from instaaug.errors import ArgumentError
from instaaug.networks import PreActTrunk
from instaaug.parameterizations import CropGrid
from instaaug.spaces import Level

PAPER: list[Level] = [(0.375, 16), (0.75, 8), (1.0, 1)]

levels_strategy = st.lists(
    st.tuples(st.floats(0.01, 1.0), st.integers(1, 9)), min_size=1, max_size=4
)


def test_the_paper_grid_has_321_boxes() -> None:
    grid = CropGrid(PAPER)
    assert len(grid) == 16 * 16 + 8 * 8 + 1 == 321
    assert grid.max_entropy == pytest.approx(log(321))
    assert grid.boxes.shape == (321, 4)
    assert [level.shape for level in grid.levels] == [(16, 16), (8, 8), (1, 1)]


@pytest.mark.parametrize(
    ("first", "n", "size"), [(0, 16, 0.375), (256, 8, 0.75), (320, 1, 1.0)], ids=str
)
def test_boxes_sit_in_the_cells_of_their_level_row_by_row(first: int, n: int, size: float) -> None:
    boxes = CropGrid(PAPER).boxes[first : first + n * n].view(n, n, 4)
    centers = (2 * torch.arange(n) + 1) / n - 1
    torch.testing.assert_close(boxes[..., 0], centers[None, :].expand(n, n))  # x by column
    torch.testing.assert_close(boxes[..., 1], centers[:, None].expand(n, n))  # y by row
    assert (boxes[..., 2:] == 2 * size).all()


def test_the_whole_image_is_the_identity_box() -> None:
    assert CropGrid(PAPER).boxes[-1].tolist() == [0.0, 0.0, 2.0, 2.0]


@given(levels=levels_strategy, max_outside=st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_no_box_lies_outside_by_more_than_its_share(
    levels: list[Level], max_outside: float
) -> None:
    boxes = CropGrid(levels, max_outside=max_outside).boxes
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    outside = (-1 - low).maximum(high - 1).clamp(min=0) / boxes[:, 2:]
    assert float(outside.max()) <= max_outside + 1e-5


@given(levels=levels_strategy, max_outside=st.floats(0.0, 1.0))
@settings(max_examples=60, deadline=None)
def test_boxes_move_inwards_only_and_only_as_far_as_they_must(
    levels: list[Level], max_outside: float
) -> None:
    free, held = CropGrid(levels).boxes, CropGrid(levels, max_outside=max_outside).boxes
    moved = (free[:, :2] - held[:, :2]) * free[:, :2].sign()
    assert (moved >= -1e-6).all()
    room = 1 - held[:, :2].abs() - (0.5 - max_outside) * held[:, 2:]
    for moves, rooms in zip(moved.T, room.T, strict=True):
        sizes = held[:, 2]
        for size in sizes[moves > 1e-5].unique():  # its outermost box touches the limit
            assert rooms[sizes == size].min().abs() < 1e-5
    assert torch.equal(free[:, 2:], held[:, 2:])


@pytest.mark.parametrize("level", [(0.375, 16), (0.75, 8), (0.95, 5)])
def test_boxes_that_move_inwards_do_not_pile_up(level: Level) -> None:
    n = level[1]
    xs = CropGrid([level], max_outside=0.0).boxes[:n, 0]
    steps = xs.diff()
    torch.testing.assert_close(steps, steps.mean().expand(n - 1))
    assert float(steps.mean()) == pytest.approx(2 * (1 - level[0]) / (n - 1))


def test_nothing_outside_puts_corner_boxes_into_the_corner() -> None:
    boxes = CropGrid([(0.5, 4)], max_outside=0.0).boxes
    assert boxes[0].tolist() == [-0.5, -0.5, 1.0, 1.0]
    assert boxes[3].tolist() == [0.5, -0.5, 1.0, 1.0]
    assert boxes[12].tolist() == [-0.5, 0.5, 1.0, 1.0]


@given(levels=levels_strategy, max_outside=st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None)
def test_a_grid_survives_json(levels: list[Level], max_outside: float) -> None:
    grid = CropGrid(levels, max_outside=max_outside)
    again = CropGrid.from_config(json.loads(json.dumps(grid.to_config())))
    assert again.levels == grid.levels
    assert again.max_outside == grid.max_outside
    assert torch.equal(again.boxes, grid.boxes)
    assert torch.equal(again.cells, grid.cells)
    assert torch.equal(again.center_limits, grid.center_limits)


def test_a_grid_of_receptive_fields_survives_json() -> None:
    grid = CropGrid.from_receptive_fields(PreActTrunk(), (64, 96), layers=[1, 2], max_outside=0.3)
    again = CropGrid.from_config(json.loads(json.dumps(grid.to_config())))
    assert again.levels == grid.levels
    assert [level.layer for level in again.levels] == [1, 2, None]


def test_cells_tile_the_image_and_a_single_box_has_none() -> None:
    grid = CropGrid(PAPER)
    assert (grid.cells[:256] == 2 / 16).all()
    assert (grid.cells[256:320] == 2 / 8).all()
    assert (grid.cells[320] == 0).all()


def test_an_axis_with_a_single_unit_has_no_cell() -> None:
    trunk = PreActTrunk()
    (level,) = CropGrid.from_receptive_fields(trunk, (8, 64), layers=[2], whole=False).levels
    assert level.shape == (1, 8)
    assert level.cell == (2 * 8 / 64, 0.0)


def test_the_repr_tells_the_story() -> None:
    expected = "CropGrid(321 boxes (16×16 of 0.375, 8×8 of 0.75, whole))"
    assert repr(CropGrid(PAPER)) == expected


def test_the_story_of_an_oblong_image_names_height_and_width() -> None:
    grid = CropGrid.from_receptive_fields(PreActTrunk(), (64, 96), layers=[1])
    words = "385 boxes (16×24 of 0.359×0.24, whole), receptive fields of map 1"
    assert grid.description == words


@pytest.mark.parametrize("whole", [True, False])
def test_receptive_fields_of_the_default_network(whole: bool) -> None:
    grid = CropGrid.from_receptive_fields(PreActTrunk(), 64, layers=[2, 1], whole=whole)
    fine, coarse = grid.levels[:2]  # sorted by size, however the layers were named
    assert (fine.shape, coarse.shape) == ((16, 16), (8, 8))
    assert (fine.layer, coarse.layer) == (1, 2)
    assert fine.width == fine.height == pytest.approx(2 * 23 / 64)
    assert coarse.width == coarse.height == pytest.approx(2 * 47 / 64)
    assert len(grid) == 320 + whole


def test_a_receptive_field_larger_than_the_image_becomes_the_side_of_the_image() -> None:
    (level,) = CropGrid.from_receptive_fields(
        PreActTrunk(), (32, 64), layers=[2], whole=False
    ).levels
    assert level.height == 2.0
    assert level.width == pytest.approx(2 * 47 / 64)


def test_receptive_fields_move_inwards_too() -> None:
    grid = CropGrid.from_receptive_fields(PreActTrunk(), 64, layers=[1, 2], max_outside=0.0)
    reach = grid.boxes[:, :2].abs() + grid.boxes[:, 2:] / 2
    assert float(reach.max()) <= 1 + 1e-6


def test_a_grid_without_boxes_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`levels` must hold at least one box: got none"):
        CropGrid([])


@pytest.mark.parametrize("level", [(0.0, 4), (-0.5, 4), (1.01, 4), (0.5, 0), (0.5, -1)], ids=str)
def test_a_size_or_number_out_of_range_is_refused(level: Level) -> None:
    with pytest.raises(ArgumentError, match=r"`levels` must be pairs of a size in \(0, 1\]"):
        CropGrid([(1.0, 1), level])


@pytest.mark.parametrize("max_outside", [-0.1, 1.1, float("nan")])
def test_a_share_out_of_range_is_refused(max_outside: float) -> None:
    with pytest.raises(ArgumentError, match=r"`max_outside` must be a share in \[0, 1\]: got"):
        CropGrid(PAPER, max_outside=max_outside)


@pytest.mark.parametrize("layer", [-1, 3, 10])
def test_a_layer_that_is_not_there_is_refused(layer: int) -> None:
    match = rf"`layers` must name maps of the network: got {layer}, but it returns 3 maps"
    with pytest.raises(ArgumentError, match=match):
        CropGrid.from_receptive_fields(PreActTrunk(), 64, layers=[1, layer])


NO_MAP = r"`layers` must name at least one map whose units see less than the image: there is none"


def test_no_layers_and_no_whole_image_is_refused() -> None:
    with pytest.raises(ArgumentError, match=NO_MAP):
        CropGrid.from_receptive_fields(PreActTrunk(), 64, layers=[], whole=False)


def test_a_network_whose_units_all_see_the_image_is_refused() -> None:
    with pytest.raises(ArgumentError, match=NO_MAP + r" among 4 for images of 16 × 16 pixels"):
        CropGrid.from_receptive_fields("preact_resnet18", 16)


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("preact_resnet18", [(0, 32, 19), (1, 16, 47)]),  # 103 and 215 pixels are the whole image
        ("preact_resnet18_bn", [(0, 32, 19), (1, 16, 47)]),
        ("pyramid", [(0, 32, 11), (1, 16, 23), (2, 8, 47)]),
        ("basic_cnn", [(0, 31, 3), (1, 15, 7), (2, 7, 15), (3, 3, 31)]),
    ],
)
def test_all_maps_whose_units_see_less_than_the_image_are_taken(
    name: str, levels: list[tuple[int, int, int]]
) -> None:
    *found, whole = CropGrid.from_receptive_fields(name, 64).levels
    assert [(f.layer, f.shape) for f in found] == [(layer, (n, n)) for layer, n, _ in levels]
    assert [f.width for f in found] == pytest.approx([2 * side / 64 for *_, side in levels])
    assert (whole.layer, whole.shape, whole.width) == (None, (1, 1), 2.0)
