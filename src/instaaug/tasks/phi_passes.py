"""Passes in which the augmenter alone learns, beside the one that it shares with the model."""

import torch
from torch import Generator, Tensor, nn

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError

__all__ = ["add_gradients", "drawn_batch"]


def drawn_batch(
    held_out: LabeledImages | None, n_images: int, generator: Generator, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Held-out images and targets without replacement; all of them if there are no more."""
    if not held_out:
        raise ArgumentError(
            "`held_out` must be images for the augmenter to learn from: got none. Keep a tenth of "
            "the training images from the model."
        )
    order = torch.randperm(len(held_out), generator=generator, device=generator.device)
    x, targets = held_out.__getitems__(order[:n_images].tolist())
    return x.to(device), targets.to(device)


def add_gradients(objective: Tensor, module: nn.Module) -> None:
    """Add the gradient of ``objective`` to that of the module's parameters, and to no others.

    The mean over all processes: these passes are not among those that Lightning averages.
    """
    learned = [p for p in module.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(objective, learned, materialize_grads=True)
    for parameter, gradient in zip(learned, gradients, strict=True):
        mean = gradient
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(mean)
            mean = mean / torch.distributed.get_world_size()
        parameter.grad = mean if parameter.grad is None else parameter.grad + mean
