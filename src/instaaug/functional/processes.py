"""What processes that train together agree on."""

from torch import Tensor, distributed

__all__ = ["mean_over_processes"]


def mean_over_processes(value: Tensor) -> Tensor:
    """The mean of a tensor over all processes; the tensor itself where there is but one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return value
    total = value.clone()
    distributed.all_reduce(total)
    return total / distributed.get_world_size()
