"""How a group of parameters is optimized: an optimizer and the schedule of its learning rate."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Literal, get_args

import torch
from lightning.pytorch import Trainer
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
)

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["Optimization", "OptimizerName", "ScheduleName", "optimizer_steps", "search_steps"]

OptimizerName = Literal["sgd", "adam", "adamw"]
ScheduleName = Literal["constant", "cosine", "one_cycle", "plateau"]


@dataclass(frozen=True)
class Optimization:
    """An optimizer and its schedule.

    Arguments:
        optimizer: ``"sgd"`` (Nesterov's momentum), ``"adam"`` or ``"adamw"``.
        learning_rate: At the start; for ``"one_cycle"`` the peak.
        momentum: Of ``"sgd"``; ``"one_cycle"`` moves it from 0.95 to 0.85 and back, unless 0.
        weight_decay: Pulls parameters with two axes or more to zero; biases and the gains of
            normalization layers are left alone.
        schedule: ``"constant"``; ``"cosine"`` to zero; ``"one_cycle"``, up and down; or
            ``"plateau"``, the paper's: times ``factor`` when validation has not improved for
            ``patience`` epochs.
        factor: Of ``"plateau"``.
        patience: Of ``"plateau"``, in epochs.
    """

    optimizer: OptimizerName = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: ScheduleName = "constant"
    factor: float = 0.9
    patience: int = 10

    def __post_init__(self) -> None:
        if self.optimizer not in get_args(OptimizerName):
            raise UnknownNameError("optimizer", self.optimizer, get_args(OptimizerName))
        if self.schedule not in get_args(ScheduleName):
            raise UnknownNameError("schedule", self.schedule, get_args(ScheduleName))
        if not self.learning_rate > 0:
            raise ArgumentError(f"`learning_rate` must be above 0: got {self.learning_rate}.")

    def check_unknown_length(self) -> None:
        """Raise if the schedule must know how many steps there will be, which nobody does."""
        if self.schedule in ("one_cycle", "cosine"):
            raise ArgumentError(
                "`schedule` must be constant or plateau where nobody knows how many batches "
                f"there will be: got {self.schedule!r}. Or give the loader a length."
            )

    def make_optimizer(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimizer, with weight decay on the matrices alone."""
        learned = [p for p in parameters if p.requires_grad]
        groups = [
            {"params": [p for p in learned if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in learned if p.ndim <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        if self.optimizer == "sgd":
            nesterov = self.momentum > 0
            return torch.optim.SGD(
                groups, lr=self.learning_rate, momentum=self.momentum, nesterov=nesterov
            )
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr=self.learning_rate)

    def make_schedule(self, optimizer: Optimizer, n_steps: int) -> LRScheduler | ReduceLROnPlateau:
        """The schedule; all but ``"plateau"`` advance with each of ``n_steps`` steps."""
        if self.schedule == "one_cycle":
            return OneCycleLR(
                optimizer,
                self.learning_rate,
                total_steps=max(n_steps, 2),
                cycle_momentum=self.momentum > 0,
            )
        if self.schedule == "cosine":
            return CosineAnnealingLR(optimizer, max(n_steps, 1))
        if self.schedule == "plateau":
            return ReduceLROnPlateau(optimizer, factor=self.factor, patience=self.patience)
        return ConstantLR(optimizer, factor=1.0, total_iters=0)


def optimizer_steps(trainer: Trainer, first_epoch: int, *, accumulate: int) -> int | None:
    """How many steps an optimizer takes from an epoch on; None if nobody knows.

    Arguments:
        trainer: Knows the batches.
        first_epoch: Where its work begins.
        accumulate: Batches per step; the last step of an epoch may have fewer.
    """
    counted = _batches(trainer)
    if counted is None:
        return None
    n_epochs, per_epoch, rest = counted
    n_epochs = max(n_epochs - first_epoch, 0)
    return n_epochs * ceil(per_epoch / accumulate) + ceil(rest / accumulate)


def search_steps(trainer: Trainer, first_epoch: int, *, every: int) -> int | None:
    """How many batches from an epoch on have a number that ``every`` divides; None if unknown."""
    counted = _batches(trainer)
    if counted is None:
        return None
    n_epochs, per_epoch, rest = counted
    first, end = min(first_epoch, n_epochs) * per_epoch, n_epochs * per_epoch + rest
    return ceil(end / every) - ceil(first / every)


def _batches(trainer: Trainer) -> tuple[int, int, int] | None:
    """Whole epochs, batches in each, and batches after them."""
    n_batches, per_epoch = trainer.estimated_stepping_batches, trainer.num_training_batches
    if not isfinite(n_batches) or not isfinite(per_epoch):
        return None
    n_epochs, rest = divmod(int(n_batches), int(per_epoch))
    return n_epochs, int(per_epoch), rest
