"""The decoded Gaussian against numeric integration, and its gradients against differences."""

import pytest
import torch
from torch import Generator, Tensor
from torch.autograd import gradcheck

from instaaug.distributions import DecodedGaussian
from tests.support.distribution_cases import random_decoder

LOW, HIGH = torch.tensor([-1.0, 0.2]).double(), torch.tensor([1.0, 1.0]).double()
LOC = torch.tensor([[0.3, 1.0], [-0.8, 0.0]]).double()
SCALE = torch.tensor([[0.5, 1.2], [1.5, 0.3]]).double()
DECODER = random_decoder(2).double()


def decoded(loc: Tensor = LOC, scale: Tensor = SCALE) -> DecodedGaussian:
    return DecodedGaussian(loc, scale, DECODER, LOW, HIGH)


def fine_grid(n: int = 300) -> tuple[Tensor, float]:
    """The middles (n², 1, 2) of the cells of the support, and their volume."""
    shares = (torch.arange(n).double() + 0.5) / n
    middles = torch.cartesian_prod(shares, shares) * (HIGH - LOW) + LOW
    return middles[:, None], float((HIGH - LOW).prod()) / n**2


@torch.no_grad()
def test_the_density_integrates_to_one_and_the_entropy_agrees_with_it() -> None:
    middles, volume = fine_grid()
    log_prob = decoded().log_prob(middles)
    mass = log_prob.exp() * volume
    torch.testing.assert_close(mass.sum(dim=0), torch.ones(2).double(), atol=1e-4, rtol=0)
    exact = -(mass * log_prob).sum(dim=0)
    torch.testing.assert_close(decoded().entropy(), exact, atol=0.02, rtol=0)


@torch.no_grad()
def test_samples_have_the_moments_of_the_density(generator: Generator) -> None:
    """Five standard errors: a right sampler fails with a probability of 5e-6."""
    n = 20_000
    middles, volume = fine_grid()
    mass = decoded().log_prob(middles).exp()[..., None] * volume
    drawn = decoded().sample((n,), generator=generator)
    for power in (1, 2):
        expected = (mass * middles**power).sum(dim=0)
        seen = drawn**power
        error = (seen.mean(dim=0) - expected).abs()
        assert (error < 5 * seen.std(dim=0) / n**0.5 + 1e-4).all()


@torch.no_grad()
def test_encoding_undoes_decoding() -> None:
    z = torch.randn(50, 2, generator=Generator().manual_seed(0)).double()
    torch.testing.assert_close(DECODER.encode(DECODER.decode(z)[0]), z)


def test_the_log_determinant_is_that_of_the_jacobian() -> None:
    z = torch.tensor([0.4, -1.1]).double()
    jacobian = torch.autograd.functional.jacobian(lambda z: DECODER.decode(z)[0], z)
    torch.testing.assert_close(DECODER.decode(z)[1], torch.logdet(jacobian))


@pytest.mark.parametrize("route", ["entropy", "rsample", "log_prob"])
def test_gradients_agree_with_finite_differences(route: str) -> None:
    def value(loc: Tensor, scale: Tensor) -> Tensor:
        if route == "entropy":
            return decoded(loc, scale).entropy()
        if route == "rsample":
            return decoded(loc, scale).rsample((3,), generator=Generator().manual_seed(1))
        return decoded(loc, scale).log_prob((LOW + HIGH) / 2)

    assert gradcheck(value, (LOC.clone().requires_grad_(), SCALE.clone().requires_grad_()))


@torch.no_grad()
def test_what_lies_outside_has_no_density() -> None:
    outside = torch.tensor([[1.1, 0.5], [0.0, 0.1]]).double()
    assert decoded().log_prob(outside).tolist() == [-torch.inf, -torch.inf]


@torch.no_grad()
def test_the_farthest_values_have_a_finite_density() -> None:
    assert decoded().log_prob(torch.stack([LOW, HIGH])).isfinite().all()
