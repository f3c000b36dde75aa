"""Raw numbers to intervals around the identity."""

from math import inf, log, pi

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from instaaug.parameterizations import UniformFamily, make_family
from instaaug.spaces import Interval, Parameter
from instaaug.transforms import TRANSFORMS

ANGLE = Parameter("angle", -pi, pi, period=2 * pi)
HUE = Parameter("hue", -0.5, 0.5, period=1.0)
SATURATION = Parameter("saturation", 0.0, 2.0, identity=1.0)
SIZE = Parameter("size", 0.2, 1.0, identity=1.0)  # nothing to gain on one side
LOPSIDED = Parameter("lopsided", -0.1, 3.0)
SEED = Parameter("seed", 0.0, 1.0, learned=False)
ALL = (ANGLE, HUE, SATURATION, SIZE, LOPSIDED, Parameter("shift", -0.5, 0.5))

raw_numbers = st.one_of(st.floats(-100, 100), st.sampled_from([-100.0, -20.0, 0.0, 20.0, 100.0]))


def family(*parameters: Parameter) -> UniformFamily:
    return UniformFamily(Interval(parameters))


def column(values: list[float]) -> Tensor:
    return torch.tensor(values)


@given(raw=st.lists(raw_numbers, min_size=12, max_size=12), dimensions=st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_the_identity_is_inside_and_the_range_is_admissible(
    raw: list[float], dimensions: int
) -> None:
    parameters = ALL[:dimensions]
    distribution = family(*parameters)(torch.tensor([raw[: 2 * dimensions]]))
    identity = column([p.identity for p in parameters])
    low, high = distribution.low[0], distribution.high[0]
    assert (low <= identity).all()
    assert (identity <= high).all()
    rounding = 1e-6
    assert (low >= column([p.low for p in parameters]) - rounding).all()
    assert (high <= column([p.high for p in parameters]) + rounding).all()
    assert (high - low <= column([p.period or inf for p in parameters]) + rounding).all()
    assert distribution.log_prob(identity[None]).isfinite().all()


@given(raw=st.lists(raw_numbers, min_size=12, max_size=12))
@settings(max_examples=50, deadline=None)
def test_entropy_and_its_gradient_stay_finite_whatever_the_network_says(raw: list[float]) -> None:
    numbers = torch.tensor([raw], requires_grad=True)
    distribution = family(*ALL)(numbers)
    assert distribution.entropy().isfinite().all()
    value = distribution.entropy().sum() + distribution.rsample().sum()
    (gradient,) = torch.autograd.grad(value, numbers)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("parameter", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize(("below", "above"), [(0.3, -1.2), (-2.0, 2.0), (0.0, 0.0), (100, -3.0)])
def test_each_raw_number_moves_its_own_end(
    parameter: Parameter, below: float, above: float
) -> None:
    distribution = family(parameter)(torch.tensor([[below, above]]))
    e, a, b = parameter.identity, parameter.low, parameter.high
    share_below, share_above = torch.tensor([below, above]).sigmoid().tolist()
    assert float(distribution.low) == pytest.approx(e - (e - a) * share_below, abs=1e-6)
    assert float(distribution.high) == pytest.approx(e + (b - e) * share_above, abs=1e-6)


@pytest.mark.parametrize("dimensions", range(1, 7))
def test_the_first_half_of_the_raw_numbers_are_the_lower_ends(dimensions: int) -> None:
    parameters = ALL[:dimensions]
    raw = torch.cat([torch.full((1, dimensions), 100.0), torch.full((1, dimensions), -100.0)], 1)
    distribution = family(*parameters)(raw)
    lows, identities = (
        column([p.low for p in parameters]),
        column([p.identity for p in parameters]),
    )
    torch.testing.assert_close(distribution.low[0], lows)
    torch.testing.assert_close(distribution.high[0], identities, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dimensions", [1, 3, 6])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_raw_at_gives_the_entropy_that_was_asked_for(dimensions: int, share: float) -> None:
    uniform = family(*ALL[:dimensions])
    target = uniform.max_entropy + dimensions * log(share)
    distribution = uniform(uniform.raw_at(target)[None])
    assert float(distribution.entropy()) == pytest.approx(target, abs=1e-3)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_raw_at_leaves_what_is_not_learned_out_of_account(share: float) -> None:
    uniform = family(SATURATION, SEED, LOPSIDED)
    target = uniform.max_entropy + log(share)
    distribution = uniform(uniform.raw_at(target)[None])
    assert float(distribution.entropy()) == pytest.approx(target, abs=1e-3)


@given(raw=st.lists(raw_numbers, min_size=4, max_size=4))
@settings(max_examples=20, deadline=None)
def test_a_parameter_that_is_not_learned_keeps_its_whole_range(raw: list[float]) -> None:
    distribution = family(SEED, ANGLE)(torch.tensor([raw]))
    assert float(distribution.low[0, 0]) == 0.0
    assert float(distribution.high[0, 0]) == 1.0


def test_no_gradient_reaches_what_is_not_learned() -> None:
    raw = torch.zeros(1, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(family(SEED, ANGLE)(raw).entropy().sum(), raw)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 0.25, 0.0, 0.25]]))


def test_the_largest_entropy_is_that_of_the_whole_range() -> None:
    uniform = family(ANGLE, SATURATION)
    assert uniform.max_entropy == pytest.approx(log(2 * pi) + log(2))
    widest = uniform(torch.full((1, 4), 100.0))
    assert float(widest.entropy()) == pytest.approx(uniform.max_entropy, abs=1e-5)


def test_half_precision_numbers_are_widened() -> None:
    assert family(ANGLE)(torch.zeros(2, 2, dtype=torch.bfloat16)).low.dtype == torch.float32


INTERVALS = [
    (name, space)
    for name in sorted(TRANSFORMS)
    for space in TRANSFORMS[name]().spaces.values()
    if isinstance(space, Interval)
]


@pytest.mark.parametrize(
    ("name", "space"), INTERVALS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_every_registered_interval_can_start_in_the_middle_of_its_band(
    name: str, space: Interval
) -> None:
    uniform = make_family(space)
    target = uniform.max_entropy + sum(log(d) for d in space.default_diversity) / 2
    start = uniform(uniform.raw_at(target)[None])
    assert float(start.entropy()) == pytest.approx(target, abs=1e-3)
