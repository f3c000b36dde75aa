"""One of several processes that compare their views with those of all."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, distributed

from instaaug.objectives.nt_xent import NTXent, nt_xent
from instaaug.tasks.contrastive import gather_views

__all__ = ["compare_own", "compared", "inputs", "weight"]


def inputs(n: int) -> Tensor:
    return torch.randn(2, n, 5, generator=torch.Generator().manual_seed(n))


def weight() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()


def compared(x: Tensor, projection: Tensor) -> tuple[NTXent, slice]:
    joined, own = gather_views(x @ projection)
    return nt_xent(joined, temperature=0.3), own


def compare_own(rank: int, counts: list[int], meeting_point: Path, out: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=len(counts)
    )
    projection = weight()
    x = inputs(sum(counts)).split(counts, dim=1)[rank]
    found, own = compared(x, projection)
    losses = found.losses[:, own]
    losses.mean().backward()
    assert projection.grad is not None
    gradient = projection.grad
    distributed.all_reduce(gradient)
    results = {
        "losses": losses.detach().contiguous(),
        "credited": found.credits()[:, own].detach().contiguous(),
        "gradient": gradient / len(counts),
    }
    save_file(results, out)
    distributed.destroy_process_group()
