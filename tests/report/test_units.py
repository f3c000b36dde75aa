"""Numbers are written as people write them."""

from math import pi

import pytest

from instaaug.report.units import choice_names, percent, unit_of
from instaaug.spaces import Choices, Parameter

ANGLE = Parameter("angle", -pi, pi, period=2 * pi)
HUE = Parameter("hue", -0.1, 0.1, period=1.0)
TURN = Parameter("turn", -pi / 4, pi / 4)
FACTOR = Parameter("factor", 0.0, 2.0, identity=1.0)
SHIFT = Parameter("right", -0.25, 0.25)
BLUR = Parameter("strength", 0.0, 0.05)
TINY = Parameter("strength", 0.0, 1e-6)
HUGE = Parameter("strength", 0.0, 3e7)


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        (ANGLE, pi / 2, "+90°"),
        (ANGLE, -pi / 3, "−60°"),
        (ANGLE, 1e-9, "0°"),
        (HUE, 0.05, "+18°"),
        (TURN, -pi / 4, "−45°"),
        (FACTOR, 1.25, "×1.25"),
        (FACTOR, 2.0, "×2"),
        (SHIFT, -2.5e-7, "0"),
        (SHIFT, 0.1, "+0.1"),
        (BLUR, 0.0123, "0.0123"),
        (TINY, 4.2e-7, "4.2e−07"),
        (HUGE, 1.5e7, "1.5e+07"),
        (HUGE, 0.0, "0"),
    ],
)
def test_values_have_their_unit_and_few_digits(
    parameter: Parameter, value: float, words: str
) -> None:
    assert unit_of(parameter).write(value) == words


def test_choices_have_words() -> None:
    mirrored = Choices(((1.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)))
    assert choice_names(mirrored) == ["as it is", "mirrored", "upside down", "both"]
    assert choice_names(Choices(((0.0,), (1.0,), (2.0,)))) == ["as it is", "choice 2", "choice 3"]


@pytest.mark.parametrize(
    ("p", "words"),
    [(1.0, "100%"), (0.0995, "10%"), (0.0994, "9.9%"), (0.001, "0.1%"), (0.0, "<0.1%")],
)
def test_small_probabilities_keep_a_digit(p: float, words: str) -> None:
    assert percent(p) == words
