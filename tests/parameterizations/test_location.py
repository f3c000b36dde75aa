"""Issue 2, item 2: every unit's crop shows the pixels of that unit's cell or receptive field.

The checks of ``tests.support.location`` derive the geometry on their own. Each of them is shown to
reject grids that are swapped, mirrored or shifted by one.
"""

import pytest
import torch
from torch import Tensor, nn

from instaaug.networks import make_network
from instaaug.parameterizations import CropGrid
from instaaug.spaces import Level
from instaaug.transforms import Crop
from tests.support.feature_networks import Chain
from tests.support.location import (
    SABOTAGES,
    check_boxes_show_their_cells,
    check_boxes_show_their_dots,
    check_crops_have_their_extent,
    check_units_see_their_boxes,
    without_normalization,
)

Size = tuple[int, int]
PAPER: list[Level] = [(0.375, 16), (0.75, 8), (1.0, 1)]
MIXED: list[Level] = [(1.0, 1), (0.8, 2), (0.6, 3), (0.4, 4), (0.25, 12)]
CELL_SIZES: list[Size] = [(96, 96), (48, 144)]

LEVELS = [(levels, index) for levels in (PAPER, MIXED) for index in range(len(levels))]

each_level = pytest.mark.parametrize(
    ("levels", "index"), LEVELS, ids=[f"{n}x{n}_of_{size}" for size, n in PAPER + MIXED]
)
each_cell_size = pytest.mark.parametrize("image_size", CELL_SIZES, ids=str)
each_sabotage = pytest.mark.parametrize("sabotage", SABOTAGES)


def boxes_by_level(grid: CropGrid) -> list[Tensor]:
    """The rows of ``grid.boxes`` as (rows, columns, 4) for each level, in the order of units."""
    shapes = [level.shape for level in grid.levels]
    parts = grid.boxes.split([rows * columns for rows, columns in shapes])
    return [part.view(*shape, 4) for part, shape in zip(parts, shapes, strict=True)]


@each_level
@each_cell_size
def test_every_crop_shows_the_marker_of_its_cell(
    levels: list[Level], index: int, image_size: Size
) -> None:
    check_boxes_show_their_cells(boxes_by_level(CropGrid(levels))[index], image_size)


@each_level
@each_cell_size
def test_every_crop_has_exactly_the_extent_of_its_box(
    levels: list[Level], index: int, image_size: Size
) -> None:
    boxes = boxes_by_level(CropGrid(levels))[index]
    check_crops_have_their_extent(boxes, image_size, size=levels[index][0])


@each_sabotage
@each_cell_size
def test_the_checks_of_cells_reject_a_sabotaged_grid(sabotage: str, image_size: Size) -> None:
    boxes = boxes_by_level(CropGrid(PAPER))[1]
    wrong = SABOTAGES[sabotage](boxes, image_size)
    with pytest.raises(AssertionError, match="crops are off by"):
        check_crops_have_their_extent(wrong, image_size, 0.75)
    if "pixel" not in sabotage:  # the middle of a cell looks the same from one pixel beside it
        with pytest.raises(AssertionError, match="boxes show another cell"):
            check_boxes_show_their_cells(wrong, image_size)


Field = tuple[str, float, int, int]  # network, width, map, pixels that a unit sees
MAP_0: Field = ("pyramid", 1.0, 0, 11)
MAP_1: Field = ("pyramid", 1.0, 1, 23)
MAP_2: Field = ("pyramid", 1.0, 2, 47)
RESNET_MAP_1: Field = ("preact_resnet18", 0.0625, 1, 47)
FIELDS: list[tuple[Field, Size]] = [
    *[(MAP_0, size) for size in [(16, 16), (21, 15)]],
    *[(MAP_1, size) for size in [(24, 48), (43, 27)]],
    *[(MAP_2, size) for size in [(48, 80), (75, 49)]],
    *[(RESNET_MAP_1, size) for size in [(48, 48), (48, 64)]],
]

each_field = pytest.mark.parametrize(
    ("field", "image_size"), FIELDS, ids=[f"{f[0]}_map_{f[2]}_{size}" for f, size in FIELDS]
)


def field_boxes(field: Field, image_size: Size) -> tuple[Tensor, int]:
    """Boxes of one map of a real network, and the stride of its units."""
    name, width, layer, _ = field
    network = make_network(name, in_channels=3, width=width)
    grid = CropGrid.from_receptive_fields(network, image_size, layers=[layer], whole=False)
    return boxes_by_level(grid)[0], 2 ** (layer + 1)


@each_field
def test_every_unit_sees_its_box_and_nothing_else(field: Field, image_size: Size) -> None:
    name, width, layer, n_pixels = field
    boxes, stride = field_boxes(field, image_size)
    bare = without_normalization(make_network(name, in_channels=3, width=width))
    (rows, columns), (height, width_) = boxes.shape[:2], image_size
    assert (rows, columns) == (-(-height // stride), -(-width_ // stride))
    assert boxes[0, 0, 2:].tolist() == pytest.approx(
        [2 * n_pixels / width_, 2 * n_pixels / height]
    )
    check_units_see_their_boxes(bare, layer, boxes, image_size)


@pytest.mark.parametrize("image_size", [(40, 40), (30, 52)], ids=str)
def test_height_and_width_have_strides_and_kernels_of_their_own(image_size: Size) -> None:
    oblong = nn.Conv2d(3, 2, (3, 9), stride=(2, 4), padding=(0, 4))
    network = Chain(oblong, nn.Conv2d(2, 2, (5, 3), padding=(2, 0)))
    (boxes,) = boxes_by_level(
        CropGrid.from_receptive_fields(network, image_size, layers=[1], whole=False)
    )
    check_units_see_their_boxes(without_normalization(network), 1, boxes, image_size)


@each_field
def test_a_dot_in_the_middle_of_a_receptive_field_is_in_the_middle_of_its_crop(
    field: Field, image_size: Size
) -> None:
    boxes, stride = field_boxes(field, image_size)
    check_boxes_show_their_dots(boxes, image_size, dots_of(boxes, stride))


def dots_of(boxes: Tensor, stride: int) -> Tensor:
    """Unit (i, j) of a map with stride s, kernels of 3 and paddings of 1 looks at (s·i, s·j)."""
    i = torch.arange(boxes.shape[0])[:, None].expand(boxes.shape[:2])
    j = torch.arange(boxes.shape[1]).expand(boxes.shape[:2])
    return torch.stack([i, j], dim=-1) * stride


@each_sabotage
@pytest.mark.parametrize("image_size", [(56, 56), (48, 80)], ids=str)
def test_the_checks_of_receptive_fields_reject_a_sabotaged_grid(
    sabotage: str, image_size: Size
) -> None:
    boxes, stride = field_boxes(MAP_2, image_size)
    wrong = SABOTAGES[sabotage](boxes, image_size)
    bare = without_normalization(make_network("pyramid", in_channels=3, width=1.0))
    with pytest.raises(AssertionError, match=r"see beyond|do not see all|do not end between"):
        check_units_see_their_boxes(bare, 2, wrong, image_size)
    if sabotage != "wider_by_a_pixel":  # the middle stays where it was
        with pytest.raises(AssertionError, match="off the middle"):
            check_boxes_show_their_dots(wrong, image_size, dots_of(boxes, stride))


CORNERS = {
    "top_left": (0, 0),
    "top_right": (0, -1),
    "bottom_left": (-1, 0),
    "bottom_right": (-1, -1),
}


@pytest.mark.parametrize("corner", CORNERS.values(), ids=CORNERS)
@pytest.mark.parametrize("image_size", [(64, 64), (90, 50)], ids=str)
@pytest.mark.parametrize("max_outside", [1.0, 0.0])
@pytest.mark.parametrize("kind", ["levels", "receptive_fields"])
def test_a_dot_in_a_corner_is_in_the_crop_of_that_corners_unit_alone(
    corner: Size, image_size: Size, max_outside: float, kind: str
) -> None:
    # Trap 2 of DESIGN section 15: the official crops are swapped and mirrored.
    grid = CropGrid(PAPER[:1], max_outside=max_outside)
    if kind == "receptive_fields":
        network = make_network("pyramid", in_channels=3, width=1.0)
        grid = CropGrid.from_receptive_fields(
            network, image_size, layers=[1], whole=False, max_outside=max_outside
        )
    row, column = (2 if edge == 0 else -3 for edge in corner)
    image = torch.zeros(1, 1, *image_size)
    image[0, 0, row, column] = 1.0
    (boxes,) = boxes_by_level(grid)
    four = torch.stack([boxes[i, j] for i, j in CORNERS.values()])
    brightest = Crop().apply(image.expand(4, -1, -1, -1), four).amax(dim=(1, 2, 3))
    expected = torch.tensor([other == corner for other in CORNERS.values()])
    assert torch.equal(brightest > 0.3, expected)


@pytest.mark.parametrize("max_outside", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("index", [0, 1])
@each_cell_size
def test_a_box_that_was_moved_inwards_still_shows_its_cell(
    max_outside: float, index: int, image_size: Size
) -> None:
    boxes = boxes_by_level(CropGrid(PAPER, max_outside=max_outside))[index]
    rows, columns = boxes.shape[:2]
    numbers = torch.arange(1.0, rows * columns + 1).view(rows, columns)
    tall, wide = image_size[0] // rows, image_size[1] // columns
    image = numbers.repeat_interleave(tall, 0).repeat_interleave(wide, 1)
    flat = boxes.flatten(0, 1)
    crops = Crop().apply(image.expand(len(flat), 1, *image_size), flat).flatten(1)
    assert ((crops - numbers.view(-1, 1)).abs() < 1e-3).any(dim=1).all()
