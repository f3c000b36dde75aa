"""Figure 5 shows what it is given: the safe band, what was learned, and what goes too far."""

import math
from itertools import combinations
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Wedge
from matplotlib.text import Text

from instaaug.data import RotatedSprites
from instaaug.errors import ArgumentError, ShapeError
from instaaug.report.pictures.rotation import SAFE, ArcPanel, draw_rotation_arcs
from instaaug.report.theme import BLUE, RED, save_figure


def panel(title: str = "one", *, overshoot: float = 0.0, n: int = 4, iou: float = 1.0) -> ArcPanel:
    """Ideal ranges, or ranges moved counterclockwise."""
    data = RotatedSprites(n, generator=torch.Generator().manual_seed(0))
    return ArcPanel(
        title=title,
        images=data.images,
        bases=(data.labels % 2) * math.pi,
        angles=data.angles,
        learned=data.safe_intervals + overshoot,
        iou=iou,
    )


def sprites(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def arcs(axes: Axes, color: str) -> list[Wedge]:
    return [w for w in axes.patches if isinstance(w, Wedge) and to_hex(w.get_facecolor()) == color]


def share_of_color(path: Path, color: str) -> float:
    pixels = matplotlib.image.imread(path)[..., :3]
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float((np.abs(pixels - wanted).max(axis=-1) < 0.02).mean())


def test_each_method_is_a_row_of_the_same_sprites() -> None:
    figure = draw_rotation_arcs([panel("A: a"), panel("B: b")])
    tops = [round(axes.get_position().y1, 3) for axes in sprites(figure)]
    assert len(tops) == 8
    assert len(set(tops[:4])) == len(set(tops[4:])) == 1
    assert tops[0] > tops[4]
    assert figure.get_size_inches()[0] > 2 * figure.get_size_inches()[1]


def test_the_safe_band_is_the_half_circle_around_up_or_down() -> None:
    figure = draw_rotation_arcs([panel()])
    ends = [(w.theta1, w.theta2) for axes in sprites(figure) for w in arcs(axes, SAFE)]
    np.testing.assert_allclose(ends, [(0, 180), (180, 360)] * 2, atol=1e-3)


def test_what_goes_too_far_is_red_and_crossed_and_the_rest_is_not() -> None:
    figure = draw_rotation_arcs([panel(overshoot=0.5)])
    axes = sprites(figure)[0]  # upright: the left end is at 180 degrees
    (used,), (unsafe,) = arcs(axes, BLUE), arcs(axes, RED)
    far = math.degrees(0.5)
    np.testing.assert_allclose((used.theta1, used.theta2), (far, 180), atol=1e-3)
    np.testing.assert_allclose((unsafe.theta1, unsafe.theta2), (180, 180 + far), atol=1e-3)
    assert unsafe.get_hatch()  # seen in gray, too
    (cross,) = [line for line in axes.lines if line.get_marker() == "X"]
    ((x, y),) = np.asarray(cross.get_xydata())
    assert x < -1  # at the left,
    assert y < -math.sin(0.5)  # below the end of the arc


def test_ideal_ranges_show_no_warning_color(tmp_path: Path) -> None:
    for overshoot, name in ((0.0, "ideal"), (0.8, "far")):
        save_figure(draw_rotation_arcs([panel(overshoot=overshoot)]), tmp_path / f"{name}.png")
    legs = share_of_color(tmp_path / "ideal.png", RED)
    assert share_of_color(tmp_path / "far.png", RED) > legs + 0.003
    assert share_of_color(tmp_path / "ideal.png", BLUE) > 0.01


def test_the_first_sprite_says_what_is_what() -> None:
    figure = draw_rotation_arcs([panel(overshoot=0.5), panel("two", overshoot=0.5)])
    words = [[t.get_text() for t in axes.texts] for axes in sprites(figure)]
    assert words[0] == ["head", "too far", "safe,\nnot learned", "learned"]
    assert not any(words[1:])
    ideal = draw_rotation_arcs([panel()])
    assert [t.get_text() for t in sprites(ideal)[0].texts] == ["head", "learned"]


@pytest.mark.parametrize("overshoot", [-1.2, -0.3, 0.3, 1.2, 4.0])
@pytest.mark.parametrize("n", [1, 5])
def test_no_words_hide_others_or_leave_the_canvas(overshoot: float, n: int) -> None:
    panels = [panel("A name: and a detail", overshoot=overshoot, n=n) for _ in range(2)]
    figure = draw_rotation_arcs(panels)
    figure.draw_without_rendering()
    words = [t for t in figure.findobj(Text) if t.get_text()]
    boxes = [t.get_window_extent() for t in words]
    assert not [(a, b) for a, b in combinations(boxes, 2) if a.overlaps(b)]
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_the_verdict_is_the_overlap() -> None:
    figure = draw_rotation_arcs([panel("One", iou=0.72), panel("Two", iou=0.96)])
    words = [text.get_text() for text in figure.texts]
    assert "✗ 72%" in words
    assert "✓ 96%" in words


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_is_small_on_disk(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"figure.{ending}"
    save_figure(draw_rotation_arcs([panel("one"), panel("two")]), path)
    assert 10_000 < path.stat().st_size < 400_000


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`panels` must hold 1 to 4 methods: got 0"):
        draw_rotation_arcs([])
    with pytest.raises(ShapeError, match=r"same number of images, 1 to 6: got 2, 3\. Choose"):
        draw_rotation_arcs([panel(n=2), panel(n=3)])
