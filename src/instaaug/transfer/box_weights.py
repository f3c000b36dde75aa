"""Distributions over the boxes of training images: how much each box counts for the head."""

from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = [
    "class_weights",
    "losses_of_boxes",
    "minimize_risk",
    "own_weights",
    "shared_weights",
    "uniform_weights",
]

N_HALVINGS = 50
COLDEST, HOTTEST = 1e-4, 1e4  # λ in nats

Losses = Float[Tensor, "n k"]
Probs = Float[Tensor, "n k"]


def losses_of_boxes(logits: Float[Tensor, "n k classes"], targets: Int[Tensor, " n"]) -> Losses:
    """The cross-entropy of every box of every image."""
    index = targets[:, None, None].expand(-1, logits.shape[1], 1)
    return logits.logsumexp(dim=2) - logits.gather(2, index)[..., 0]


def uniform_weights(sides: Float[Tensor, " k"], least: float, n: int) -> Probs:
    """All boxes of at least this side, equally; what random crops are.

    Example:
        >>> uniform_weights(torch.tensor([1.0, 0.8, 0.4]), 0.8, 1)
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    large = (sides >= least - 1e-6).float()
    return (large / large.sum()).expand(n, -1)


def minimize_risk(losses: Losses, entropy: float) -> Probs:
    r"""The distributions with the smallest expected loss among those of this mean entropy.

    The minimizer of :math:`\sum_k p_k \ell_k - \lambda H(p)` is
    :math:`p_k \propto \exp(-\ell_k / \lambda)`; λ, one for all rows, is found by bisection.

    Arguments:
        losses: Of every box.
        entropy: Mean entropy in nats; the largest there can be gives equal weights.

    Example:
        >>> minimize_risk(torch.tensor([[0.0, 1.0]]), 0.5).round(decimals=2)
        tensor([[0.8000, 0.2000]])
    """
    if entropy >= log(losses.shape[1]) - 1e-6:
        return torch.full_like(losses, 1 / losses.shape[1])
    low, high = COLDEST, HOTTEST
    for _ in range(N_HALVINGS):
        middle = (low * high) ** 0.5
        found = torch.special.entr((-losses / middle).softmax(dim=1)).sum(dim=1).mean()
        low, high = (middle, high) if found < entropy else (low, middle)
    return (-losses / high).softmax(dim=1)


def shared_weights(losses: Losses, entropy: float) -> Probs:
    """One distribution for all images, from the mean loss of each box."""
    return minimize_risk(losses.mean(dim=0, keepdim=True), entropy).expand(len(losses), -1)


def class_weights(losses: Losses, targets: Int[Tensor, " n"], entropy: float) -> Probs:
    """One distribution per class, from the mean loss of each box over the class."""
    classes, index = targets.unique(return_inverse=True)
    sums = losses.new_zeros(len(classes), losses.shape[1]).index_add(0, index, losses)
    means = sums / index.bincount()[:, None]
    return minimize_risk(means, entropy)[index]


def own_weights(losses: Losses, entropy: float, *, share: float = 1.0) -> Probs:
    """One distribution per image, from its own losses, shrunk towards that for all.

    Arguments:
        losses: Of every box, by a head that has not learned from the image.
        entropy: Mean entropy in nats.
        share: 1 for an image's own losses, 0 for the mean of all.
    """
    common = losses.mean(dim=0, keepdim=True)
    own = losses - losses.mean(dim=1, keepdim=True) + common.mean()
    return minimize_risk(common + share * (own - common), entropy)
