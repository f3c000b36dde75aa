"""Distributions over a finite table: K from 1 to 1000, ordinary and extreme logits, no
replacement.

Every goodness of fit would fail a right sampler with probability 1e-5; seeds are fixed.
"""

from itertools import permutations
from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.distributions import Categorical

from instaaug.distributions import CategoricalTheta, FiniteTheta, JitteredBoxes
from instaaug.errors import NonFiniteError, ShapeError
from tests.support.distribution_cases import LOGIT_KINDS, cells, fit_p_values, logits_of
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p

SIZES = [1, 7, 321]
CLASSES = ["categorical", "jittered"]

each_size = pytest.mark.parametrize("k", SIZES)
each_kind = pytest.mark.parametrize("kind", LOGIT_KINDS)
each_class = pytest.mark.parametrize("name", CLASSES)


def finite(name: str, logits: Tensor) -> FiniteTheta:
    k = logits.shape[-1]
    table = torch.arange(4.0 * k).view(k, 4)
    if name == "categorical":
        return CategoricalTheta(logits, table)
    return JitteredBoxes(logits, table, torch.ones(k, 2), torch.full((k, 2), 1e9))


@each_class
@each_size
@each_kind
def test_samples_follow_the_density(name: str, k: int, kind: str, generator: Generator) -> None:
    distribution = finite(name, logits_of(kind, k))
    drawn = distribution.sample((50_000,), generator=generator)
    assert distribution.log_prob(drawn).isfinite().all()
    assert min(fit_p_values(distribution, drawn)) > ERROR_PROBABILITY


@each_class
@each_size
@each_kind
def test_probabilities_sum_to_one(name: str, k: int, kind: str) -> None:
    distribution = finite(name, logits_of(kind, k, (2,)))
    middles, volumes = cells(distribution)
    total = (distribution.log_prob(middles).exp() * volumes).sum(dim=0)
    torch.testing.assert_close(total, torch.ones(2))
    torch.testing.assert_close(distribution.probs.sum(dim=-1), torch.ones(2))


@each_class
@each_size
@each_kind
def test_entropy_is_the_mean_of_minus_log_prob(
    name: str, k: int, kind: str, generator: Generator
) -> None:
    distribution = finite(name, logits_of(kind, k))
    surprise = -distribution.log_prob(distribution.sample((20_000,), generator=generator))
    # Five standard errors: a right entropy fails with probability 6e-7.
    assert (surprise.mean() - distribution.entropy()).abs() <= 5 * surprise.std() / 141 + 1e-5


@each_class
@each_size
@each_kind
def test_entropy_equals_the_sum_and_stays_within_log_k(name: str, k: int, kind: str) -> None:
    logits = logits_of(kind, k)
    entropy = float(finite(name, logits).entropy())
    assert entropy == pytest.approx(float(Categorical(logits=logits.double()).entropy()), abs=1e-5)
    assert -1e-6 <= entropy <= log(k) + 1e-5


@each_class
@each_size
@each_kind
def test_gradients_are_finite_for_extreme_logits(name: str, k: int, kind: str) -> None:
    logits = logits_of(kind, k).clone().requires_grad_()
    distribution = finite(name, logits)
    value = distribution.entropy() + distribution.log_prob(distribution.sample())
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient.isfinite().all()


@each_class
def test_the_gradient_of_log_prob_is_one_hot_minus_p(name: str) -> None:
    logits = logits_of("normal", 7).clone().requires_grad_()
    distribution = finite(name, logits)
    sample = distribution.sample()
    (gradient,) = torch.autograd.grad(distribution.log_prob(sample), logits)
    chosen = torch.zeros(7).index_fill(0, distribution.index(sample), 1.0)
    torch.testing.assert_close(gradient, chosen - distribution.probs.detach())


# Trap 1 of DESIGN section 15: the official sampler adds exponential noise instead of Gumbel noise.
TRAP = torch.tensor([0.7, 0.2, 0.07, 0.03])
OFFICIAL = torch.tensor([0.80, 0.136, 0.045, 0.019])
N_TRAP = 40_000


@pytest.mark.parametrize("way", ["sample", "draw", "first_without_replacement"])
@each_class
def test_seventy_percent_are_drawn_as_seventy_percent(
    name: str, way: str, generator: Generator
) -> None:
    one = finite(name, TRAP.log())
    if way == "sample":
        drawn = one.sample((N_TRAP,), generator=generator)
    elif way == "draw":
        drawn = one.draw(N_TRAP, generator=generator)
    else:
        drawn = one.expand((N_TRAP,)).draw(1, replace=False, generator=generator)[0]
    counts = torch.bincount(one.index(drawn), minlength=4)
    assert chi_square_p(counts, TRAP) > ERROR_PROBABILITY
    assert chi_square_p(counts, OFFICIAL) < ERROR_PROBABILITY


def test_the_check_would_catch_exponential_noise(generator: Generator) -> None:
    exponential = -torch.rand(N_TRAP, 4, generator=generator).log()
    counts = torch.bincount((TRAP.log() + exponential).argmax(dim=-1), minlength=4)
    assert chi_square_p(counts, TRAP) < ERROR_PROBABILITY
    torch.testing.assert_close(counts / N_TRAP, OFFICIAL, atol=0.01, rtol=0)


@each_class
@pytest.mark.parametrize("k", [2, 7, 321])
@each_kind
def test_fewer_draws_than_rows_without_replacement_are_distinct(
    name: str, k: int, kind: str, generator: Generator
) -> None:
    distribution = finite(name, logits_of(kind, k, (2,)))
    index = distribution.index(distribution.draw(k - 1, replace=False, generator=generator))
    part = index.sort(dim=0).values
    assert (part[1:] != part[:-1]).all()


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("n", [7, 50])
def test_from_k_draws_on_each_row_comes_as_often_as_its_probability_says(
    k: int, n: int, generator: Generator
) -> None:
    distribution = finite("categorical", logits_of("normal", k, (2,)))
    expected = n * distribution.probs
    for index in (
        distribution.draw(n, replace=False, generator=generator),
        distribution.spread(n),
    ):
        counts = torch.nn.functional.one_hot(index, k).sum(dim=0)
        assert ((counts - expected).abs() < 1).all()


def test_a_choice_that_was_learned_to_be_avoided_is_not_forced_by_many_draws(
    generator: Generator,
) -> None:
    flip = finite("categorical", torch.tensor([5.0, -5.0]).repeat(100, 1))
    assert flip.draw(10, replace=False, generator=generator).float().mean() < 0.01
    assert (flip.spread(10) == 0).all()


def test_systematic_draws_are_unbiased_and_come_in_random_order(generator: Generator) -> None:
    p = torch.tensor([0.55, 0.45])
    draws = finite("categorical", p.log().repeat(20_000, 1)).draw(
        2, replace=False, generator=generator
    )
    # five standard errors of a share of 20,000 rows: a false alarm in about two million runs
    for share in draws.double().mean(dim=1):
        assert abs(float(share) - 0.45) < 5 * 0.5 / 20_000**0.5


@each_class
@pytest.mark.parametrize("n", [2, 3])
def test_draws_without_replacement_come_one_by_one(
    name: str, n: int, generator: Generator
) -> None:
    p = [0.5, 0.3, 0.15, 0.05]
    n_trials = 40_000
    one = finite(name, torch.tensor(p).log())
    drawn = one.expand((n_trials,)).draw(n, replace=False, generator=generator)
    code = (one.index(drawn) * 4 ** torch.arange(n)[:, None]).sum(dim=0)

    expected = torch.zeros(4**n, dtype=torch.float64)
    for order in permutations(range(4), n):
        probability, left = 1.0, 1.0
        for k in order:
            probability, left = probability * p[k] / left, left - p[k]
        expected[sum(k * 4**place for place, k in enumerate(order))] = probability
    assert float(expected.sum()) == pytest.approx(1.0)
    assert chi_square_p(torch.bincount(code, minlength=4**n), expected) > ERROR_PROBABILITY


@given(k=st.integers(1, 9), n=st.integers(1, 30), seed=st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_short_spread_is_the_top(k: int, n: int, seed: int) -> None:
    logits = torch.randn(2, k, generator=Generator().manual_seed(seed))
    n = min(n, k - 1) or 1
    expected = logits.argsort(dim=-1, descending=True).T[:n]
    assert torch.equal(finite("categorical", logits).spread(n), expected)
    jittered = finite("jittered", logits)
    assert torch.equal(jittered.index(jittered.spread(n)), expected)


@each_class
@pytest.mark.parametrize("index", [-1, 7, 1_000_000])
def test_an_index_outside_of_the_table_has_probability_zero(name: str, index: int) -> None:
    distribution = finite(name, logits_of("normal", 7, (2,)))
    sample = distribution.sample()
    outside = torch.full_like(sample, index)
    if name == "jittered":
        outside = torch.cat([outside[:, :1], sample[:, 1:]], dim=-1)
    assert (distribution.log_prob(outside) == -torch.inf).all()


@each_class
def test_theta_looks_the_row_up(name: str) -> None:
    distribution = finite(name, logits_of("normal", 7))
    middle = torch.tensor(3) if name == "categorical" else torch.tensor([3.0, 0.0, 0.0])
    assert torch.equal(distribution.theta(middle), torch.tensor([12.0, 13.0, 14.0, 15.0]))


@pytest.mark.parametrize("table", [torch.zeros(3, 4), torch.zeros(1, 4)], ids=["more", "fewer"])
def test_logits_and_table_must_agree(table: Tensor) -> None:
    match = r"`logits` must have one column per row of `table`: got shape \(5, 2\) for a table"
    with pytest.raises(ShapeError, match=match):
        CategoricalTheta(torch.zeros(5, 2), table)


def test_draws_from_logits_that_are_no_numbers_are_refused() -> None:
    logits = torch.zeros(2, 4)
    logits[1] = float("nan")
    unchecked = CategoricalTheta(logits, torch.arange(4.0)[:, None], validate_args=False)
    with pytest.raises(NonFiniteError, match=r"`logits` must be finite: got 4 NaN .* lower its"):
        unchecked.sample((3,))
