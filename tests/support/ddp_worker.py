"""One of several processes that train an augmenter together."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from instaaug import InstaAug
from instaaug.transforms import Crop
from tests.support.models import images

__all__ = ["BATCH", "N_STEPS", "augmenter", "train", "train_together"]

N_STEPS, BATCH = 4, 8


def augmenter() -> InstaAug:
    """Exact, so that nothing depends on chance; far from its band, so that λ moves."""
    torch.manual_seed(0)
    aug = InstaAug(Crop(levels=((1.0, 1), (0.5, 2))), entropy=(0.2, 0.4), estimator="exact")
    aug.band.low.fill_(1.4)
    aug.band.high.fill_(1.5)
    return aug


def train(aug: InstaAug, call: torch.nn.Module, x: Tensor) -> list[Tensor]:
    """A few steps; gives λ after each."""
    optimizer = torch.optim.SGD(aug.parameters(), lr=0.1)
    weights = []
    for _ in range(N_STEPS):
        batch = call(x)
        aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        weights.append(aug.band.weight.clone())
    return weights


def train_together(rank: int, n_processes: int, meeting_point: Path, out: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=n_processes
    )
    aug = augmenter()
    x = images(BATCH).chunk(n_processes)[rank]
    weights = train(aug, DistributedDataParallel(aug), x)
    state = {name: tensor.clone() for name, tensor in aug.state_dict().items()}
    save_file({**state, "history": torch.stack(weights)}, out)
    distributed.destroy_process_group()
