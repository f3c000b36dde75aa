"""The overview of lights shows each texture under each light, in a frame that says its part."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from instaaug.errors import ArgumentError, ShapeError
from paper.light_pictures import draw_lights
from paper.lights import LIGHTS, relight
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import photos


def shown(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def framed(figure: Figure) -> list[tuple[float, str]]:
    """Width and dashes of every frame around a light, without the key."""
    frames = [axes.patches[0] for axes in shown(figure)]
    return [(frame.get_linewidth(), str(frame.get_linestyle())) for frame in frames]


@pytest.mark.parametrize("n", [1, 3])
def test_textures_are_lit_and_stacked(n: int) -> None:
    textures = photos(n)
    figure = draw_lights(textures, lights=[1, 26, 44])
    for axes, number in zip(shown(figure), (1, 26, 44), strict=True):
        lit = relight(textures, LIGHTS[number - 1]).permute(0, 2, 3, 1).flatten(0, 1)
        np.testing.assert_allclose(np.asarray(axes.images[0].get_array()), lit, atol=1e-6)


def test_all_lights_have_numbers_and_names_that_can_be_read() -> None:
    figure = draw_lights(photos(2, height=8, width=8))
    words = [text.get_text() for text in figure.texts]
    assert len(shown(figure)) == 46
    assert words[28:30] == ["15 train", "D45, 4500 K"]
    assert words[0:2] == ["1", "D65 at 100%"]
    assert words[86:88] == ["44", "red"]
    assert words[-3:] == ["train", "test, easy", "test, hard"]
    assert_words_are_readable(figure)


def test_frames_differ_in_width_or_dashes_not_only_in_color() -> None:
    train, easy, hard = framed(draw_lights(photos(1), lights=[15, 16, 44]))
    assert train[0] > 2 * easy[0]
    assert easy[1] in ("-", "solid")
    assert hard[1] != easy[1]


def test_the_key_names_only_what_there_is() -> None:
    figure = draw_lights(photos(1), lights=[1, 2], train=[1, 2])
    assert [text.get_text() for text in figure.texts][-1] == "train"
    assert len(set(framed(figure))) == 1


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ShapeError, match="at most 6 color images: got 7 of 3 channels"):
        draw_lights(photos(7))
    with pytest.raises(ShapeError, match="got 1 of 1 channels"):
        draw_lights(photos(1, channels=1))
    with pytest.raises(ShapeError, match="`x` must be a batch of images"):
        draw_lights(torch.rand(3, 8, 8))
    with pytest.raises(ArgumentError, match="`lights` must be numbers from 1 to 46: got 47"):
        draw_lights(photos(1), lights=[1, 47])
    with pytest.raises(ArgumentError, match="`lights` must be numbers from 1 to 46: got none"):
        draw_lights(photos(1), lights=[])
    with pytest.raises(ArgumentError, match=r"`train` must be numbers.*got 0"):
        draw_lights(photos(1), train=[0])
