"""NT-Xent against loops and closed forms; φ's gradient against every possible outcome."""

from itertools import product
from math import exp, log

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError
from instaaug.objectives import ScoreFactor, score_risk
from instaaug.objectives.nt_xent import nt_xent


def some_views(n: int, *, seed: int = 0, d: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, d, generator=generator, dtype=torch.float64)


def naive_loss(rows: list[Tensor], anchor: int, partner: int, temperature: float) -> float:
    """The definition, by a loop over everything but the anchor."""
    cosine = [float(F.cosine_similarity(rows[anchor], row, dim=0)) for row in rows]
    total = sum(exp(c / temperature) for k, c in enumerate(cosine) if k != anchor)
    return -log(exp(cosine[partner] / temperature) / total)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_losses_are_those_of_a_double_loop(n: int, temperature: float) -> None:
    z = some_views(n)
    losses = nt_xent(z, temperature=temperature).losses
    rows = list(z.flatten(0, 1))
    expected = [naive_loss(rows, r, (r + n) % (2 * n), temperature) for r in range(2 * n)]
    torch.testing.assert_close(losses.flatten(), torch.tensor(expected, dtype=torch.float64))


def test_length_of_projections_does_not_matter() -> None:
    z = some_views(4)
    scale = torch.rand(2, 4, 1, dtype=torch.float64) * 9 + 0.1
    torch.testing.assert_close(
        nt_xent(z, temperature=0.5).losses, nt_xent(z * scale, temperature=0.5).losses
    )


@pytest.mark.parametrize("n", [1, 3, 8])
def test_parallel_projections_cost_the_logarithm_of_all_others(n: int) -> None:
    z = torch.ones(2, n, 3, dtype=torch.float64)
    found = nt_xent(z, temperature=0.2)
    torch.testing.assert_close(found.losses, torch.full_like(found.losses, log(2 * n - 1)))


def test_closed_form_where_inputs_are_at_right_angles() -> None:
    n, temperature = 4, 0.3
    z = torch.eye(n, dtype=torch.float64).expand(2, n, n)
    found = nt_xent(z, temperature=temperature)
    expected = log(1 + (2 * n - 2) * exp(-1 / temperature))
    torch.testing.assert_close(found.losses, torch.full_like(found.losses, expected))
    assert found.is_found.all()


def test_found_are_those_whose_nearest_is_the_partner() -> None:
    z = some_views(6, seed=3)
    rows = F.normalize(z.flatten(0, 1), dim=-1)
    cosines = (rows @ rows.T).fill_diagonal_(-2)
    expected = cosines.argmax(dim=1) == torch.arange(12).roll(6)
    found = nt_xent(z, temperature=0.5).is_found
    assert torch.equal(found.flatten(), expected)
    assert found.any()
    assert not found.all()


def test_credit_is_what_a_view_changes_less_what_does_not_depend_on_it() -> None:
    n, temperature = 3, 0.4
    z = some_views(n, seed=1)
    rows = list(z.flatten(0, 1))
    credited = nt_xent(z, temperature=temperature).credits().flatten()
    for c in range(2 * n):
        pair = {c, (c + n) % (2 * n)}
        credit = sum(naive_loss(rows, r, (r + n) % (2 * n), temperature) for r in pair)
        baseline = []
        for r in set(range(2 * n)) - pair:
            partner = (r + n) % (2 * n)
            whole = naive_loss(rows, r, partner, temperature)
            credit += whole - loss_without(rows, r, partner, {c}, temperature)
            absent = loss_without(rows, r, partner, pair, temperature)
            baseline.append(2 * absent + 1 - exp(-absent))
        expected = credit - sum(baseline) / len(baseline)
        assert float(credited[c]) == pytest.approx(expected)


def loss_without(
    rows: list[Tensor], anchor: int, partner: int, absent: set[int], temperature: float
) -> float:
    kept = [k for k in range(len(rows)) if k not in absent]
    return naive_loss(
        [rows[k] for k in kept], kept.index(anchor), kept.index(partner), temperature
    )


def expected_gradients(n: int, k: int, *, own_loss_only: bool) -> tuple[Tensor, Tensor]:
    """The gradient of the expected mean loss, and the mean of its estimate, over all outcomes."""
    generator = torch.Generator().manual_seed(7)
    table = torch.randn(n, k, 3, generator=generator, dtype=torch.float64)
    logits = torch.randn(n, k, generator=generator, dtype=torch.float64).requires_grad_()
    log_probs = logits.log_softmax(dim=-1)
    inputs = torch.arange(n).expand(2, n)
    exact = torch.zeros((), dtype=torch.float64)
    estimate = torch.zeros((), dtype=torch.float64)
    for outcome in product(range(k), repeat=2 * n):
        index = torch.tensor(outcome).view(2, n)
        found = nt_xent(table[inputs, index], temperature=0.3)
        prob = log_probs[inputs, index].sum().exp()
        exact = exact + prob * found.losses.mean()
        losses = found.losses if own_loss_only else found.credits()
        risk = score_risk(losses.detach(), [ScoreFactor(log_probs, index)], baseline="none")
        estimate = estimate + prob.detach() * risk
    (true_gradient,) = torch.autograd.grad(exact, logits, retain_graph=True)
    (mean_estimate,) = torch.autograd.grad(estimate, logits)
    return true_gradient, mean_estimate


def test_gradient_of_phi_is_unbiased() -> None:
    exact, estimate = expected_gradients(3, 2, own_loss_only=False)
    torch.testing.assert_close(estimate, exact, rtol=1e-9, atol=1e-12)


def test_crediting_a_view_with_its_own_loss_alone_would_be_biased() -> None:
    exact, estimate = expected_gradients(3, 2, own_loss_only=True)
    assert (estimate - exact).abs().max() > 0.05 * exact.abs().max()


def test_gradient_of_the_credited_losses_is_that_of_the_losses() -> None:
    z = some_views(4).requires_grad_()
    found = nt_xent(z, temperature=0.5)
    (expected,) = torch.autograd.grad(found.losses.mean(), z, retain_graph=True)
    (got,) = torch.autograd.grad(found.credits().mean(), z)
    torch.testing.assert_close(got, expected)


def test_credits_are_near_zero_on_average() -> None:
    credited = nt_xent(some_views(64, d=16), temperature=0.5).credits()
    assert abs(float(credited.mean())) < 0.3  # of losses of about 4.8


@pytest.mark.parametrize("temperature", [1e-3, 0.01])
def test_duplicates_and_low_temperatures_stay_finite(temperature: float) -> None:
    z = some_views(4).float()
    z[:, 1] = z[:, 0]  # two images alike
    z[1, 2] = -z[0, 2]  # two views of one image that could not be farther apart
    found = nt_xent(z.requires_grad_(), temperature=temperature)
    credited = found.credits()
    assert torch.isfinite(credited).all()
    (gradient,) = torch.autograd.grad(credited.mean(), z)
    assert torch.isfinite(gradient).all()


def test_half_precision_is_compared_in_single() -> None:
    z = some_views(3).half()
    assert nt_xent(z, temperature=0.1).losses.dtype == torch.float32


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_temperature_must_be_positive(temperature: float) -> None:
    with pytest.raises(ArgumentError, match="`temperature` must be above 0"):
        nt_xent(some_views(2), temperature=temperature)
