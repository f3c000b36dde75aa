"""The paper's first experiment: recover how far each rotated sprite may still be rotated."""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.data import RotatedSprites
from instaaug.distributions import UniformBox
from instaaug.methods.augerino import Augerino
from instaaug.networks import SmallCNN
from instaaug.parameterizations import Conditioning
from instaaug.transforms import Rotation

__all__ = [
    "RotationMethod",
    "RotationResult",
    "RotationSettings",
    "interval_iou",
    "learn_rotations",
]

RotationMethod = Literal["augerino", "instaaug-shared", "instaaug"]
TURN = 2  # of Augerino's generators


@dataclass(frozen=True)
class RotationSettings:
    """Numbers of the experiment; the band is the default, which says nothing of the answer.

    Those of Augerino are from its own experiment with these images: rate 0.01, weights 0.01, 0.05
    and 0.1, of which the middle one is taken.
    """

    n_train: int = 2000
    n_test: int = 1000
    n_steps: int = 1500
    batch_size: int = 64
    learning_rate: float = 1e-3
    phi_learning_rate: float = 3e-4
    augerino_learning_rate: float = 1e-2
    augerino_weight: float = 0.05
    n_samples_at_test: int = 10


@dataclass(frozen=True)
class RotationResult:
    """What one run learned.

    Arguments:
        method: What learned the ranges.
        seed: Seed of data, weights and draws.
        accuracy: Share of test images classified right.
        accuracy_augmented: The same with test-time augmentation.
        mean_width: Mean width of the learned ranges, in radians.
        iou: Mean intersection over union of learned and ideal intervals.
        cpu_seconds: Processor time of the training.
        test: The test set.
        intervals: Learned (min, max) for every test image, in radians.
    """

    method: RotationMethod
    seed: int
    accuracy: float
    accuracy_augmented: float
    mean_width: float
    iou: float
    cpu_seconds: float
    test: RotatedSprites
    intervals: Float[Tensor, "n 2"]

    def summary(self) -> dict[str, float | int | str]:
        """The numbers alone."""
        left_out = ("test", "intervals")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in left_out}


def interval_iou(a: Float[Tensor, "n 2"], b: Float[Tensor, "n 2"]) -> Float[Tensor, " n"]:
    """Intersection over union of intervals, pair by pair.

    Example:
        >>> interval_iou(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 3.0]]))
        tensor([0.3333])
    """
    shared = (a[:, 1].minimum(b[:, 1]) - a[:, 0].maximum(b[:, 0])).clamp(min=0)
    return shared / (a[:, 1] - a[:, 0] + b[:, 1] - b[:, 0] - shared)


def learn_rotations(
    method: RotationMethod = "instaaug",
    *,
    seed: int = 0,
    sprites: Float[Tensor, "2 3 h w"] | None = None,
    settings: RotationSettings | None = None,
    on_step: Callable[[int, float, float, float], None] | None = None,
) -> RotationResult:
    """Train a classifier and the ranges of rotation together, and compare with the ideal ranges.

    Arguments:
        method: ``"instaaug"`` learns a range per image, ``"instaaug-shared"`` one for all in the
            same way, ``"augerino"`` a symmetric one for all by its own rule: a fixed weight on its
            width.
        seed: Decides data, weights and draws.
        sprites: The two sprites, upright; the built-in ones by default.
        settings: Numbers of the experiment.
        on_step: Called with step, loss, entropy and λ after every step.
    """
    settings = settings or RotationSettings()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SmallCNN(4)
        aug, rate = _augmenter(method, settings)
    generator = torch.Generator().manual_seed(seed)
    train = RotatedSprites(settings.n_train, sprites=sprites, generator=generator)
    test = RotatedSprites(settings.n_test, sprites=sprites, generator=generator)

    groups: list[dict[str, Any]] = [
        {"params": model.parameters()},
        {"params": aug.parameters(), "lr": rate},
    ]
    optimizer = torch.optim.Adam(groups, lr=settings.learning_rate)
    schedule = CosineAnnealingLR(optimizer, settings.n_steps)
    started = time.process_time()
    for step in range(settings.n_steps):
        chosen = torch.randint(len(train), (settings.batch_size,), generator=generator)
        batch = aug(train.images[chosen], generator=generator)
        logits = model(batch.inputs)
        losses = F.cross_entropy(logits, train.labels[chosen], reduction="none")
        aug.objective(losses, batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if on_step is not None:
            weight = aug.band.weight if isinstance(aug, InstaAug) else settings.augerino_weight
            numbers = (losses.detach().mean(), batch.entropy.detach().mean(), weight)
            on_step(step, *(float(number) for number in numbers))
    cpu_seconds = time.process_time() - started

    with torch.no_grad():
        intervals = _learned_intervals(aug.eval(), test.images)
        accuracy = _accuracy(model.eval()(test.images), test.labels)
        predictor = aug.wrap(model, settings.n_samples_at_test)
        augmented = _accuracy(predictor(test.images, generator), test.labels)
    return RotationResult(
        method=method,
        seed=seed,
        accuracy=accuracy,
        accuracy_augmented=augmented,
        mean_width=float((intervals[:, 1] - intervals[:, 0]).mean()),
        iou=float(interval_iou(intervals, test.safe_intervals).mean()),
        cpu_seconds=cpu_seconds,
        test=test,
        intervals=intervals,
    )


def _augmenter(method: RotationMethod, settings: RotationSettings) -> tuple[Augmenter, float]:
    """What learns the ranges, and at what rate."""
    if method == "augerino":
        aug = Augerino(weight=settings.augerino_weight, start=-1.0, opened="turn")
        return aug, settings.augerino_learning_rate
    conditioning: Conditioning = "input" if method == "instaaug" else "none"
    per_factor = InstaAug(Rotation(), conditioning=conditioning, per="factor")  # as in the paper
    return per_factor, settings.phi_learning_rate


def _learned_intervals(aug: Augmenter, images: Tensor) -> Float[Tensor, "n 2"]:
    if isinstance(aug, Augerino):
        return aug.ends()[TURN].expand(len(images), 2)
    assert isinstance(aug, InstaAug)  # noqa: S101  # there is no other
    learned = aug.distribution(images)["rotation"]
    assert isinstance(learned, UniformBox)  # noqa: S101  # rotations are intervals
    return torch.cat(learned.ends(), dim=-1)


def _accuracy(logits: Tensor, labels: Tensor) -> float:
    return float((logits.argmax(dim=1) == labels).float().mean())
