"""Boxes lie where they should, and their densities and sizes add up."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle, StepPatch

from instaaug.parameterizations import CropGrid
from instaaug.report.pictures.boxes import (
    ProbabilityInk,
    center_density,
    draw_boxes,
    draw_centers,
    draw_drawn_boxes,
    draw_sizes,
    overhang,
    sampled_density,
    shares_above,
)
from instaaug.report.pictures.sheet import sheet
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import photos

HANGING = torch.tensor([[-0.9, 0.0, 0.4, 0.4], [0.5, 0.5, 1.0, 1.0]])

BOXES = torch.tensor(
    [[0.0, 0.0, 2.0, 2.0], [0.5, 0.0, 1.0, 1.0], [-0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 1.6, 0.4]]
)
PROBS = torch.tensor([0.1, 0.3, 0.4, 0.2])


def panel() -> Axes:
    with sheet(1.5, 1.5) as page:
        return page.panel(0.0, 0.0, 1.5, 1.5)


@pytest.mark.parametrize(
    ("boxes", "share"),
    [
        (HANGING, 0.05),
        (HANGING[1:], 0.0),
        (torch.tensor([[1.0, -1.0, 1.5, 1.5]]), 0.143),  # no more than a seventh is shown
    ],
)
def test_the_overhang_is_a_share_of_the_side(boxes: torch.Tensor, share: float) -> None:
    assert overhang(boxes) == pytest.approx(share)


def test_the_margin_shows_what_hangs_over_the_edge() -> None:
    axes = panel()
    image = photos(1, height=20, width=20)[0]
    draw_boxes(axes, image, HANGING, [0.8, 0.2], ProbabilityInk(0.8), margin=overhang(HANGING))
    assert axes.get_xlim() == pytest.approx((-1.5, 20.5))  # one pixel, a twentieth, each side
    first = axes.patches[0]
    assert isinstance(first, Rectangle)
    assert first.get_xy() == pytest.approx((-1.5, 7.5))
    assert axes.patch.get_visible()
    assert_words_are_readable(axes.get_figure(root=True))


def test_without_overhang_the_photo_fills_the_panel() -> None:
    axes = panel()
    draw_boxes(axes, photos(1)[0], HANGING[1:], [1.0], ProbabilityInk(1.0))
    assert axes.get_xlim() == (-0.5, 15.5)
    assert axes.get_ylim() == (15.5, -0.5)


def test_drawn_boxes_keep_their_colors_and_have_no_words() -> None:
    axes = panel()
    draw_drawn_boxes(axes, photos(1)[0], HANGING, ["#ff0000", "#00ff00"], margin=0.05)
    edges = [patch.get_edgecolor()[:3] for patch in axes.patches]
    assert edges == [(1, 0, 0), (0, 1, 0)]
    assert not axes.texts


def test_likelier_boxes_are_lighter_and_letters_differ_from_their_ground() -> None:
    ink = ProbabilityInk(0.5)
    luma = (0.299, 0.587, 0.114)
    shades = [float(np.dot(luma, ink.edge(p)[:3])) for p in (0.0, 0.1, 0.3, 0.5)]
    assert shades == sorted(shades)
    assert shades[-1] > shades[0] + 0.3
    assert [ink.letters(p) for p in (0.0, 0.5)] == ["white", "black"]


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


def test_shares_count_all_boxes_at_least_as_large() -> None:
    sizes, shares = shares_above(BOXES, PROBS)
    assert sizes.tolist() == pytest.approx([0.4, 0.5, 1.0])  # of 1.6 × 0.4, the square's side
    assert shares.tolist() == pytest.approx([1.0, 0.8, 0.1])


def test_sizes_that_differ_by_rounding_are_one() -> None:
    boxes = BOXES[1:3] + torch.tensor([0.0, 0.0, 1e-7, -1e-7])
    sizes, shares = shares_above(boxes, torch.tensor([0.5, 0.5]))
    assert sizes.tolist() == pytest.approx([0.5])
    assert shares.tolist() == pytest.approx([1.0])


def test_the_staircase_is_drawn_as_computed() -> None:
    with sheet(1.3, 1.3) as page:
        axes = page.panel(0.0, 0.0, 1.3, 1.3)
        draw_sizes(axes, BOXES, PROBS)
    _, line = [p for p in axes.patches if isinstance(p, StepPatch)]
    values, edges, _ = line.get_data()
    assert values.tolist() == pytest.approx([1.0, 0.8, 0.1])
    assert edges.tolist() == pytest.approx([0.0, 0.4, 0.5, 1.0])
    mean = 0.1 * 1 + 0.7 * 0.5 + 0.2 * 0.4
    assert axes.texts[0].get_text() == f"mean {mean:.2f}"
    assert axes.lines[0].get_xdata() == pytest.approx([mean, mean])
    assert_words_are_readable(page.canvas)
