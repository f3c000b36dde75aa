"""Classification by nearest neighbors: what inputs with similar features are."""

from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError, ShapeError
from instaaug.shapes import at_least_float32
from instaaug.tasks.probing import Features, check_finite_features, check_labeled_features

__all__ = ["neighbor_scores"]

LOWEST_SHARE = 1e-12  # of a class without a vote: its logarithm can be counted
MOST_SIMILARITIES = 2**24  # at once, 64 MB in single precision

Queries = Float[Tensor, "*rows_and_columns"]
"""As many rows as may be, their shape not yet checked: our own message comes first."""


@torch.no_grad()
def neighbor_scores(
    bank: Features,
    bank_targets: Tensor,
    queries: Queries,
    *,
    num_classes: int,
    k: int = 20,
    temperature: float = 0.07,
    most_similarities: int = MOST_SIMILARITIES,
) -> Float[Tensor, "m classes"]:
    r"""Logarithms of the shares of votes that the ``k`` most similar inputs give to each class.

    The similarity s of two inputs is the cosine of the angle between their features; a neighbor's
    vote weighs :math:`\exp(s / T)`. The shares of a query add up to 1, so that its row can be
    counted like logits; a share below 1e-12 is counted as that.

    Arguments:
        bank: Features of inputs whose classes are known.
        bank_targets: The class of each.
        queries: Features of the inputs to classify.
        num_classes: Number of columns to return.
        k: Neighbors with a vote; all, if the bank has no more.
        temperature: The lower, the more the nearest decide.
        most_similarities: How many to hold in memory at once; the result does not depend on it.

    Shape:
        - ``bank``: ``(N, D)``; ``bank_targets``: ``(N,)``; ``queries``: ``(M, D)``

    Raises:
        ShapeError: If features or targets are not one row and one class per input.
        ArgumentError: If features are not finite, or a setting is out of range.

    References:
        | Unsupervised Feature Learning via Non-Parametric Instance Discrimination
        | (Wu et al., 2018)
        | https://arxiv.org/abs/1805.01978

    Example:
        >>> bank = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
        >>> query = torch.tensor([[3.0, 3.0]])  # as near to each
        >>> scores = neighbor_scores(bank, torch.tensor([0, 1, 1]), query, num_classes=2)
        >>> scores.exp()
        tensor([[0.3333, 0.6667]])
    """
    _check_settings(k, temperature, most_similarities)
    check_labeled_features(
        bank, bank_targets, num_classes=num_classes, names=("bank", "bank_targets")
    )
    if queries.ndim != 2 or queries.shape[1] != bank.shape[1]:
        raise ShapeError(
            f"`queries` must be (M, {bank.shape[1]}), for `bank` has {bank.shape[1]} features: "
            f"got {tuple(queries.shape)}. Take both from the same encoder."
        )
    check_finite_features(queries, name="queries")
    directions = F.normalize(at_least_float32(bank), dim=1)
    targets = bank_targets.to(bank.device).long()
    at_once = max(1, most_similarities // len(bank))
    scores = directions.new_empty(len(queries), num_classes)
    for place, rows in zip(scores.split(at_once), queries.split(at_once), strict=True):
        similarities = F.normalize(rows.to(directions), dim=1) @ directions.T
        nearest, index = similarities.topk(min(k, len(bank)), dim=1)
        votes = ((nearest - nearest[:, :1]) / temperature).exp()
        place.zero_().scatter_add_(1, targets[index], votes / votes.sum(dim=1, keepdim=True))
    return scores.clamp_(min=LOWEST_SHARE).log_()


def _check_settings(k: int, temperature: float, most_similarities: int) -> None:
    for name, value in (("k", k), ("most_similarities", most_similarities)):
        if value < 1:
            raise ArgumentError(f"`{name}` must be 1 or more: got {value}. Raise it.")
    if not (temperature > 0 and isfinite(temperature)):
        raise ArgumentError(
            f"`temperature` must be positive and finite: got {temperature}. The usual one is 0.07."
        )
