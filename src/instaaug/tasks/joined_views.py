"""Projections of all processes as one batch, through which gradients flow back."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributed as dist
from torch.autograd import Function
from typing_extensions import override

__all__ = ["joined_views"]


def joined_views(z: Float[Tensor, "2 batch d"]) -> tuple[Float[Tensor, "2 joined d"], slice]:
    """Views of the inputs of all processes, in their order, and which of the inputs are our own.

    Processes may have different numbers of inputs. The gradient that reaches a projection is the
    sum of those from the losses of all processes; whoever averages gradients of parameters over
    processes thus has the gradient of the mean of their losses.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return z, slice(0, z.shape[1])
    counts = torch.zeros(dist.get_world_size(), dtype=torch.long, device=z.device)
    counts[dist.get_rank()] = z.shape[1]
    dist.all_reduce(counts)
    ends = counts.cumsum(dim=0).tolist()
    own = slice(ends[dist.get_rank()] - z.shape[1], ends[dist.get_rank()])
    joined: Tensor = _Joined.apply(z, own, ends[-1])  # type: ignore[no-untyped-call]
    return joined, own


class _Joined(Function):
    """Everyone puts its part into a batch of zeros, and all are added up."""

    @staticmethod
    @override
    def forward(ctx: Any, z: Tensor, own: slice, n_joined: int) -> Tensor:
        ctx.own = own
        joined = z.new_zeros(z.shape[0], n_joined, z.shape[2])
        joined[:, own] = z
        dist.all_reduce(joined)
        return joined

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total[:, ctx.own], None, None
