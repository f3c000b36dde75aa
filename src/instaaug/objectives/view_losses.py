r"""Losses of test-time augmentation, from the outputs of a frozen model for every choice.

The outputs :math:`z_k` of a frozen model for the K choices are constants, so that each loss here
has an exact gradient in the scores :math:`s_k` of φ, at no pass through the model.
"""

from collections.abc import Callable, Sequence
from math import log
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["Loss", "ViewObjective", "ensemble_loss", "n_views_loss", "soft_top"]

ViewObjective = Literal["views", "ensemble", "single"]
Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs ``(B, ...)`` and targets to one loss per input."""

Scores = Float[Tensor, "batch k"]
N_HALVINGS = 40


def soft_top(scores: Scores, n: int, *, temperature: float) -> Scores:
    r"""How far each choice is among the ``n`` best: :math:`\sigma((s_k - t) / T)`, summing to n.

    The threshold t is found by bisection, and its gradient is that of the implicit function. As T
    falls, the n largest scores get 1 and all others 0.

    Example:
        >>> soft_top(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), 2, temperature=0.05).round()
        tensor([[1., 1., 0., 0.]])
    """
    k = scores.shape[1]
    if not 0 < n < k:
        return 0 * scores + float(n > 0)  # no choice is left, and no gradient
    scaled = scores / temperature
    best = scaled.detach().topk(n + 1, dim=1).values
    scaled = scaled - best[:, n - 1 : n]  # numbers near the threshold are small, hence exact
    fixed = scaled.detach()
    low = (best[:, n:] - best[:, n - 1 : n]) - log(n) - 1
    high = torch.full_like(low, log(k - n) + 1)
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        too_many = (fixed - middle).sigmoid().sum(dim=1, keepdim=True) > n
        low, high = torch.where(too_many, middle, low), torch.where(too_many, high, middle)
    threshold = (low + high) / 2
    slope = (fixed - threshold).sigmoid() * (threshold - fixed).sigmoid()
    slope = slope / slope.sum(dim=1, keepdim=True).clamp(min=torch.finfo(slope.dtype).tiny)
    moved = threshold + (slope * (scaled - fixed)).sum(dim=1, keepdim=True)
    return (scaled - moved).sigmoid()


def n_views_loss(
    scores: Scores,
    outputs: Float[Tensor, "batch k_and_one *rest"],
    targets: Tensor,
    loss: Loss,
    *,
    n_views: Sequence[int],
    temperature: float,
    confidence: Float[Tensor, "batch k_and_one"] | None = None,
) -> Float[Tensor, ""]:
    r"""The loss of the mean output of the original and the n - 1 best other choices.

    .. math:: \frac{1}{|N|} \sum_{n \in N}
              \ell\Bigl(\tfrac1n \bigl(z_0 + \textstyle\sum_k a^{(n)}_k z_k\bigr), y\Bigr),

    where a is :func:`soft_top` of n - 1. It knows how many views will be averaged: two that err
    alike are not both chosen, however good each may be. Several n at once make one order of
    views that serves them all. Where outputs are merged by confidence, each view counts as much as
    the model is sure of it.

    Arguments:
        scores: Of every choice but the original.
        outputs: Of the original and of every other choice, in that order.
        targets: What is right.
        loss: One loss per input.
        n_views: Numbers of views, the original among them.
        temperature: Of :func:`soft_top`.
        confidence: How much each view counts when it is chosen; None for equally.
    """
    total = scores.new_zeros(())
    for n in n_views:
        chosen = soft_top(scores, n - 1, temperature=temperature)
        weight = torch.cat([torch.ones_like(chosen[:, :1]), chosen], dim=1)
        if confidence is not None:
            weight = weight * confidence
        total = total + loss(_weighted_mean(weight, outputs), targets).mean()
    return total / len(n_views)


def ensemble_loss(
    log_probs: Scores, outputs: Float[Tensor, "batch k *rest"], targets: Tensor, loss: Loss
) -> Float[Tensor, ""]:
    r"""The loss of the mean output under p(θ|x), :math:`\ell(\sum_k p_k z_k, y)`: many views."""
    return loss(_weighted_mean(log_probs.exp(), outputs), targets).mean()


def _weighted_mean(
    weight: Scores, outputs: Float[Tensor, "batch k *rest"]
) -> Float[Tensor, " batch *rest"]:
    share = weight / weight.sum(dim=1, keepdim=True)
    flat = torch.bmm(
        share[:, None], outputs.flatten(2) if outputs.ndim > 2 else outputs[..., None]
    )
    return flat[:, 0].view(len(outputs), *outputs.shape[2:])
