"""Boxes are drawn where they are, also those that hang over the edge."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from instaaug.report.pictures.boxes import (
    ProbabilityInk,
    draw_boxes,
    draw_drawn_boxes,
    overhang,
)
from instaaug.report.pictures.sheet import sheet
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import photos

HANGING = torch.tensor([[-0.9, 0.0, 0.4, 0.4], [0.5, 0.5, 1.0, 1.0]])


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
