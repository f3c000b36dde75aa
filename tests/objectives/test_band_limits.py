"""Bands, however they are given."""

from math import exp, inf, log, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.objectives import Band, band_limits
from tests.support.unhooked import unhooked

LARGEST = {"crop": log(321), "rotation": log(6.28)}
DEFAULTS = {"crop": (0.06, 0.10), "rotation": (0.25, 0.75)}
FINITE = ("crop",)


def limits(**bands: object) -> dict[str, Band]:
    with unhooked():
        return band_limits(LARGEST, DEFAULTS, finite=FINITE, **bands)  # type: ignore[arg-type]


def test_a_band_in_nats_is_taken_as_it_is_for_every_factor() -> None:
    assert limits(entropy=(1.0, 1.5)) == {"crop": (1.0, 1.5), "rotation": (1.0, 1.5)}


@settings(max_examples=20, deadline=None)
@given(shares=st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(sorted))
def test_diversity_is_the_effective_share_of_the_space(shares: list[float]) -> None:
    band = limits(diversity=tuple(shares))["crop"]
    effective = [exp(h) / 321 for h in band]
    assert effective == pytest.approx(shares, rel=1e-9)


def test_without_any_band_every_factor_gets_its_default_diversity() -> None:
    assert limits()["crop"] == pytest.approx((log(0.06 * 321), log(0.10 * 321)))
    assert limits()["rotation"] == pytest.approx((log(6.28 / 4), log(6.28 * 3 / 4)))


def test_a_mapping_leaves_the_default_to_the_factors_it_does_not_name() -> None:
    assert limits(entropy={"crop": (3.0, 3.5)}) == {**limits(), "crop": (3.0, 3.5)}


def test_two_mappings_may_name_different_factors() -> None:
    both = limits(entropy={"crop": (3.0, 3.5)}, diversity={"rotation": (0.5, 1.0)})
    assert both == {"crop": (3.0, 3.5), "rotation": pytest.approx((log(3.14), log(6.28)))}


def test_a_mapping_in_nats_wins_over_a_diversity_for_all_the_others() -> None:
    both = limits(entropy={"crop": (3.0, 3.5)}, diversity=(0.5, 1.0))
    assert both == {"crop": (3.0, 3.5), "rotation": pytest.approx((log(3.14), log(6.28)))}


def test_a_band_given_as_a_list_is_as_good_as_a_tuple() -> None:
    assert limits(entropy=[1.0, 1.5]) == limits(entropy=(1.0, 1.5))


def test_a_single_choice_has_no_entropy_to_hold() -> None:
    assert band_limits({"crop": 0.0}, DEFAULTS, finite=FINITE) == {"crop": (0.0, 0.0)}


def test_an_interval_of_width_one_has_a_band_although_its_largest_entropy_is_zero() -> None:
    """A hue circle has width 1 and entropy log 1 = 0, and is not a single choice."""
    (band,) = band_limits({"rotation": 0.0}, DEFAULTS).values()
    assert band == pytest.approx((log(0.25), log(0.75)))


@pytest.mark.parametrize("n_choices", [2, 5, 10, 16])
def test_the_default_of_few_choices_can_be_reached(n_choices: int) -> None:
    """6 to 10 % of five boxes would be less than one box."""
    largest = log(n_choices)
    (band,) = band_limits({"crop": largest}, DEFAULTS, finite=FINITE).values()
    assert band == (largest / 4, largest / 2)


def test_a_lower_bound_that_no_table_can_break_is_raised_to_zero() -> None:
    assert limits(entropy={"crop": (-1.0, 2.0)})["crop"] == (0.0, 2.0)


def test_the_largest_entropy_itself_can_be_reached() -> None:
    assert limits(entropy={"crop": (log(321), log(321))})["crop"] == (log(321), log(321))


@pytest.mark.parametrize(
    ("bands", "message"),
    [
        ({"entropy": (1.0, 2.0), "diversity": (0.1, 0.2)}, "say the same thing twice: got both"),
        (
            {"entropy": {"crop": (1.0, 2.0)}, "diversity": {"crop": (0.1, 0.2)}},
            "say the same thing twice: got both",
        ),
        (
            {"entropy": {"crop": (3.0, 7.0)}},
            r"`entropy` cannot be reached: got H_max = 7 nats for 'crop', whose entropy is at "
            r"most 5\.77 \(the effect of 321 equal choices\)\. Lower the band",
        ),
        (
            {"entropy": {"crop": (-2.0, -1.0)}},
            r"`entropy` cannot be reached: got H_max = -1 nats for 'crop', .* never below 0",
        ),
        ({"entropy": (2.0, 1.0)}, r"`entropy` must be two numbers .* low ≤ high: got \(2\.0, 1"),
        ({"entropy": (nan, 1.0)}, r"`entropy` must be two numbers .*got \(nan, 1\.0\)"),
        ({"entropy": (1.0, nan)}, r"`entropy` must be two numbers .*got \(1\.0, nan\)"),
        ({"entropy": (-inf, 1.0)}, r"`entropy` must be two finite numbers: got \(-inf, 1\.0\)"),
        ({"entropy": (1.0,)}, r"`entropy` must be two numbers \(low, high\)"),
        ({"entropy": {"crop": 3.0}}, r"`entropy` must be two numbers .*got 3\.0"),
        ({"diversity": (0.2, 0.1)}, r"`diversity` must be two numbers .*got \(0\.2, 0\.1\)"),
        ({"diversity": (0.0, 0.1)}, r"`diversity` must be two shares .*got \(0\.0, 0\.1\)"),
        ({"diversity": (0.5, 1.1)}, r"`diversity` must be two shares .*got \(0\.5, 1\.1\)"),
        ({"diversity": (nan, 0.1)}, r"`diversity` must be two numbers .*got \(nan, 0\.1\)"),
        (
            {"diversity": {"crop": (0.001, 0.002)}},
            r"`diversity` cannot be reached: got at most 0\.002 for 'crop', where a single choice "
            r"is a share of 0\.00312",
        ),
    ],
)
def test_a_band_that_cannot_work_is_refused(bands: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        limits(**bands)


@pytest.mark.parametrize("argument", ["entropy", "diversity"])
def test_an_unknown_factor_is_refused_with_a_suggestion(argument: str) -> None:
    message = r"There is no factor called 'rotations'\. Did you mean 'rotation'\?.*crop, rotation"
    with pytest.raises(UnknownNameError, match=message):
        limits(**{argument: {"rotations": (0.1, 0.2)}})
