"""Data, models and a trainer that are done in a moment."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback, Checkpoint
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation import Augmenter
from instaaug.data import LabeledImages
from instaaug.methods import NoAugmentation
from instaaug.tasks import AugmentedTask, Optimization, SupervisedTask

__all__ = [
    "SIDE",
    "EachStep",
    "Recording",
    "TwoHeads",
    "classifier",
    "dropout_classifier",
    "fit",
    "labeled_halves",
    "linear_8",
    "numbered",
    "parameters_of",
    "quiet_lightning",
    "supervised",
    "two_heads",
]

SIDE = 8


def numbered(n: int, *, side: int = 2) -> LabeledImages:
    """Images that know their place: image i is full of the value i, and its target is i."""
    pixels = np.broadcast_to(np.arange(n, dtype=np.uint8)[:, None, None, None], (n, side, side, 1))
    return LabeledImages(np.ascontiguousarray(pixels), torch.arange(n, dtype=torch.float32))


def labeled_halves(n: int = 32, *, side: int = SIDE, seed: int = 0) -> LabeledImages:
    """Noise that is brighter on the left (class 0) or on the right (class 1)."""
    random = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    pixels = random.integers(0, 120, (n, side, side, 3), dtype=np.uint8)
    half = side // 2
    pixels[labels == 0, :, :half] += 100
    pixels[labels == 1, :, half:] += 100
    return LabeledImages(pixels, torch.from_numpy(labels), classes=("left", "right"))


def classifier(n_outputs: int = 2, *, side: int = SIDE, channels: int = 3) -> nn.Module:
    """A linear one; the same weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(channels * side * side, n_outputs))


class TwoHeads(nn.Module):
    """Returns a dict, as many models do."""

    def __init__(self, n_outputs: int = 2, *, side: int = SIDE) -> None:
        super().__init__()
        self.main = classifier(n_outputs, side=side)

    @override
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        logits = self.main(x)
        return {"opposite": -logits, "logits": logits}


def two_heads(n_outputs: int) -> nn.Module:
    """For images of 16 pixels."""
    return TwoHeads(n_outputs, side=16)


def linear_8(n_outputs: int) -> nn.Module:
    """For images of 8 pixels and of no other size."""
    return nn.Sequential(nn.Flatten(), nn.Linear(192, n_outputs))


def dropout_classifier(n_outputs: int) -> nn.Module:
    """For images of any size; draws from the global randomness in every step."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(36, n_outputs),
    )


class Recording(nn.Module):
    """Keeps all that it sees in training."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.seen: list[Tensor] = []

    @override
    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.append(x.detach().clone())
        return self.inner(x)


def supervised(
    augmenter: Augmenter | None = None, *, model: nn.Module | None = None, **settings: Any
) -> SupervisedTask:
    """Two classes, plain gradient descent unless told otherwise."""
    settings.setdefault("optimization", Optimization("sgd", 0.1, momentum=0.0))
    return SupervisedTask(
        model or classifier(), augmenter or NoAugmentation(), num_classes=2, **settings
    )


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Without Lightning's remarks on the number of workers and on this machine's processors."""
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    logger.setLevel(logging.ERROR)
    with warnings.catch_warnings():
        # Lightning asks torch in a way that torch 2.13 deprecates; the rest is advice.
        warnings.filterwarnings("ignore", message=".*isinstance.*LeafSpec.*")
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*smaller than the logging interval.*")
        warnings.filterwarnings("ignore", message=".*have no `val_dataloader`.*")
        try:
            yield
        finally:
            logger.setLevel(before)


def fit(
    task: AugmentedTask,
    train: Any,
    validation: Any = None,
    *,
    epochs: int = 1,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> Trainer:
    """Train on the processor, without any files unless told otherwise."""
    defaults: dict[str, Any] = {"logger": False, "num_sanity_val_steps": 0}
    with quiet_lightning():
        trainer = Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=epochs,
            callbacks=list(callbacks),
            enable_checkpointing=any(isinstance(c, Checkpoint) for c in callbacks),
            enable_progress_bar=False,
            enable_model_summary=False,
            **{**defaults, **options},
        )
        trainer.fit(task, train, validation)
    return trainer


def parameters_of(module: nn.Module) -> Tensor:
    """All parameters in one vector, as they are now."""
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])


class EachStep(Callback):
    """Keeps what a function says of the task after each step."""

    def __init__(self, look: Any) -> None:
        self.look = look
        self.seen: list[Any] = []

    @override
    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *_: Any) -> None:
        self.seen.append(self.look(pl_module))
