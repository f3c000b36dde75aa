"""The density of crop centers is where the crops are."""

import numpy as np
import pytest
import torch

from instaaug.parameterizations import CropGrid
from instaaug.report.pictures.boxes import center_density, draw_centers, sampled_density
from instaaug.report.pictures.sheet import sheet
from tests.support.observations import photos


def test_the_density_peaks_where_the_likely_box_is_centered() -> None:
    grid = CropGrid([(0.25, 8)])
    probs = torch.full((64,), 0.2 / 63)
    probs[8 + 5] = 0.8  # row 1, column 5
    density = center_density(probs, grid.boxes, height=16, width=32)
    assert int(density.argmax()) // 32 in (2, 3)
    assert int(density.argmax()) % 32 in (21, 22)


def test_a_uniform_choice_looks_flat() -> None:
    grid = CropGrid([(0.25, 8)])
    density = center_density(torch.full((64,), 1 / 64), grid.boxes, height=32, width=32)
    inner = density[8:-8, 8:-8]
    assert inner.std() < 0.02 * inner.mean()
    assert density.mean() * 4 == pytest.approx(1, abs=0.15)  # what lies beyond the border is cut


def test_the_whole_image_hardly_points_anywhere() -> None:
    whole = CropGrid([(1.0, 1)]).boxes
    density = center_density(torch.ones(1), whole, height=8, width=8)
    assert density.min() > 0.3 * density.max()


def test_drawn_centers_make_a_density_of_area_one_around_their_mean() -> None:
    random = torch.Generator().manual_seed(0)
    boxes = torch.full((200, 4), 0.5)
    boxes[:, :2] = torch.tensor([0.3, -0.2]) + 0.15 * torch.randn(200, 2, generator=random)
    density = sampled_density(boxes, height=40, width=40)
    assert density.mean() * 4 == pytest.approx(1, abs=0.02)
    axis = (torch.arange(40) * 2 + 1) / 40 - 1
    weights = density / density.sum()
    assert (weights.sum(dim=0) * axis).sum() == pytest.approx(0.3, abs=0.05)
    assert (weights.sum(dim=1) * axis).sum() == pytest.approx(-0.2, abs=0.05)


def test_a_single_drawn_center_is_a_spot_not_a_failure() -> None:
    density = sampled_density(torch.tensor([[0.5, 0.0, 1.0, 1.0]]), height=20, width=20)
    assert bool(density.isfinite().all())
    assert int(density.argmax()) % 20 in (14, 15)


def test_the_photo_shines_through_where_there_are_no_centers() -> None:
    density = torch.zeros(16, 16)
    density[3, 4] = 2.0
    with sheet(1.0, 1.0) as page:
        axes = page.panel(0.0, 0.0, 1.0, 1.0)
        draw_centers(axes, photos(1)[0], density)
    veil = np.asarray(axes.images[1].get_alpha())
    assert veil[3, 4] == pytest.approx(0.75)
    assert veil.sum() == pytest.approx(0.75)
