"""Losses of several views against closed forms, finite differences and naive loops."""

from math import log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from instaaug.objectives import ensemble_loss, exact_risk, n_views_loss, soft_top


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().flatten(1).mean(dim=1)


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


# --- soft_top -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    k=st.integers(2, 40),
    n=st.integers(1, 39),
    scale=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e3]),
    offset=st.sampled_from([0.0, -1e3, 1e3]),
    temperature=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 5),
)
def test_shares_sum_to_n_and_follow_the_scores(
    k: int, n: int, scale: float, offset: float, temperature: float, seed: int
) -> None:
    """In single precision, also for scores of a thousand at temperature 0.1."""
    scores = (scale * random(3, k, seed=seed)).float() + offset
    shares = soft_top(scores, n, temperature=temperature)
    assert bool(((shares >= 0) & (shares <= 1)).all())
    torch.testing.assert_close(
        shares.sum(dim=1), torch.full((3,), float(min(n, k))), rtol=1e-4, atol=1e-3
    )
    order = scores.argsort(dim=1)
    assert bool((shares.gather(1, order).diff(dim=1) >= -1e-6).all())


@pytest.mark.parametrize("n", [1, 3, 6])
def test_a_low_temperature_gives_the_hard_selection(n: int) -> None:
    scores = random(5, 7)
    expected = torch.zeros_like(scores).scatter(1, scores.topk(n, dim=1).indices, 1.0)
    shares = soft_top(scores, n, temperature=1e-4)
    torch.testing.assert_close(shares, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_high_temperature_treats_all_alike(dtype: torch.dtype) -> None:
    shares = soft_top(random(5, 8).to(dtype), 3, temperature=1e5)
    torch.testing.assert_close(shares, torch.full_like(shares, 3 / 8), atol=1e-4, rtol=0)


def test_ties_share_alike() -> None:
    shares = soft_top(torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]]), 2, temperature=0.02)
    torch.testing.assert_close(shares, torch.tensor([[1.0, 1 / 3, 1 / 3, 1 / 3, 0.0]]))


def test_two_choices_have_a_closed_form() -> None:
    r"""σ(a - t) + σ(b - t) = 1 at t = (a + b) / 2."""
    shares = soft_top(torch.tensor([[0.3, -0.5]], dtype=torch.float64), 1, temperature=0.4)
    expected = torch.tensor([[0.8 / 2 / 0.4, -0.8 / 2 / 0.4]], dtype=torch.float64).sigmoid()
    torch.testing.assert_close(shares, expected)


@pytest.mark.parametrize(("n", "expected"), [(0, 0.0), (4, 1.0), (9, 1.0)])
def test_where_there_is_no_choice_there_is_no_gradient(n: int, expected: float) -> None:
    scores = random(2, 4).requires_grad_()
    shares = soft_top(scores, n, temperature=1.0)
    assert bool((shares == expected).all())
    (gradient,) = torch.autograd.grad(shares.sum(), scores)  # and yet backward() works
    assert not gradient.any()


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 5.0])
def test_the_gradient_is_that_of_finite_differences(n: int, temperature: float) -> None:
    scores = random(3, 5, seed=n).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s: soft_top(s, n, temperature=temperature), (scores,), atol=1e-4
    )


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_single_precision_has_the_gradient_of_double_precision(offset: float) -> None:
    """Scores up to 1e3 at temperature 0.1, some of them close to the threshold."""
    scores = torch.tensor([[300.0, 0.05, 0.0, -0.03, -0.1, -700.0]]) + offset
    weight = random(1, 6, seed=1)

    def gradient(s: Tensor) -> Tensor:
        s = s.clone().requires_grad_()
        shares = soft_top(s, 2, temperature=0.1)
        return torch.autograd.grad((shares * weight.to(s)).sum(), s)[0]

    found = gradient(scores)
    assert bool(torch.isfinite(found).all())
    assert float(found.abs().max()) > 0.1
    torch.testing.assert_close(found.double(), gradient(scores.double()), atol=1e-3, rtol=1e-3)


# --- losses -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [(), (4,), (2, 3)])
def test_the_loss_of_n_views_is_that_of_a_naive_loop(rest: tuple[int, ...]) -> None:
    """Hard selection: the original and the n - 1 best others are averaged, image by image."""
    scores, outputs, targets = random(6, 5), random(6, 6, *rest, seed=1), random(6, *rest, seed=2)
    expected = []
    for n in (2, 4, 6):
        for i in range(6):
            best = [0] + [1 + int(k) for k in scores[i].argsort(descending=True)[: n - 1]]
            mean = torch.stack([outputs[i, k] for k in best]).mean(dim=0)
            expected.append((mean - targets[i]).square().mean())
    found = n_views_loss(
        scores, outputs, targets, lambda o, t: squared(o[:, None], t[:, None]),
        n_views=(2, 4, 6), temperature=1e-5,
    )  # fmt: skip
    torch.testing.assert_close(found, torch.stack(expected).mean(), atol=1e-7, rtol=1e-6)


def test_the_loss_of_n_views_has_the_gradient_of_finite_differences() -> None:
    outputs, targets = random(3, 6, 4, seed=1), torch.tensor([0, 3, 1])

    def loss(scores: Tensor) -> Tensor:
        return n_views_loss(
            scores, outputs, targets, cross_entropy, n_views=(2, 3, 9), temperature=0.7
        )

    assert torch.autograd.gradcheck(loss, (random(3, 5).requires_grad_(),), atol=1e-4)


def test_the_ensemble_loss_is_that_of_the_expected_output() -> None:
    logits, outputs, targets = random(3, 5), random(3, 5, 4, seed=1), torch.tensor([0, 3, 1])
    probs = logits.softmax(dim=1)
    mean = sum(probs[:, k, None] * outputs[:, k] for k in range(5))
    assert isinstance(mean, Tensor)
    found = ensemble_loss(logits.log_softmax(dim=1), outputs, targets, cross_entropy)
    torch.testing.assert_close(found, F.cross_entropy(mean, targets))


def test_the_exact_risk_has_the_gradient_of_the_enumerated_expectation() -> None:
    r"""∂/∂s_j Σ_k p_k ℓ_k = p_j (ℓ_j - Σ_k p_k ℓ_k), averaged over images."""
    scores, losses = random(3, 5).requires_grad_(), random(3, 5, seed=1)
    risk = exact_risk(losses.T, scores.log_softmax(dim=1))
    probs = scores.detach().softmax(dim=1)
    mean = (probs * losses).sum(dim=1, keepdim=True)
    torch.testing.assert_close(risk.detach(), mean.mean())
    (gradient,) = torch.autograd.grad(risk, scores)
    torch.testing.assert_close(gradient, probs * (losses - mean) / 3)


# --- what it is for -----------------------------------------------------------------------------


def test_views_that_err_alike_are_not_both_chosen() -> None:
    """Two choices are best alone and wrong for the same reason; the third differs.

    Class 0 is right. The original says nothing. Choices 0 and 1 are 55 % sure of class 0 and
    confuse it with class 1; choice 2 is 52 % sure and confuses it with class 2. Mean logits of
    two that err alike stay at 55 %; of two that differ, they rise.
    """
    logits = torch.tensor([[[0.0, 0, 0], [5, 4.8, 0], [5, 4.8, 0], [5, 0, 4.92]]])
    target = torch.tensor([0])
    losses = cross_entropy(logits[0], target.expand(4))
    assert bool((losses[1:3] < losses[3]).all())
    assert float(losses[1]) == pytest.approx(log(1 + 2.718281828**-0.2), abs=0.01)

    def learned(objective: str) -> set[int]:
        torch.manual_seed(0)
        scores = (0.01 * torch.randn(1, 3)).requires_grad_()
        optimizer = torch.optim.Adam([scores], lr=0.1)
        for step in range(100):
            optimizer.zero_grad()
            if objective == "single":
                loss = exact_risk(losses[1:, None], scores.log_softmax(dim=1))
            else:
                loss = n_views_loss(
                    scores, logits, target, cross_entropy,
                    n_views=(3,), temperature=0.1 ** (step / 100),
                )  # fmt: skip
            loss.backward()
            optimizer.step()
        return set(scores[0].topk(2).indices.tolist())

    assert learned("single") == {0, 1}
    assert 2 in learned("views")


def test_sure_views_count_more_where_views_are_merged_by_confidence() -> None:
    """With every choice selected, the merged output is the weighted mean in closed form."""
    outputs, targets = random(3, 4, 5), torch.tensor([0, 1, 2])
    weights = random(3, 4, seed=1).sigmoid()
    scores = torch.zeros(3, 3, dtype=torch.float64)
    found = n_views_loss(
        scores, outputs, targets, cross_entropy, n_views=(4,), temperature=1.0, confidence=weights
    )
    mean = (weights[..., None] * outputs).sum(dim=1) / weights.sum(dim=1, keepdim=True)
    torch.testing.assert_close(found, cross_entropy(mean, targets).mean())
