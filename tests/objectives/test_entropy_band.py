"""The controller that moves λ: step by step, and in closed loop."""

import copy
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.objectives import Band, EntropyBand, Rule
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
