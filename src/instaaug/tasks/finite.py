"""Stop before what is not a number takes the place of the last good checkpoint."""

from collections.abc import Iterable
from math import isfinite

import torch
from torch import Tensor, nn

from instaaug.errors import NonFiniteError

__all__ = ["check_losses", "check_weights"]

ADVICE = (
    "Lower `learning_rate`, or bound the gradient by `clip`; the last checkpoint is from before."
)


def check_losses(losses: Tensor, *, step: int, epoch: int) -> None:
    """Raise if a loss is NaN or infinite; on an accelerator the end of the epoch tells."""
    if losses.device.type == "cpu" and not torch.isfinite(losses.detach().sum()):
        raise NonFiniteError(
            f"The loss became NaN or infinite in step {step} (epoch {epoch}). {ADVICE}"
        )


def check_weights(module: nn.Module, numbers: Iterable[float | int], *, epoch: int) -> None:
    """Raise if a parameter, or a number that describes the epoch, is NaN or infinite."""
    finite = all(torch.isfinite(p.detach()).all() for p in module.parameters())
    if not finite or not all(map(isfinite, numbers)):
        raise NonFiniteError(
            f"Weights or losses became NaN or infinite in epoch {epoch}. {ADVICE}"
        )
