"""What θ may be: sizes, entropies, and the words for what it may not."""

from dataclasses import FrozenInstanceError
from math import inf, log, nan, pi

import pytest

from instaaug.errors import ArgumentError
from instaaug.spaces import Boxes, Choices, Interval, Level, Parameter, check_levels
from instaaug.transforms import (
    Affine,
    Blur,
    Brightness,
    Contrast,
    Crop,
    Noise,
    Perspective,
    Rotation,
    Scale,
    Shear,
    Transform,
    Translate,
)
from tests.support.unhooked import unhooked


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.0, 1.0), (-inf, 1.0), (0.0, inf), (nan, 1.0), (0.0, nan)]
)
def test_a_range_must_have_two_finite_ends(low: float, high: float) -> None:
    words = (
        rf"`low` must be below `high` and both finite: got {low} and {high} for 'angle'\. "
        r"Leave a parameter out by giving it no range at all\."
    )
    with pytest.raises(ArgumentError, match=words):
        Parameter("angle", low, high, identity=low)


@pytest.mark.parametrize("identity", [-0.1, 1.1, nan])
def test_the_identity_must_lie_in_the_range(identity: float) -> None:
    words = (
        rf"`identity` must lie in \[0\.0, 1\.0\]: got {identity} for 'size'\. "
        r"Widen the range so that doing nothing stays possible\."
    )
    with pytest.raises(ArgumentError, match=words):
        Parameter("size", 0.0, 1.0, identity=identity)


def test_a_circle_may_be_covered_once() -> None:
    assert Parameter("angle", -pi, pi, period=2 * pi).width == pytest.approx(2 * pi)
    words = (
        r"The range of 'angle' may cover its circle once: got a width of 8 for a period of "
        r"6\.283\. Narrow `low` and `high`\."
    )
    with pytest.raises(ArgumentError, match=words):
        Parameter("angle", -4.0, 4.0, period=2 * pi)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 0.0), (0.0, 0.25)])
def test_the_identity_may_be_an_end_of_the_range(low: float, high: float) -> None:
    assert Parameter("strength", low, high).width == high - low


def test_the_entropy_of_an_interval_is_the_log_of_its_volume() -> None:
    space = Interval((Parameter("a", -1.0, 1.0), Parameter("b", 0.0, 0.5)))
    assert space.size == 2
    assert space.max_entropy == pytest.approx(log(2.0 * 0.5))


def test_only_learned_parameters_count_for_the_default_band() -> None:
    learned = Parameter("strength", 0.0, 0.2)
    seed = Parameter("seed", 0.0, 1.0, learned=False)
    assert Interval((learned, seed)).default_diversity == Interval((learned,)).default_diversity
    both = Interval((learned, learned)).default_diversity
    assert both == pytest.approx((0.25**2, 0.75**2))


def test_boxes_have_four_columns_and_choices_as_many_as_a_row() -> None:
    assert Boxes(((1.0, 1),)).size == 4
    assert Choices(((1.0, 1.0), (-1.0, 1.0))).size == 2


@pytest.mark.parametrize("levels", [(), []], ids=str)
def test_there_must_be_a_box(levels: list[Level]) -> None:
    words = r"`levels` must hold at least one box: got none\. Try \(\(1\.0, 1\),\)\."
    with pytest.raises(ArgumentError, match=words):
        check_levels(levels)


@pytest.mark.parametrize(
    ("size", "n"), [(0.0, 1), (-0.5, 2), (1.01, 1), (0.5, 0), (0.5, -3), (nan, 1)]
)
def test_a_level_is_a_size_and_a_number_of_places(size: float, n: int) -> None:
    words = (
        r"`levels` must be pairs of a size in \(0, 1\] and a whole number n ≥ 1: "
        rf"got \({size}, {n}\)\. \(0\.5, 4\) means 4 × 4 boxes of half the image side\."
    )
    with pytest.raises(ArgumentError, match=words):
        Boxes(((1.0, 1), (size, n)))


def test_the_number_of_places_is_whole() -> None:
    with (
        unhooked(),
        pytest.raises(ArgumentError, match=r"a whole number n ≥ 1: got \(0\.5, 2\.5\)"),
    ):
        check_levels([(0.5, 2.5)])  # type: ignore[list-item]


@pytest.mark.parametrize("share", [-0.1, 1.5, nan])
def test_a_share_outside_lies_between_nothing_and_all(share: float) -> None:
    words = (
        rf"`max_outside` must be a share in \[0, 1\]: got {share}\. "
        r"0 keeps every box inside of the image\."
    )
    with pytest.raises(ArgumentError, match=words):
        Boxes(((1.0, 1),), max_outside=share)


def test_spaces_are_values() -> None:
    assert len({Boxes(((0.5, 2),)), Boxes(((0.5, 2),)), Boxes(((0.5, 3),))}) == 2
    with pytest.raises(FrozenInstanceError):
        Parameter("a", 0.0, 1.0).low = 0.5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("transform", "limits", "words"),
    [
        (Rotation, {"max_angle": 4.0}, r"The range of 'angle' may cover its circle once"),
        (Rotation, {"max_angle": 0.0}, r"`low` must be below `high`.* for 'angle'"),
        (Translate, {"max_shift": -0.1}, r"`low` must be below `high`.* for 'right'"),
        (Scale, {"min_factor": 1.5}, r"`identity` must lie in \[1\.5, 2\.0\]: got 1\.0"),
        (Scale, {"min_factor": 0.0}, r"`min_factor` must be above 0: got 0\.0\. .* Flip mirrors"),
        (Scale, {"min_factor": -1.0}, r"`min_factor` must be above 0: got -1\.0\."),
        (Shear, {"max_shear": 1.0}, r"`max_shear` must be below 1: got 1\.0\. .* becomes a line"),
        (Affine, {"max_turn": inf}, r"`low` must be below `high` and both finite.* for 'turn'"),
        (Perspective, {"max_tilt": 0.5}, r"`max_tilt` must be below 0\.5: got 0\.5\. Beyond, cor"),
        (Brightness, {"max_change": 0.0}, r"got 1\.0 and 1\.0 for 'factor'"),
        (Contrast, {"max_change": -0.5}, r"`low` must be below `high`.* for 'factor'"),
        (Blur, {"max_strength": 0.0}, r"`low` must be below `high`.* for 'strength'"),
        (Noise, {"max_strength": nan}, r"`low` must be below `high`.* for 'strength'"),
        (Crop, {"levels": ()}, r"`levels` must hold at least one box"),
        (Crop, {"levels": ((2.0, 3),)}, r"got \(2\.0, 3\)"),
        (Crop, {"max_outside": 2.0}, r"`max_outside` must be a share in \[0, 1\]: got 2\.0"),
    ],
    ids=str,
)
def test_limits_that_cannot_work_are_refused_at_the_door(
    transform: type[Transform], limits: dict[str, float], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        transform(**limits)
