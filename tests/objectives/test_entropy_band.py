"""The controller that moves λ, and bands however they are given."""

import copy
from math import exp, inf, log, nan

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.objectives import Band, EntropyBand, Rule, band_limits
from instaaug.parameterizations import make_family
from instaaug.transforms import Crop
from tests.support.unhooked import unhooked

RULES = pytest.mark.parametrize("rule", ["pi", "multiplicative", "fixed"])
MOVING_RULES = pytest.mark.parametrize("rule", ["pi", "multiplicative"])
BANDS = st.tuples(st.floats(-5, 5, width=32), st.floats(0.125, 3, width=32)).map(
    lambda pair: (pair[0], pair[0] + pair[1])
)
DISTANCES = st.floats(0.01, 10)
WEIGHTS = st.floats(0.01, 5)
FEW = settings(max_examples=30, deadline=None)


def weight_after(band: EntropyBand, *entropies: float) -> float:
    for entropy in entropies:
        band.update(torch.tensor([entropy]))
    return float(band.weight)


@MOVING_RULES
@FEW
@given(limits=BANDS, distance=DISTANCES, weight=WEIGHTS)
def test_below_the_band_the_weight_rises(
    rule: Rule, limits: Band, distance: float, weight: float
) -> None:
    band = EntropyBand([limits], rule=rule, weight=weight)
    assert weight_after(band, limits[0] - distance) > weight
    # and once more, for the integral or the factor accumulates
    before = float(band.weight)
    assert weight_after(band, limits[0] - distance) > before


@MOVING_RULES
@FEW
@given(limits=BANDS, distance=DISTANCES, weight=WEIGHTS)
def test_above_the_band_the_weight_falls(
    rule: Rule, limits: Band, distance: float, weight: float
) -> None:
    band = EntropyBand([limits], rule=rule, weight=weight)
    assert weight_after(band, limits[1] + distance) < weight


@RULES
@FEW
@given(limits=BANDS, share=st.floats(0.01, 0.99), weight=WEIGHTS)
def test_inside_the_band_the_weight_rests(
    rule: Rule, limits: Band, share: float, weight: float
) -> None:
    band = EntropyBand([limits], rule=rule, weight=weight)
    inside = limits[0] + share * (limits[1] - limits[0])
    assert weight_after(band, *[inside] * 5) == pytest.approx(weight, rel=1e-6)


@FEW
@given(limits=BANDS, entropies=st.lists(st.floats(-20, 20), max_size=5), weight=WEIGHTS)
def test_a_fixed_weight_never_moves(limits: Band, entropies: list[float], weight: float) -> None:
    band = EntropyBand([limits], rule="fixed", weight=weight)
    assert weight_after(band, *entropies) == pytest.approx(weight, rel=1e-6)


def test_a_multiplicative_weight_stays_positive_and_below_its_largest() -> None:
    band = EntropyBand([(1.0, 2.0)], rule="multiplicative", factor=2.0, max_weight=10.0)
    assert weight_after(band, *[50.0] * 300) > 0
    assert weight_after(band, *[-50.0] * 300) == 10.0


def test_a_pi_weight_goes_below_zero_above_the_band() -> None:
    assert weight_after(EntropyBand([(1.0, 2.0)], weight=0.1), 4.0) < 0


def test_a_pi_weight_is_integral_plus_proportional_part() -> None:
    band = EntropyBand([(1.0, 2.0)], weight=0.5, proportional=2.0, integral=0.1)
    # one nat below twice, then two nats above: I = 0.5 + 0.1 + 0.1 - 0.2, λ = I + 2 · (-2)
    assert weight_after(band, 0.0, 0.0, 4.0) == pytest.approx(0.5 - 4.0)
    # back inside, only the integral is left
    assert weight_after(band, 1.5) == pytest.approx(0.5)


@pytest.mark.parametrize(("entropy", "limit"), [(-100.0, 3.0), (100.0, 0.0)])
def test_the_integral_does_not_wind_up(entropy: float, limit: float) -> None:
    band = EntropyBand([(1.0, 2.0)], integral=1.0, max_weight=3.0)
    assert weight_after(band, *[entropy] * 50, 1.5) == limit


def test_a_multiplicative_weight_moves_by_its_factor() -> None:
    band = EntropyBand([(1.0, 2.0)], rule="multiplicative", weight=0.4, factor=1.5)
    assert weight_after(band, 0.9, 0.0) == pytest.approx(0.4 * 1.5**2)
    assert weight_after(band, 2.1) == pytest.approx(0.4 * 1.5)


def test_the_violation_is_signed_and_in_nats() -> None:
    band = EntropyBand([(1.0, 2.0)] * 3)
    violation = band.violation(torch.tensor([0.25, 1.5, 5.0]))
    torch.testing.assert_close(violation, torch.tensor([0.75, 0.0, -3.0]))


def test_every_factor_has_a_weight_of_its_own() -> None:
    band = EntropyBand([(1.0, 2.0), (3.0, 4.0)], weight=0.1)
    low, rest = band.update(torch.tensor([0.0, 3.5])).tolist()
    assert low > 1
    assert rest == pytest.approx(0.1)


def test_what_update_returns_does_not_change_later() -> None:
    band = EntropyBand([(1.0, 2.0)])
    first = band.update(torch.tensor([0.0]))
    before = first.clone()
    band.update(torch.tensor([9.0]))
    assert torch.equal(first, before)


@RULES
def test_the_state_dict_holds_all_that_the_controller_knows(rule: Rule) -> None:
    band = EntropyBand([(1.0, 2.0), (0.0, 1.0)], rule=rule)
    band.update(torch.tensor([0.3, 4.0]))
    other = EntropyBand([(1.0, 2.0), (0.0, 1.0)], rule=rule, weight=0.7)
    other.load_state_dict(copy.deepcopy(band.state_dict()))
    for entropy in (torch.tensor([0.3, 4.0]), torch.tensor([1.5, 0.5])):
        assert torch.equal(band.update(entropy), other.update(entropy))
    assert not list(band.parameters())


def test_loading_a_state_does_not_undo_the_limits_that_were_given() -> None:
    band = EntropyBand([(4.0, 4.5)])
    band.load_state_dict(EntropyBand([(3.0, 3.5)]).state_dict())
    assert (float(band.low), float(band.high)) == (4.0, 4.5)


def test_in_half_precision_the_controller_keeps_counting() -> None:
    band = EntropyBand([(1.0, 2.0)]).bfloat16()
    for _ in range(100):
        band.update(torch.tensor([0.9], dtype=torch.bfloat16))
    assert float(band.memory) == pytest.approx(0.1 + 100 * 0.002 * 0.1, abs=1e-3)


# --- in closed loop -----------------------------------------------------------------------------

N_BOXES = 321
CROPS = make_family(Crop().spaces["box"])
STARTS = st.floats(0.2, 5.0)


def excess_in_the_last_third(
    starts: list[float], bands: list[Band], rule: Rule, optimizer: str, n_steps: int
) -> Tensor:
    """How far outside of its band, at worst, the entropy of each problem was at the end.

    Independent problems side by side, each with 321 logits that start as the library starts them,
    a loss of its own for every box (so that it prefers a single one), and a factor of one band.
    """
    random = torch.Generator().manual_seed(0)
    losses = torch.rand(len(starts), N_BOXES, generator=random)
    logits = torch.stack([CROPS.raw_at(start) for start in starts]).requires_grad_()
    step: torch.optim.Optimizer = (
        torch.optim.SGD([logits], lr=3.0)
        if optimizer == "sgd"
        else torch.optim.Adam([logits], lr=0.1)
    )
    band = EntropyBand(bands, rule=rule)
    worst = torch.full((len(starts),), -torch.inf)
    for i in range(n_steps):
        log_probs = logits.log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        if i >= n_steps * 2 // 3:
            outside = torch.maximum(band.low - entropy, entropy - band.high)
            worst = worst.maximum(outside.detach())
        risk = (log_probs.exp() * losses).sum(-1)
        (logits.grad,) = torch.autograd.grad((risk - band.update(entropy) * entropy).sum(), logits)
        step.step()
    return worst


def problems(lowest: float, highest: float) -> st.SearchStrategy[list[tuple[float, Band]]]:
    """Starts and bands, many at once; the extreme starts are always among them."""
    lows = st.floats(lowest, highest)
    bands = st.tuples(lows, st.floats(0.3, 0.8)).map(lambda pair: (pair[0], pair[0] + pair[1]))
    extremes = [st.tuples(st.just(start), bands) for start in (0.2, 5.0)]
    others = st.lists(st.tuples(STARTS, bands), min_size=14, max_size=14)
    return st.tuples(*extremes, others).map(lambda drawn: [drawn[0], drawn[1], *drawn[2]])


# Of 300 random problems of each kind none ended more than 0.04 nat outside; 0.1 is allowed.
@MOVING_RULES
@pytest.mark.parametrize(
    ("optimizer", "lows", "n_steps"), [("sgd", (1.0, 3.3), 1500), ("adam", (3.0, 4.5), 1200)]
)
def test_from_any_start_the_entropy_ends_inside_the_band_and_stays(
    rule: Rule, optimizer: str, lows: tuple[float, float], n_steps: int
) -> None:
    @settings(max_examples=1, deadline=None, derandomize=True)
    @given(drawn=problems(*lows))
    def check(drawn: list[tuple[float, Band]]) -> None:
        starts, bands = [start for start, _ in drawn], [band for _, band in drawn]
        with unhooked():  # thousands of steps; the shapes are checked above
            excess = excess_in_the_last_third(starts, bands, rule, optimizer, n_steps)
        assert excess.max() < 0.1, [drawn[i] for i in (excess >= 0.1).nonzero().flatten()]

    check()


@pytest.mark.parametrize("band", [(1.0, 1.5), (4.0, 4.5)])
def test_with_a_fixed_weight_the_same_problem_leaves_the_band(band: Band) -> None:
    """The counter-example that shows that the controller does the work."""
    with unhooked():
        excess = excess_in_the_last_third([sum(band) / 2], [band], "fixed", "sgd", 1500)
    assert excess > 0.3


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "weight"),
    [("pi", -0.1), ("fixed", -1.0), ("multiplicative", 0.0), ("pi", 11.0), ("pi", float("nan"))],
)
def test_a_weight_out_of_range_is_refused(rule: Rule, weight: float) -> None:
    with pytest.raises(ArgumentError, match=rf"`weight` must lie in \[0, .*got {weight}"):
        EntropyBand([(0.0, 1.0)], rule=rule, weight=weight)


def test_a_zero_weight_suits_the_rules_that_can_leave_it() -> None:
    assert weight_after(EntropyBand([(1.0, 2.0)], rule="pi", weight=0.0), 0.0) > 0


@pytest.mark.parametrize("limits", [(2.0, 1.0), (float("nan"), 1.0)])
def test_limits_in_the_wrong_order_are_refused(limits: Band) -> None:
    with pytest.raises(ArgumentError, match=r"`limits` must be two numbers \(low, high\)"):
        EntropyBand([limits])


def test_an_unknown_rule_is_refused_with_a_suggestion() -> None:
    with unhooked(), pytest.raises(UnknownNameError, match=r"Did you mean 'multiplicative'\?"):
        EntropyBand([(0.0, 1.0)], rule="multiplicativ")  # type: ignore[arg-type]


def test_the_paper_grid_holds_log_321_nats() -> None:
    assert CROPS.max_entropy == pytest.approx(log(N_BOXES))


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
