"""Independent finite factors as one choice among all combinations."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.distributions.categorical_theta import CategoricalTheta
from instaaug.distributions.joint import Joint
from instaaug.errors import ArgumentError

__all__ = ["enumerated"]


def enumerated(joint: Joint) -> CategoricalTheta:
    """One categorical distribution over the product of the factors' tables, the last fastest.

    Example:
        >>> flip = CategoricalTheta(torch.zeros(2, 2), torch.tensor([[1.0], [-1.0]]))
        >>> box = CategoricalTheta(torch.zeros(2, 3), torch.rand(3, 4))
        >>> both = enumerated(Joint({"box": box, "flip": flip}))
        >>> both.table.shape, both.table[:4, 4]
        (torch.Size([6, 5]), tensor([ 1., -1.,  1., -1.]))
    """
    ranges = sorted(n for n, f in joint.factors.items() if not isinstance(f, CategoricalTheta))
    if ranges:
        raise ArgumentError(
            "`joint` must consist of choices from tables to list all combinations: "
            f"{', '.join(ranges)} can take any value in a range. Use crops without jitter, flips."
        )
    factors = list(joint.finite().values())
    logits, table = factors[0].logits, factors[0].table
    for factor in factors[1:]:
        logits = (logits[..., :, None] + factor.logits[..., None, :]).flatten(-2)
        table = _combined(table, factor.table)
    return CategoricalTheta(logits, table, validate_args=False)


def _combined(first: Float[Tensor, "k d"], second: Float[Tensor, "l e"]) -> Float[Tensor, "kl de"]:
    rows = first.repeat_interleave(len(second), dim=0)
    return torch.cat([rows, second.repeat(len(first), 1)], dim=1)
