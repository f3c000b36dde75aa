"""Where a model wants its images, and how."""

import torch
from torch import Tensor, nn

__all__ = ["device_of", "suited_to"]


def device_of(model: nn.Module) -> torch.device:
    """Where a model's parameters are; the processor if it has none."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def suited_to(model: nn.Module, x: Tensor) -> Tensor:
    """``x`` on the device and in the precision of the model's first parameter that has one.

    Example:
        >>> suited_to(nn.Linear(3, 2).double(), torch.zeros(1, 3)).dtype
        torch.float64
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), x)
    return x.to(like.device, like.dtype)
