"""What does learning the augmentation cost in a training step?"""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.record import Row, compare, save
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.networks import PreActResNet18

__all__ = ["main"]

BATCH, SIDE, CLASSES = 100, 64, 200
RANDOM = "random crops"
BUDGETS = {
    "PreActResNet-18": {"learned crops": 1.05, "learned rotation": 1.05, "learned HSV": 1.10},
    "16 times cheaper": {"learned crops": 1.25, "learned rotation": 1.25, "learned HSV": 1.25},
}
WIDTHS = {"PreActResNet-18": 1.0, "16 times cheaper": 0.25}


def fixed_step(width: float, *, crops: bool) -> Callable[[], None]:
    model, x, y = setting(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    tau = T.Crop()

    def step() -> None:
        size = torch.rand(BATCH, 1) * 1.2 + 0.8
        center = (torch.rand(BATCH, 2) * 2 - 1) * (1 - size / 2)
        inputs = tau.apply(x, torch.cat([center, size, size], dim=1)) if crops else x
        F.cross_entropy(model(inputs), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def learned_step(width: float, transform: T.Transform) -> Callable[[], None]:
    model, x, y = setting(width)
    aug = InstaAug(transform)
    groups: list[dict[str, Any]] = [
        {"params": model.parameters()},
        {"params": aug.parameters(), "lr": 1e-4},
    ]
    optimizer = torch.optim.SGD(groups, lr=1e-3, momentum=0.9)

    def step() -> None:
        batch = aug(x)
        losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def setting(width: float) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = PreActResNet18(CLASSES, width=width, stem_stride=2)
    return model, torch.rand(BATCH, 3, SIDE, SIDE), torch.randint(CLASSES, (BATCH,))


def main() -> dict[str, list[Row]]:
    tables = {}
    for title, width in WIDTHS.items():
        contenders = {
            RANDOM: fixed_step(width, crops=True),
            "no augmentation": fixed_step(width, crops=False),
            "learned crops": learned_step(width, T.Crop()),
            "learned rotation": learned_step(width, T.Rotation()),
            "learned HSV": learned_step(width, T.ColorJitter()),
        }
        tables[f"training step, {title}"] = compare(
            contenders, reference=RANDOM, budgets=BUDGETS[title]
        )
    save("training_step", tables, seed=0, batch=BATCH, side=SIDE, stem_stride=2)
    return tables
