r"""Estimators of the gradient of the expected loss, :math:`\nabla \mathbb{E}[\ell(\theta)]`.

Each function returns a scalar whose gradient is the estimate. All are unbiased; they differ in
variance. The pathwise estimator needs no function: the gradient of the mean loss flows through
the transform.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from instaaug.errors import ArgumentError

__all__ = [
    "Baseline",
    "ScoreFactor",
    "closed_form_risk",
    "exact_risk",
    "leave_one_out",
    "score_risk",
]

Baseline = Literal["none", "batch", "value", "rloo", "critic"]
Losses = Float[Tensor, "n batch"]
Scalar = Float[Tensor, ""]


@dataclass(frozen=True)
class ScoreFactor:
    """What the score function needs to know of one finite factor.

    Arguments:
        log_probs: Log-probability of every choice, with gradient.
        index: The choices that were drawn.
        critic: Predicted loss of every choice, with gradient.
    """

    log_probs: Float[Tensor, "batch k"]
    index: Int[Tensor, "n batch"]
    critic: Float[Tensor, "batch k"] | None = None

    def at_draws(self, table: Float[Tensor, "batch k"]) -> Losses:
        """The entries of ``table`` that belong to the draws."""
        return table.gather(1, self.index.T).T


def exact_risk(losses: Float[Tensor, "k batch"], log_probs: Float[Tensor, "batch k"]) -> Scalar:
    r"""The expected loss itself, :math:`\sum_k p_k \ell_k`, from the loss of every choice."""
    return (log_probs.exp().T * losses).sum(dim=0).mean()


def score_risk(
    losses: Losses,
    factors: Sequence[ScoreFactor],
    *,
    baseline: Baseline,
    value: Float[Tensor, " batch"] | None = None,
) -> Scalar:
    r"""Mean loss, plus the score-function surrogate :math:`\overline{(\ell - b)\,\log p(\theta)}`.

    Baselines b: ``"none"``; ``"batch"``, the mean of all other losses; ``"value"``, a prediction
    from the input; ``"rloo"``, the mean over the other samples of the same input; ``"critic"``,
    a prediction from input and choice, with the exact gradient of its own expectation added back.
    ``value`` and the critics are fitted by their squared error, which is part of the result; it
    does not touch anything else, for their inputs are detached.

    References:
        | Simple statistical gradient-following algorithms (Williams, 1992)
        | Buy 4 REINFORCE Samples, Get a Baseline for Free! (Kool et al., 2019)
        | MuProp: Unbiased Backpropagation for Stochastic Neural Networks (Gu et al., 2016)
    """
    risk = losses.mean()
    if not factors:
        return risk
    fixed = losses.detach()
    if baseline == "critic":
        return risk + torch.stack([_critic_term(fixed, factor) for factor in factors]).sum()
    advantage = fixed - _baseline_values(fixed, baseline, value)
    log_prob = torch.stack([factor.at_draws(factor.log_probs) for factor in factors]).sum(dim=0)
    risk = risk + (advantage * log_prob).mean()
    if baseline == "value" and value is not None:
        risk = risk + (value - fixed).square().mean()
    return risk


def closed_form_risk(
    losses: Losses,
    factors: Sequence[ScoreFactor],
    *,
    baseline: Baseline,
    value: Float[Tensor, " batch"] | None = None,
) -> Scalar:
    r"""Mean loss, plus the squared error of predicted losses, :math:`V(x) + \sum_f A_f(x, k_f)`.

    :math:`A_f` is the critic of a factor. The draws may come from any distribution; what is
    predicted does not depend on it. V is fitted apart, so that its error does not disturb A: for
    A, V is the mean over the samples of an input with the baseline ``"rloo"``, if there are
    several; otherwise ``value``, if there is one, less its mean error in the batch; and zero with
    ``"none"``.
    """
    predicted = [f.at_draws(f.critic) for f in factors if f.critic is not None]
    if not predicted:
        return losses.mean()
    rest = losses.detach() - torch.stack(predicted).sum(dim=0)
    if baseline == "rloo" and len(rest) > 1:
        error = rest.var(dim=0).mean()
    elif baseline == "none":
        error = rest.square().mean()
    else:
        apart = rest if value is None else rest - value.detach()
        error = (apart - apart.mean()).square().mean()
    if value is not None:
        error = error + (rest.detach() - value).square().mean()
    return losses.mean() + error


def _baseline_values(
    losses: Losses, baseline: Baseline, value: Float[Tensor, " batch"] | None
) -> Losses | float:
    if baseline == "batch":
        return leave_one_out(losses.flatten(), dim=0).view_as(losses)
    if baseline == "rloo":
        if len(losses) < 2:
            raise ArgumentError(
                '`n_samples` must be at least 2 for baseline="rloo": got 1. '
                "Call aug(x, n_samples=2), or choose another baseline."
            )
        return leave_one_out(losses, dim=0)
    if baseline == "value" and value is not None:
        return value.detach().expand_as(losses)
    return 0.0


def _critic_term(losses: Losses, factor: ScoreFactor) -> Scalar:
    assert factor.critic is not None  # noqa: S101  # the augmenter that chose the baseline made it
    predicted = factor.at_draws(factor.critic)
    expected = (factor.log_probs.exp() * factor.critic.detach()).sum(dim=-1).mean()
    residual = losses - predicted.detach()
    score = (residual * factor.at_draws(factor.log_probs)).mean()
    return expected - expected.detach() + score + (predicted - losses).square().mean()


def leave_one_out(losses: Tensor, *, dim: int) -> Tensor:
    """The mean of all others along ``dim``; zero for a single one.

    Example:
        >>> leave_one_out(torch.tensor([1.0, 2.0, 6.0]), dim=0)
        tensor([4.0000, 3.5000, 1.5000])
    """
    n = losses.shape[dim]
    return (losses.sum(dim=dim, keepdim=True) - losses) / max(n - 1, 1)
