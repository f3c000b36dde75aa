"""The figure of colors has the panels that its parameters need."""

import numpy as np
import pytest
import torch

from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.report.pictures.colors import draw_colors
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import looked_at, photos, without_learning


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
