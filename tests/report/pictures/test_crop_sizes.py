"""The staircase of sizes is one minus a distribution function."""

import pytest
import torch
from matplotlib.patches import StepPatch

from instaaug.report.pictures.boxes import draw_sizes, shares_above
from instaaug.report.pictures.sheet import sheet
from tests.support.drawn import assert_words_are_readable

BOXES = torch.tensor(
    [[0.0, 0.0, 2.0, 2.0], [0.5, 0.0, 1.0, 1.0], [-0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 1.6, 0.4]]
)
PROBS = torch.tensor([0.1, 0.3, 0.4, 0.2])


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
