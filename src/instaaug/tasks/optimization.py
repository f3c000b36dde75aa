"""How a group of parameters is optimized: an optimizer and the schedule of its learning rate."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, cos, isfinite, pi
from typing import Any, Literal, get_args

import torch
from lightning.pytorch import Trainer
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    LambdaLR,
    LRScheduler,
    OneCycleLR,
    ReduceLROnPlateau,
)

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["Optimization", "OptimizerName", "ScheduleName", "optimizer_steps", "search_steps"]

OptimizerName = Literal["sgd", "adam", "adamw"]
ScheduleName = Literal["constant", "cosine", "one_cycle", "plateau", "steps"]


@dataclass(frozen=True)
class Optimization:
    """An optimizer and its schedule.

    Arguments:
        optimizer: ``"sgd"`` (Nesterov's momentum), ``"adam"`` or ``"adamw"``.
        learning_rate: At the start; for ``"one_cycle"`` the peak.
        momentum: Of ``"sgd"``; ``"one_cycle"`` moves it from 0.95 to 0.85 and back, unless 0.
        weight_decay: Pulls parameters with two axes or more to zero; biases and the gains of
            normalization layers are left alone.
        schedule: ``"constant"``; ``"cosine"`` to zero; ``"one_cycle"``, up and down;
            ``"plateau"``, the paper's for classifiers: times ``factor`` when the accuracy in
            validation has not improved for ``patience`` epochs; or ``"steps"``, its for
            contrastive learning: times ``factor`` after each of ``drops``.
        factor: Of ``"plateau"`` and ``"steps"``.
        patience: Of ``"plateau"``, in epochs, from 1 on.
        drops: Of ``"steps"``: shares of all steps, in [0, 1].
        warmup_steps: First steps, in which the rate rises from zero in a line.
        backbone_rate: Factor on the rate of the parameters that are called the backbone.

    Example:
        >>> paper = Optimization("adam", 1e-3, schedule="steps", factor=0.8, drops=(0.9, 0.95))
        >>> [round(paper.rate_at(step, 500), 6) for step in (0, 449, 450, 475)]
        [0.001, 0.001, 0.0008, 0.00064]
    """

    optimizer: OptimizerName = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: ScheduleName = "constant"
    factor: float = 0.9
    patience: int = 10
    drops: tuple[float, ...] = ()
    warmup_steps: int = 0
    backbone_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.optimizer not in get_args(OptimizerName):
            raise UnknownNameError("optimizer", self.optimizer, get_args(OptimizerName))
        if self.schedule not in get_args(ScheduleName):
            raise UnknownNameError("schedule", self.schedule, get_args(ScheduleName))
        self._check_rates()
        if self.schedule in ("plateau", "steps") and not 0 < self.factor < 1:
            raise ArgumentError(
                f"`factor` must lie in (0, 1) for the schedule {self.schedule!r}: got "
                f"{self.factor}. The paper's are 0.9 and 0.8."
            )
        if self.patience < 1:
            raise ArgumentError(f"`patience` must be at least 1 epoch: got {self.patience}.")
        if not all(0 <= drop <= 1 for drop in self.drops):
            raise ArgumentError(
                f"`drops` must be shares of the training, in [0, 1]: got {self.drops}. The "
                "paper's are 0.9 and 0.95."
            )
        if self.warmup_steps and self.schedule in ("one_cycle", "plateau"):
            raise ArgumentError(
                f"`warmup_steps` must be 0 for the schedule {self.schedule!r}: got "
                f"{self.warmup_steps}. Constant, cosine and steps can be warmed up."
            )

    def _check_rates(self) -> None:
        if not self.learning_rate > 0:
            raise ArgumentError(f"`learning_rate` must be above 0: got {self.learning_rate}.")
        if not self.backbone_rate >= 0:
            raise ArgumentError(
                f"`backbone_rate` must be at least 0: got {self.backbone_rate}. A tenth, 0.1, is "
                "usual for weights that were trained before."
            )

    def rate_at(self, step: int, n_steps: int) -> float:
        """The learning rate in a step, by the schedules that need nothing but its number."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        if self.schedule == "cosine":
            return self.learning_rate * (1 + cos(pi * min(step / max(n_steps, 1), 1))) / 2
        n_dropped = sum(step >= drop * n_steps for drop in self.drops)
        return self.learning_rate * self.factor ** (n_dropped * (self.schedule == "steps"))

    def check_unknown_length(self) -> None:
        """Raise if the schedule needs the number of steps, which is not known."""
        if self.schedule in ("one_cycle", "cosine", "steps"):
            raise ArgumentError(
                "`schedule` must be constant or plateau where the number of batches is not "
                f"known: got {self.schedule!r}. Or give the loader a length, or the trainer "
                "limit_train_batches."
            )

    def make_optimizer(
        self, parameters: Iterable[nn.Parameter], backbone: Iterable[nn.Parameter] = ()
    ) -> Optimizer:
        """The optimizer, with weight decay on the matrices alone.

        Arguments:
            parameters: What is learned.
            backbone: Those of them whose rate is multiplied by ``backbone_rate``.
        """
        parameters, slower = list(parameters), {id(p) for p in backbone}
        groups: list[dict[str, Any]] = []
        for is_slow in (False, True):  # the first group has the rate as it was set
            learned = [p for p in parameters if p.requires_grad and (id(p) in slower) == is_slow]
            rate = self.learning_rate * (self.backbone_rate if is_slow else 1.0)
            matrices, others = ([p for p in learned if (p.ndim > 1) == m] for m in (True, False))
            groups += [
                {"params": matrices, "weight_decay": self.weight_decay, "lr": rate},
                {"params": others, "weight_decay": 0.0, "lr": rate},
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
                [group["lr"] for group in optimizer.param_groups],
                total_steps=max(n_steps, 2),
                cycle_momentum=self.momentum > 0,
            )
        if self.schedule == "plateau":
            patience = self.patience - 1  # torch's is of epochs after which it still waits
            return ReduceLROnPlateau(optimizer, factor=self.factor, patience=patience)
        return LambdaLR(optimizer, lambda step: self.rate_at(step, n_steps) / self.learning_rate)


def optimizer_steps(trainer: Trainer, first_epoch: int, *, accumulate: int) -> int | None:
    """How many steps an optimizer takes from an epoch on; None if that is not known.

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


def search_steps(
    trainer: Trainer, first_epoch: int, *, every: int, end: int | None = None
) -> int | None:
    """How many batches from an epoch on have a number that ``every`` divides; None if unknown.

    Arguments:
        trainer: Knows the batches.
        first_epoch: Where counting begins.
        every: What must divide the number of a batch.
        end: The epoch before which counting ends; after the last by default.
    """
    counted = _batches(trainer)
    if counted is None:
        return None
    n_epochs, per_epoch, rest = counted
    first, last = min(first_epoch, n_epochs) * per_epoch, n_epochs * per_epoch + rest
    if end is not None:
        last = max(min(end * per_epoch, last), first)
    return ceil(last / every) - ceil(first / every)


def _batches(trainer: Trainer) -> tuple[int, int, int] | None:
    """Whole epochs, batches in each, and batches after them."""
    n_batches, per_epoch = trainer.estimated_stepping_batches, trainer.num_training_batches
    if not isfinite(n_batches) or not isfinite(per_epoch):
        return None
    n_epochs, rest = divmod(int(n_batches), int(per_epoch))
    return n_epochs, int(per_epoch), rest
