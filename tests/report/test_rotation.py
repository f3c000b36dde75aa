"""Figure 5 is drawn, as PNG and SVG, and shows what it is given."""

from math import pi
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

from instaaug.data import RotatedSprites
from instaaug.report.rotation import ArcPanel, draw_rotation_arcs
from instaaug.report.theme import BLUE, GREEN, RED


def panel(title: str, overshoot: float = 0.0) -> ArcPanel:
    data = RotatedSprites(4, generator=torch.Generator().manual_seed(0))
    return ArcPanel(
        title=title,
        images=data.images,
        bases=(data.labels % 2) * pi,
        angles=data.angles,
        learned=data.safe_intervals + torch.tensor([0.0, overshoot]),
        iou=1.0,
    )


def share_of_color(path: Path, color: str) -> float:
    pixels = matplotlib.image.imread(path)[..., :3]
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float((np.abs(pixels - wanted).max(axis=-1) < 0.02).mean())


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_is_written(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"figure.{ending}"
    draw_rotation_arcs([panel("one"), panel("two")], path)
    assert path.stat().st_size > 10_000


def test_ideal_ranges_show_no_warning_color(tmp_path: Path) -> None:
    draw_rotation_arcs([panel("ideal")], tmp_path / "ideal.png")
    legend = share_of_color(tmp_path / "ideal.png", RED)
    draw_rotation_arcs([panel("too far", overshoot=0.8)], tmp_path / "far.png")
    assert share_of_color(tmp_path / "far.png", RED) > 2 * legend
    assert share_of_color(tmp_path / "ideal.png", GREEN) > 5 * legend
    assert share_of_color(tmp_path / "ideal.png", BLUE) > 5 * legend
