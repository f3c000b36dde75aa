"""What every distribution over θ keeps, whatever its class and batch shape.

Statistical tests have fixed seeds. Each comparison would fail a right sampler with probability
:data:`ERROR_PROBABILITY` = 1e-5 (goodness of fit) or 6e-7 (five standard errors).
"""

from inspect import isabstract

import pytest
import torch
from torch import Generator

from instaaug import distributions
from instaaug.distributions import DecodedGaussian, ThetaDistribution, UniformBox
from instaaug.errors import PathwiseGradientError
from tests.support.distribution_cases import CASES, Case, cells, fit_p_values
from tests.support.goodness_of_fit import ERROR_PROBABILITY

Shape = tuple[int, ...]
BATCH_SHAPES = [(), (3,), (2, 3)]
N_DRAWS = 20_000

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_case_with_cells = pytest.mark.parametrize(
    "case", [case for case in CASES if case.has_cells], ids=lambda case: case.name
)
each_batch_shape = pytest.mark.parametrize("batch_shape", BATCH_SHAPES, ids=str)


def test_no_class_is_left_out() -> None:
    public = [getattr(distributions, name) for name in distributions.__all__]
    concrete = {
        thing
        for thing in public
        if isinstance(thing, type)
        and issubclass(thing, ThetaDistribution)
        and not isabstract(thing)
    }
    assert {type(case()) for case in CASES} == concrete


@each_case
@each_batch_shape
@pytest.mark.parametrize("sample_shape", [(), (4, 5)], ids=str)
def test_a_sample_has_the_shape_sample_batch_event(
    case: Case, batch_shape: Shape, sample_shape: Shape
) -> None:
    distribution = case(batch_shape)
    sample = distribution.sample(sample_shape)
    assert distribution.batch_shape == batch_shape
    assert sample.shape == sample_shape + batch_shape + distribution.event_shape
    assert not sample.requires_grad
    assert distribution.log_prob(sample).shape == sample_shape + batch_shape
    assert distribution.theta(sample).shape[:-1] == sample_shape + batch_shape


@each_case
@each_batch_shape
@pytest.mark.parametrize("n", [1, 20])
def test_draws_and_spreads_come_first_in_the_shape(case: Case, batch_shape: Shape, n: int) -> None:
    distribution = case(batch_shape)
    expected = (n, *batch_shape, *distribution.event_shape)
    assert distribution.draw(n).shape == expected
    assert distribution.draw(n, replace=False).shape == expected
    assert distribution.spread(n).shape == expected


@each_case_with_cells
@each_batch_shape
def test_the_density_sums_to_one_over_the_support(case: Case, batch_shape: Shape) -> None:
    distribution = case(batch_shape)
    middles, volumes = cells(distribution)
    total = (distribution.log_prob(middles).exp() * volumes).sum(dim=0)
    torch.testing.assert_close(total, torch.ones(batch_shape))


@each_case_with_cells
@each_batch_shape
def test_samples_follow_the_density(case: Case, batch_shape: Shape, generator: Generator) -> None:
    distribution = case(batch_shape)
    drawn = distribution.sample((N_DRAWS,), generator=generator)
    assert distribution.log_prob(drawn).isfinite().all()
    assert min(fit_p_values(distribution, drawn)) > ERROR_PROBABILITY


@each_case
@each_batch_shape
def test_entropy_is_the_mean_of_minus_log_prob(
    case: Case, batch_shape: Shape, generator: Generator
) -> None:
    distribution = case(batch_shape)
    surprise = -distribution.log_prob(distribution.sample((N_DRAWS,), generator=generator))
    standard_error = surprise.std(dim=0) / N_DRAWS**0.5
    error = (surprise.mean(dim=0) - distribution.entropy()).abs()
    assert (error <= 5 * standard_error + 1e-5).all()


@each_case_with_cells
@each_batch_shape
def test_entropy_is_minus_the_sum_of_p_log_p(case: Case, batch_shape: Shape) -> None:
    distribution = case(batch_shape)
    middles, volumes = cells(distribution)
    log_prob = distribution.log_prob(middles)
    expected = -(log_prob.exp() * log_prob * volumes).sum(dim=0)
    torch.testing.assert_close(distribution.entropy(), expected, atol=1e-5, rtol=1e-5)


@each_case
@pytest.mark.parametrize("batch_shape", [(), (3,)], ids=str)
def test_expand_repeats_the_distribution(case: Case, batch_shape: Shape) -> None:
    distribution = case(batch_shape)
    larger = distribution.expand((4, *batch_shape))
    sample = distribution.sample((5, 4))
    assert type(larger) is type(distribution)
    assert larger.batch_shape == (4, *batch_shape)
    assert larger.event_shape == distribution.event_shape
    assert larger.sample((5,)).shape == sample.shape
    torch.testing.assert_close(larger.entropy(), distribution.entropy().expand(4, *batch_shape))
    torch.testing.assert_close(larger.log_prob(sample), distribution.log_prob(sample))
    torch.testing.assert_close(larger.theta(sample), distribution.theta(sample))


@each_case
@each_batch_shape
@pytest.mark.parametrize("route", ["log_prob", "entropy"])
def test_a_gradient_reaches_every_parameter(
    case: Case, batch_shape: Shape, route: str, generator: Generator
) -> None:
    distribution, parameters = case.make(batch_shape)
    sample = distribution.sample((1,), generator=generator)
    value = distribution.entropy() if route == "entropy" else distribution.log_prob(sample)
    for gradient in torch.autograd.grad(value.sum(), parameters):
        assert gradient.isfinite().all()
        assert (gradient != 0).all()


@each_case
@each_batch_shape
def test_has_rsample_tells_the_truth(case: Case, batch_shape: Shape, generator: Generator) -> None:
    distribution, parameters = case.make(batch_shape)
    assert distribution.has_rsample is isinstance(distribution, UniformBox | DecodedGaussian)
    if not distribution.has_rsample:
        words = r"has no pathwise gradient \(`has_rsample` is False\)\. Use estimator=\"score\"\."
        with pytest.raises(PathwiseGradientError, match=f"{type(distribution).__name__} {words}"):
            distribution.rsample((2,))
        assert not distribution.draw(2).requires_grad
        return
    if isinstance(distribution, DecodedGaussian):
        assert distribution.draw(2).requires_grad
        return  # its gradient has a test of its own
    low, high = parameters
    theta = distribution.rsample((1,), generator=generator)
    along_low, along_high = torch.autograd.grad(theta.sum(), parameters)
    u = ((theta - low) / (high - low)).detach()[0]  # θ = low + u (high - low)
    torch.testing.assert_close(along_low, 1 - u)
    torch.testing.assert_close(along_high, u)
    assert distribution.draw(2).requires_grad


@each_case
@pytest.mark.parametrize("replace", [True, False])
def test_a_seeded_generator_repeats_to_the_last_bit(case: Case, replace: bool) -> None:
    distribution = case((3,))

    def drawn(seed: int) -> list[torch.Tensor]:
        seeded = Generator().manual_seed(seed)
        return [
            distribution.sample((50,), generator=seeded),
            distribution.draw(50, replace=replace, generator=seeded).detach(),
        ]

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@each_case
def test_a_given_generator_leaves_the_global_one_alone(case: Case, generator: Generator) -> None:
    distribution = case((3,))
    before = torch.get_rng_state()
    distribution.sample((5,), generator=generator)
    distribution.draw(5, generator=generator)
    distribution.draw(5, replace=False, generator=generator)
    distribution.spread(5)
    assert torch.equal(before, torch.get_rng_state())


@each_case
def test_without_a_generator_the_global_one_decides(case: Case) -> None:
    distribution = case((3,))
    torch.manual_seed(5)
    first = distribution.sample((20,))
    second = distribution.sample((20,))
    torch.manual_seed(5)
    assert torch.equal(first, distribution.sample((20,)))
    assert not torch.equal(first, second)


@each_case
@each_batch_shape
def test_a_spread_is_the_same_every_time_and_lies_inside(case: Case, batch_shape: Shape) -> None:
    distribution = case(batch_shape)
    spread = distribution.spread(13)
    assert torch.equal(spread, distribution.spread(13))
    assert distribution.log_prob(spread.detach()).isfinite().all()
