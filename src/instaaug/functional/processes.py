"""What processes that train together agree on, and draw apart."""

import numpy as np
import torch
from torch import Generator, Tensor, distributed, nn

__all__ = [
    "copy_first_process",
    "gather_over_processes",
    "mean_over_processes",
    "step_generator",
]


def gather_over_processes(value: Tensor) -> Tensor:
    """The tensors of all processes, one row each, in the order of their numbers."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return value[None]
    rows = [torch.empty_like(value) for _ in range(distributed.get_world_size())]
    distributed.all_gather(rows, value)
    return torch.stack(rows)


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean of a tensor over all processes; the tensor itself where there is but one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    total = value.clone()
    distributed.all_reduce(total)
    return total / distributed.get_world_size()


def copy_first_process(module: nn.Module) -> None:
    """Give the module in every process the parameters and buffers that the first process has."""
    if distributed.is_available() and distributed.is_initialized():
        for tensor in module.state_dict().values():
            distributed.broadcast(tensor, src=0)


def step_generator(
    seed: int, *, rank: int, step: int, device: torch.device | str = "cpu"
) -> Generator:
    """The source of a step's draws, by which a run can be resumed anywhere.

    Arguments:
        seed: Of the run.
        rank: Number of the process.
        step: Number of the step.
        device: Where draws are made.

    Example:
        >>> again = [torch.rand(1, generator=step_generator(0, rank=0, step=7)) for _ in range(2)]
        >>> bool(again[0] == again[1])
        True
    """
    words = np.random.SeedSequence([seed, rank, step])
    return Generator(device).manual_seed(int(words.generate_state(1, np.uint64)[0]) >> 1)
