"""Models and learned ranges trained together, for tests of what Augerino finds out."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.methods.augerino import LearnedRanges
from tests.support.unhooked import unhooked

__all__ = ["seeded", "softplus", "trained"]


def seeded(seed: int = 0) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def softplus(raw: float) -> float:
    """log(1 + exp(raw)), the width that a raw width stands for."""
    return float(torch.tensor(raw, dtype=torch.float64).exp().log1p())


def trained(aug: LearnedRanges, x: Tensor, targets: Tensor, *layers: nn.Module) -> None:
    """160 steps of a new model and the ranges together, each with Adam."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for layer in layers:
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.reset_parameters()
    model, random = nn.Sequential(*layers), seeded(1)
    groups = [{"params": model.parameters(), "lr": 0.01}, {"params": aug.parameters(), "lr": 0.05}]
    optimizer = torch.optim.Adam(groups)
    for _ in range(160):
        rows = torch.randint(len(x), (48,), generator=random)
        with unhooked():  # checks of shapes would take most of the time
            batch = aug(x[rows], generator=random, targets=targets[rows])
            outputs = model(batch.inputs)
            losses = batch.losses(lambda y: F.cross_entropy(outputs, y, reduction="none"))  # noqa: B023
            objective = aug.objective(losses, batch)
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
