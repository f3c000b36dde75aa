"""Views for a frozen model that returns maps."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug import fit_tta
from instaaug import transforms as T
from instaaug.errors import ArgumentError, ShapeError
from instaaug.frozen.table import FrozenViews
from instaaug.objectives import ViewObjective
from tests.support.models import images

LEFT = (-0.5, 0.0, 1.0, 2.0)
CROP = T.Crop(levels=((1.0, 1), (0.5, 2)), max_outside=0.0)


class BrightPixels(nn.Module):
    """Sees bright pixels, but only in views whose lower right corner is bright."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(8.0))

    @override
    def forward(self, x: Tensor) -> Tensor:
        awake = (x[:, :1, -1:, -1:] > 0.5).float()
        score = self.scale * (x[:, :1] - 0.5) * (2 * awake - 1)
        return torch.cat([-score, score], dim=1)


def scenes(n: int = 24) -> tuple[Tensor, Tensor]:
    """Random black and white blocks whose upper left quarter ends in a bright corner."""
    random = torch.Generator().manual_seed(0)
    blocks = (torch.rand(n, 1, 4, 4, generator=random) > 0.5).float()
    blocks[:, :, 1, 1] = 1.0  # the corner of the upper left quarter
    blocks[:, :, [1, 3, 3], [3, 1, 3]] = 0.0  # those of the other quarters
    x = F.interpolate(blocks, scale_factor=4)
    return x.expand(-1, 3, -1, -1).contiguous(), (x[:, 0] > 0.5).long()


def test_the_table_holds_maps_in_the_frame_of_the_image() -> None:
    x = images(2, height=16, width=24)
    transform = T.Composition((T.Crop(),), size=(16, 16))
    rows = torch.tensor([(0.0, 0.0, 2.0, 2.0), LEFT])
    views = FrozenViews(nn.Identity(), transform, rows, padding_mode="border", map_size=(16, 24))
    table, _ = views.outputs(x)
    assert table.shape == (2, 2, 3, 16, 24)
    torch.testing.assert_close(table[:, 1, ..., 12:], table[:, 0, ..., 12:])  # filled in
    whole, left = (table[..., :12] - x[:, None, ..., :12]).abs().mean(dim=(0, 2, 3, 4))
    assert left < 0.8 * whole  # it has more pixels there


@pytest.mark.parametrize("objective", ["views", "single"])
def test_the_view_that_helps_the_map_comes_first(objective: ViewObjective) -> None:
    x, masks = scenes()
    aug = fit_tta(
        BrightPixels(), (x, masks), CROP, dense=True, features="none", n_samples=2,
        objective=objective, steps=60, learning_rate=0.03,
    )  # fmt: skip
    assert aug.draw(x[:1], 2, select="top")[1, 0].tolist() == [-0.5, -0.5, 1.0, 1.0]
    model = BrightPixels()
    whole, merged = (aug.wrap(model, n, dense=True)(x).softmax(dim=1)[:, 1] for n in (1, 2))
    quarter = masks[:, :8, :8]
    assert (whole[:, :8, :8] - quarter).abs().mean() > 0.9  # asleep: the opposite is right
    assert (merged[:, :8, :8] - quarter).abs().mean() < 0.6


def test_masks_may_be_smaller_than_images() -> None:
    x, masks = scenes(8)
    aug = fit_tta(
        BrightPixels(), (x, masks[:, ::2, ::2]), CROP, dense=True, features="pyramid", steps=2
    )
    assert aug.wrap(BrightPixels(), 3, dense=True)(x).shape == (8, 2, 16, 16)


def test_another_loss_gets_maps_and_targets() -> None:
    x, masks = scenes(8)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        assert outputs.shape[2:] == targets.shape[1:] == (16, 16)
        return (outputs.softmax(dim=1)[:, 1] - targets).abs().flatten(1).mean(dim=1)

    fit_tta(BrightPixels(), (x, masks), CROP, dense=True, features="none", steps=2, loss=loss)


def test_what_cannot_be_fitted_is_said() -> None:
    x, masks = scenes(4)
    with pytest.raises(ArgumentError, match=r"`merge` must be .logit., .*got 'confidence'"):
        fit_tta(BrightPixels(), (x, masks), CROP, dense=True, features="none", merge="confidence")
    with pytest.raises(ArgumentError, match="`transform` must offer views that can be listed"):
        fit_tta(BrightPixels(), (x, masks), "rotation", dense=True, features="none")
    with pytest.raises(ShapeError, match=r"`data` must give a map of targets.*got.*\(\)"):
        fit_tta(BrightPixels(), (x, torch.zeros(4).long()), CROP, dense=True, features="none")
    with pytest.raises(ShapeError, match="a whole number per pixel for cross-entropy"):
        fit_tta(BrightPixels(), (x, masks.float()), CROP, dense=True, features="none")
