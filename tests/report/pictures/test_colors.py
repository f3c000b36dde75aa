"""Mean colors, and where they may move."""

import colorsys
from math import cos, pi, sin

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Wedge

from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.report.pictures.colors import (
    MeanColor,
    draw_colors,
    draw_hue_dial,
    draw_saturation_value,
    mean_color,
)
from instaaug.report.pictures.sheet import sheet
from instaaug.report.theme import INK
from instaaug.spaces import Parameter
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import looked_at, photos, without_learning

HUE = Parameter("hue", -0.5, 0.5, period=1.0)
GREEN = MeanColor(hue=1 / 3, saturation=0.5, value=0.8)
GRAY = MeanColor(hue=None, saturation=0.0, value=0.8)


def panel() -> Axes:
    with sheet(1.3, 1.3) as page:
        return page.panel(0.0, 0.0, 1.3, 1.3)


@pytest.mark.parametrize(
    "rgb", [(0.9, 0.1, 0.1), (0.2, 0.7, 0.4), (0.3, 0.2, 0.9), (0.9, 0.1, 0.8)]
)
def test_one_color_has_its_own_hue_saturation_and_value(rgb: tuple[float, float, float]) -> None:
    found = mean_color(torch.tensor(rgb).view(3, 1, 1).expand(3, 4, 5))
    hue, saturation, value = colorsys.rgb_to_hsv(*rgb)
    assert found.hue is not None
    assert abs((found.hue - hue + 0.5) % 1 - 0.5) < 0.01
    assert (found.saturation, found.value) == pytest.approx((saturation, value), abs=1e-5)


def test_hues_are_averaged_on_the_circle() -> None:
    colors = [colorsys.hsv_to_rgb(hue, 1, 1) for hue in (0.9, 0.1)]  # the mean is red, not cyan
    hue = mean_color(torch.tensor(colors).T.reshape(3, 1, 2)).hue
    assert hue is not None
    assert min(hue, 1 - hue) < 0.01


@pytest.mark.parametrize("channels", [1, 3])
def test_a_gray_photo_has_no_hue(channels: int) -> None:
    assert mean_color(torch.full((channels, 4, 4), 0.5)) == MeanColor(None, 0.0, 0.5)


def test_the_learned_arc_starts_from_the_mean_hue() -> None:
    axes = panel()
    draw_hue_dial(axes, GREEN, HUE, (-0.1, 0.25), [0.0])
    (arc,) = [w for w in axes.patches if to_hex(w.get_facecolor()) == INK]
    assert isinstance(arc, Wedge)
    ends = (90 + 120 - 36, 90 + 120 + 90)
    assert (arc.theta1, arc.theta2) == pytest.approx(ends, abs=1e-6)
    ((x, y),) = np.asarray(axes.lines[0].get_xydata())
    angle = 2 * pi / 3
    assert (x, y) == pytest.approx((-np.hypot(x, y) * sin(angle), np.hypot(x, y) * cos(angle)))


def test_the_ring_has_each_hue_at_its_angle() -> None:
    axes = panel()
    draw_hue_dial(axes, GREEN, HUE, None, [])
    ring = np.asarray(axes.images[0].get_array())
    n = len(ring)
    for hue in (0.0, 1 / 3, 2 / 3):
        angle = 2 * pi * hue
        row = round((1 - cos(angle) * 0.85) * (n - 1) / 2)  # at 0.85 of the outer radius
        column = round((1 - sin(angle) * 0.85) * (n - 1) / 2)
        red, green, blue, alpha = ring[row, column]
        assert alpha > 0.9
        found = colorsys.rgb_to_hsv(red, green, blue)[0]
        assert abs((found - hue + 0.5) % 1 - 0.5) < 0.02
    assert ring[n // 2, n // 2, 3] == 0


def test_a_gray_photo_says_so_and_has_no_dot() -> None:
    axes = panel()
    draw_hue_dial(axes, GRAY, HUE, (-0.1, 0.1), [])
    assert [t.get_text() for t in axes.texts] == ["no hue"]
    assert not axes.lines


def test_the_plane_shows_factors_around_the_mean_and_ends_at_one() -> None:
    axes = panel()
    learned, drawn = {"saturation": (0.5, 1.5), "value": (0.5, 2.0)}, {"saturation": [1.2, 9.0]}
    draw_saturation_value(axes, GREEN, learned, drawn)
    frame = np.asarray(axes.lines[0].get_xydata())
    assert (frame[:, 0].min(), frame[:, 0].max()) == pytest.approx((0.25, 0.75))
    assert (frame[:, 1].min(), frame[:, 1].max()) == pytest.approx((0.4, 1.0))
    dots = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_allclose(dots, np.array([(0.6, 0.8), (1.0, 0.8)]))
    assert np.asarray(axes.lines[-1].get_xydata()).tolist() == [[0.5, 0.8]]


def test_a_parameter_that_stays_gives_a_line() -> None:
    axes = panel()
    draw_saturation_value(axes, GREEN, {"value": (0.5, 1.0)}, {})
    frame = np.asarray(axes.lines[0].get_xydata())
    assert set(frame[:, 0]) == {0.5}


@pytest.mark.parametrize(
    ("jitter", "headings"),
    [
        (T.HSVJitter(), ["hue", "saturation × value", "samples"]),
        (T.HSVJitter(hue=0.0), ["saturation × value", "samples"]),
        (T.HSVJitter(saturation=0.0), ["hue", "value", "samples"]),
        (T.HSVJitter(saturation=0.0, value=0.0), ["hue", "samples"]),
    ],
)
def test_what_does_not_vary_has_no_panel(jitter: T.HSVJitter, headings: list[str]) -> None:
    seen = looked_at(jitter)
    figure = draw_colors({"one for all": without_learning(seen), "InstaAug": seen})
    texts = [text.get_text() for text in figure.texts]
    assert texts == ["input", "one for all", *headings, "InstaAug", *headings]
    assert len(figure.axes) == 2 * (1 + 2 * len(headings))
    assert_words_are_readable(figure)


def test_each_image_has_its_own_mean_hue() -> None:
    red, blue = (torch.tensor(rgb).view(3, 1, 1) for rgb in ([0.9, 0.1, 0.1], [0.1, 0.1, 0.9]))
    images = torch.stack([red.expand(3, 8, 8), blue.expand(3, 8, 8)])
    figure = draw_colors({"x": looked_at(T.HSVJitter(), images=images)})
    dots = [np.asarray(figure.axes[i].lines[0].get_xydata()) for i in (1, 5)]
    (x_red, y_red), (x_blue, y_blue) = (dot[0] for dot in dots)
    assert x_red == pytest.approx(0, abs=1e-3)  # at the top
    assert y_red > 0.6
    assert x_blue > 0.5  # two thirds around, counterclockwise
    assert y_blue < -0.3


def test_few_samples_and_many_are_shown_as_asked() -> None:
    seen = looked_at(T.HSVJitter(), n_samples=5)
    widths = [
        draw_colors({"x": seen}, n_samples=n).axes[3].images[0].get_size()[1] for n in (1, 2, 4)
    ]
    assert widths == [16, 16, 33]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'crops' has the factors crop"):
        draw_colors({"crops": looked_at(T.Crop())})
    with pytest.raises(ArgumentError, match="`n_samples` must be at least 1: got 0"):
        draw_colors({"x": looked_at(T.HSVJitter())}, n_samples=0)
    others = looked_at(T.HSVJitter(), images=photos(1))
    with pytest.raises(ArgumentError, match="of the same images"):
        draw_colors({"x": looked_at(T.HSVJitter()), "y": others})
