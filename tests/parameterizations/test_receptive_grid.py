"""With ``--crop.grid receptive`` the logit of a box depends on the pixels of that box alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instaaug import InstaAug
from instaaug.distributions import CategoricalTheta
from instaaug.parameterizations import CropGrid, LocationHead
from instaaug.transforms import Crop

SIDE = 64
PAPER_NETWORK = "preact_resnet18_bn"
Unit = tuple[int, int, int]  # level, row, column
UNITS: list[Unit] = [(0, 0, 0), (0, 13, 30), (1, 0, 15), (1, 7, 8), (1, 15, 15)]
each_unit = pytest.mark.parametrize("unit", UNITS, ids=str)


def learned_crops(name: str, **settings: Any) -> InstaAug:
    """φ whose weights, biases and statistics have all left their first values."""
    torch.manual_seed(0)
    grid = CropGrid.from_receptive_fields(name, SIDE)
    aug = InstaAug(Crop(), network=name, width=0.0625, grid=grid, **settings)
    for module in aug.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
            nn.init.normal_(module.bias)
    return aug.double().eval()


def logit_of(aug: InstaAug, x: Tensor, unit: Unit) -> Tensor:
    """Before the softmax, by which every box hears of every other."""
    level, row, column = unit
    shapes = [part.shape for part in aug.phi.grids["crop"].levels]
    head = aug.phi.heads[0]
    assert isinstance(head, LocationHead)
    parts = head(aug.phi.features(x), None, len(x)).split([r * c for r, c in shapes], dim=1)
    return parts[level].unflatten(1, shapes[level])[0, row, column]


def pixels_of(aug: InstaAug, unit: Unit) -> tuple[slice, slice]:
    """Rows and columns of the unit's box, as far as they lie in the image."""
    level, row, column = unit
    part = aug.phi.grids["crop"].levels[level]
    spans = []
    for center, extent in ((part.ys[row], part.height), (part.xs[column], part.width)):
        first, last = ((c + 1) * SIDE / 2 for c in (center - extent / 2, center + extent / 2))
        assert (first, last) == pytest.approx((round(first), round(last)), abs=1e-9)
        spans.append(slice(max(round(first), 0), min(round(last), SIDE)))
    return spans[0], spans[1]


@each_unit
@pytest.mark.parametrize("name", [PAPER_NETWORK, "basic_cnn"])
def test_a_logit_is_deaf_to_all_pixels_outside_of_its_box(name: str, unit: Unit) -> None:
    # To the last bit: in evaluation, BatchNorm multiplies and adds constants at each place.
    unit = unit if name == PAPER_NETWORK else (unit[0], unit[1] % 15, unit[2] % 15)
    aug = learned_crops(name)
    rows, columns = pixels_of(aug, unit)
    x = torch.rand(1, 3, SIDE, SIDE, dtype=torch.float64)
    other = torch.rand_like(x)
    other[:, :, rows, columns] = x[:, :, rows, columns]
    assert torch.equal(logit_of(aug, x, unit), logit_of(aug, other, unit))


@each_unit
def test_a_logit_hears_the_middle_and_every_edge_of_its_box(unit: Unit) -> None:
    aug = learned_crops(PAPER_NETWORK)
    rows, columns = pixels_of(aug, unit)
    x = torch.rand(1, 3, SIDE, SIDE, dtype=torch.float64)
    before = logit_of(aug, x, unit)
    places = [
        ((rows.start + rows.stop) // 2, (columns.start + columns.stop) // 2),
        (slice(rows.start, rows.start + 1), columns),
        (slice(rows.stop - 1, rows.stop), columns),
        (rows, slice(columns.start, columns.start + 1)),
        (rows, slice(columns.stop - 1, columns.stop)),
    ]
    for row, column in places:
        changed = x.clone()
        changed[:, :, row, column] += 1.0
        assert not torch.equal(logit_of(aug, changed, unit), before)


def test_with_group_norm_a_logit_hears_everything() -> None:
    aug = learned_crops("preact_resnet18")
    x = torch.rand(1, 3, SIDE, SIDE, dtype=torch.float64)
    changed = x.clone()
    changed[:, :, -1, -1] += 1.0
    assert not torch.equal(logit_of(aug, changed, UNITS[3]), logit_of(aug, x, UNITS[3]))


def test_the_boxes_are_saved_with_their_maps(tmp_path: Path) -> None:
    aug = learned_crops(PAPER_NETWORK).float()
    aug.save(tmp_path / "aug.safetensors")
    again = InstaAug.load(tmp_path / "aug.safetensors").eval()
    assert again.phi.grids["crop"].levels == aug.phi.grids["crop"].levels
    x = torch.rand(2, 3, SIDE, SIDE)
    (one,), (other,) = (a.distribution(x).factors.values() for a in (aug, again))
    assert isinstance(one, CategoricalTheta)
    assert isinstance(other, CategoricalTheta)
    assert torch.equal(one.logits, other.logits)


def test_the_boxes_are_named_where_an_augmenter_is_described() -> None:
    words = "1281 boxes (32×32 of 0.297, 16×16 of 0.734, whole), receptive fields of maps 0 and 1"
    assert words in repr(learned_crops(PAPER_NETWORK))


@pytest.mark.parametrize("conditioning", ["none", "class"])
def test_ablations_choose_from_the_same_boxes(conditioning: str) -> None:
    aug = learned_crops(PAPER_NETWORK, conditioning=conditioning, num_classes=3)
    full = learned_crops(PAPER_NETWORK)
    assert torch.equal(aug.phi.grids["crop"].boxes, full.phi.grids["crop"].boxes)
