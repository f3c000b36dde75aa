"""What does learning the augmentation cost in a training step?

As ``instaaug train`` runs it: model and images in channels-last order, which is faster for all.
Random crops use our own fast warp.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.augmentation import InstaAug
from instaaug.networks import PreActResNet18
from instaaug.speed.rivals import kornia_augmentations
from instaaug.speed.timing import ROUNDS, Row, Tables, compare
from instaaug.transforms import Composition, Crop, HSVJitter, Rotation, Transform

__all__ = ["learned_step", "main", "plain_step", "steps"]

BATCH, SIDE, CLASSES = 100, 64, 200
RANDOM = "random crops"
LEARNED: Mapping[str, tuple[Transform, ...]] = {
    "learned crops": (Crop(),),
    "learned rotation": (Rotation(),),
    "learned HSV": (HSVJitter(),),
    "learned, all three": (Crop(), Rotation(), HSVJitter()),
}
BUDGETS = {
    "PreActResNet-18": {"learned crops": 1.05, "learned rotation": 1.05, "learned HSV": 1.10},
    "16 times cheaper": {"learned crops": 1.25, "learned rotation": 1.25, "learned HSV": 1.25},
}
WIDTHS = {"PreActResNet-18": 1.0, "16 times cheaper": 0.25}
Step = Callable[[], None]


def plain_step(width: float, augment: Callable[[Tensor], Tensor]) -> Step:
    """A step with an augmentation that learns nothing."""
    model, x, y = _setting(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        F.cross_entropy(model(augment(x)), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def learned_step(width: float, transforms: tuple[Transform, ...]) -> Step:
    """A step in which the model and φ learn."""
    model, x, y = _setting(width)
    aug = InstaAug(transforms)
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


def _setting(width: float) -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model: nn.Module = PreActResNet18(CLASSES, width=width, stem_stride=2)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
    return model, x, torch.randint(CLASSES, (BATCH,))


def _random_crops(x: Tensor) -> Tensor:
    return Crop().apply(x, _random_boxes(len(x)))


def _random_all_three(x: Tensor) -> Tensor:
    n = len(x)
    angle = (torch.rand(n, 1) * 2 - 1) * torch.pi
    hsv = torch.rand(n, 3) * torch.tensor([1.0, 2.0, 2.0]) - torch.tensor([0.5, 0.0, 0.0])
    theta = torch.cat([_random_boxes(n), angle, hsv], dim=1)
    return Composition(LEARNED["learned, all three"]).apply(x, theta)


def _random_boxes(n: int) -> Tensor:
    size = torch.rand(n, 1) * 1.2 + 0.8
    center = (torch.rand(n, 2) * 2 - 1) * (1 - size / 2)
    return torch.cat([center, size, size], dim=1)


def steps(width: float) -> dict[str, Step]:
    """A step of each contender, with a classifier of this width."""
    fixed = {
        RANDOM: _random_crops,
        "no augmentation": lambda x: x,
        "random, all three": _random_all_three,
        **kornia_augmentations(SIDE),
    }
    plain = {name: plain_step(width, augment) for name, augment in fixed.items()}
    return plain | {name: learned_step(width, tau) for name, tau in LEARNED.items()}


def table(title: str, *, rounds: int = ROUNDS) -> list[Row]:
    """All contenders with one of the two classifiers."""
    return compare(steps(WIDTHS[title]), reference=RANDOM, budgets=BUDGETS[title], rounds=rounds)


def main(rounds: int = ROUNDS) -> Tables:
    """Both classifiers."""
    return {f"training step, {title}": table(title, rounds=rounds) for title in WIDTHS}
