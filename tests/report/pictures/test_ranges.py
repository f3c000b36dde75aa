"""The ranges of inputs stand below one another on one scale."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.report.pictures.ranges import START, STOP, draw_ranges
from instaaug.report.theme import BLUE
from tests.support.drawn import assert_words_are_readable
from tests.support.observations import looked_at, photos


def test_every_parameter_is_a_column() -> None:
    seen = looked_at(T.Rotation(), T.Translate(), T.Flip(), T.HSVJitter(), images=photos(3))
    figure = draw_ranges(seen, titles=["a", "b", "c"])
    headings = [text.get_text() for text in figure.texts]
    assert headings[:11] == [
        "input", "rotation", "angle", "translate", "right", "down", "flip", "probability",
        "hsv jitter", "hue", "saturation",
    ]  # fmt: skip
    assert len(figure.axes) == 3 * (1 + 7 + 1)
    assert_words_are_readable(figure)


def test_ranges_of_inputs_are_on_one_scale() -> None:
    seen = looked_at(T.Scale(min_factor=0.5, max_factor=2.5), images=photos(2))
    (factor,) = seen.factors
    low, high = torch.tensor([[0.5], [1.5]]), torch.tensor([[1.5], [2.5]])
    figure = draw_ranges(replace(seen, factors=(replace(factor, low=low, high=high),)))
    middle = (START + STOP) / 2
    for axes, ends in ((figure.axes[1], (START, middle)), (figure.axes[4], (middle, STOP))):
        (thick,) = [line for line in axes.lines if line.get_color() == BLUE]
        assert np.asarray(thick.get_xdata()) == pytest.approx(ends)


def test_each_parameter_has_its_own_range() -> None:
    seen = looked_at(T.Translate(max_shift=0.5), images=photos(1))
    (factor,) = seen.factors
    low, high = torch.tensor([[-0.5, 0.1]]), torch.tensor([[-0.1, 0.4]])
    figure = draw_ranges(replace(seen, factors=(replace(factor, low=low, high=high),)))
    right, down = ([t.get_text() for t in axes.texts][1] for axes in figure.axes[1:3])
    assert (right, down) == ("−0.5 to −0.1", "+0.1 to +0.4")


def test_boxes_are_left_out() -> None:
    figure = draw_ranges(looked_at(T.Crop(), T.Blur()))
    assert "crop" not in [text.get_text() for text in figure.texts]


def test_what_cannot_be_drawn_is_refused() -> None:
    seen = looked_at(T.Scale())
    with pytest.raises(ArgumentError, match="with ranges or choices: got crop"):
        draw_ranges(looked_at(T.Crop()))
    with pytest.raises(ArgumentError, match="`n_samples` must be at least 1: got 0"):
        draw_ranges(seen, n_samples=0)
    many = replace(seen, factors=seen.factors * 12)
    with pytest.raises(ArgumentError, match="fewer parameters to be drawn side by side: got 12"):
        draw_ranges(many)
