"""Find out on the side of training whether mirror images, light and whole images help."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Generator, Tensor, nn
from torch.optim import Optimizer
from typing_extensions import override

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.data import LabeledImages
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.errors import NonFiniteError
from instaaug.functional.processes import mean_over_processes, step_generator
from instaaug.networks.model_interface import evaluation_mode, pick_output
from instaaug.shapes import Images
from instaaug.tasks.callbacks import Checkpoints, RichProgress
from instaaug.tasks.loader import BatchLoader
from instaaug.tasks.optimization import optimizer_steps
from instaaug.tasks.task import AugmentedTask, add_gradients

__all__ = ["Finding", "TryOut", "describe_findings"]

LENGTH = 0.05  # of a trial, as a share of all steps of the model
FEWEST_STEPS, FEWEST_IMAGES, MOST_IMAGES = 40, 50, 2000
ASIDE = 1 << 40  # the first number of draws that belong to no step of the run
N_VIEWS = 4  # that a prediction is merged from
LOW = 0.5  # nats; of a lower loss, a share would be too little to tell
MIRROR, LIGHT, WHOLE_EARLY, WHOLE = "mirror", "light", "whole_early", "whole"
ON_WHOLE_IMAGES = (WHOLE_EARLY, WHOLE)


@dataclass(frozen=True)
class Question:
    """Something that a trial decides.

    Arguments:
        start: Share of the epochs before the trial.
        limit: By which share the loss may rise, or must fall if negative.
        in_words: What is tried.
        yes: What follows if it is kept.
        no: What follows if it is not.
    """

    start: float
    limit: float
    in_words: str
    yes: str
    no: str


QUESTIONS = {
    # what is worth two points in the end may cost two percent so soon
    MIRROR: Question(0.3, 0.03, "mirror images", "kept", "left out from here on"),
    LIGHT: Question(0.3, 0.03, "another light", "kept", "left out from here on"),
    # what lets the model overfit in the end may gain several percent so soon
    WHOLE_EARLY: Question(0.3, -0.12, "whole images", "no views from here on", "views for now"),
    WHOLE: Question(0.7, -0.01, "whole images", "no views from here on", "views to the end"),
}


@dataclass(frozen=True)
class Finding:
    """What a trial says about one thing.

    Arguments:
        loss: Mean loss of held-out images after the same steps without it.
        difference: By how much it is higher with it.
        error: Standard error of that.
        limit: By which share it may be higher.
    """

    loss: float
    difference: float
    error: float
    limit: float

    @property
    def change(self) -> float:
        """The difference as a share of the loss, or of half a nat where the loss is lower."""
        return self.difference / max(self.loss, LOW)

    @property
    def is_kept(self) -> bool:
        """Whether the loss does not rise by more than the limit.

        Example:
            >>> [Finding(2.0, d, 0.01, limit=0.03).is_kept for d in (-0.05, 0.02, 0.1)]
            [True, True, False]
        """
        return self.change <= self.limit


class TryOut(Callback):
    """Finds out in the course of training what else helps, by short trials on the side.

    Mirror images and another light are applied to training images from the start; early in
    training, what raises the loss of held-out images is left out. Whole images take the place of
    views to the end where that lowers this loss, early if by much, else late: a model that has not
    the time, or the size, to overfit is better for it.

    In a trial, at the beginning of an epoch, the model takes some steps with a rate that falls to
    zero, once with nothing that is tried and once with each of it, and every time goes back to
    where it was. A short trial understates what regularizes, so that a little worse is good
    enough for that; what destroys the label, such as mirrored digits, stands out within a few
    dozen steps.

    Arguments:
        data: Training images.
        mirror: Whether mirror images are tried.
        light: What changes the light, if another light is tried.
        whole: Whether whole images are tried.

    Attributes:
        open: What is still to be tried.
        findings: By what was tried.
        finetune_epochs: Last epochs that are on whole images.
    """

    def __init__(
        self,
        data: LabeledImages,
        *,
        mirror: bool = False,
        light: Augmenter | None = None,
        whole: bool = False,
    ) -> None:
        self.data, self.light = data, light
        asked = {MIRROR: mirror, LIGHT: light is not None, WHOLE_EARLY: whole, WHOLE: whole}
        self.names = tuple(name for name, is_asked in asked.items() if is_asked)
        self.open: tuple[str, ...] = self.names
        self.findings: dict[str, Finding] = {}
        self.finetune_epochs = 0
        self._goes_on = False

    @override
    def state_dict(self) -> dict[str, Any]:
        found = {name: vars(one) for name, one in self.findings.items()}
        return {
            "open": list(self.open),
            "findings": found,
            "finetune_epochs": self.finetune_epochs,
        }

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.open, self._goes_on = tuple(state_dict["open"]), True
        self.finetune_epochs = state_dict["finetune_epochs"]
        self.findings = {name: Finding(**one) for name, one in state_dict["findings"].items()}

    def to_dict(self) -> dict[str, Any]:
        """Findings by what was tried, as JSON has them, with sentences."""
        found = self.findings
        numbers = {name: {**vars(one), "is_kept": one.is_kept} for name, one in found.items()}
        epochs = {"finetune_epochs": self.finetune_epochs} if self.finetune_epochs else {}
        return {**numbers, **epochs, "words": describe_findings(found)}

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101  # made for our tasks
        is_older = pl_module.n_steps > 0 and not self._goes_on  # begun by an earlier version
        first = {name: _first_epoch(trainer, pl_module, name) for name in self.open}
        self.open = tuple(
            name
            for name in self.open
            if not is_older
            and self._can_try(trainer, pl_module, name, first[name])
            # one trial of whole images is enough in an epoch
            and not (name == WHOLE_EARLY and first[name] == first.get(WHOLE))
        )
        self._apply(trainer, pl_module)

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        epoch = trainer.current_epoch
        due = [name for name in self.open if epoch >= _first_epoch(trainer, pl_module, name)]
        if not due:
            return
        found = self._try_all(trainer, pl_module, due)
        self.findings |= found
        done = {*due, WHOLE} if self._is_whole else {*due}
        self.open = tuple(name for name in self.open if name not in done)
        self._apply(trainer, pl_module)
        diverged = "A trial diverged: what was tried in it is not kept."
        words = (describe_findings(found), diverged if len(found) < len(due) else "")
        _say(trainer, " ".join(filter(None, words)))

    @property
    def _kept(self) -> set[str]:
        return {name for name, one in self.findings.items() if one.is_kept}

    @property
    def _is_whole(self) -> bool:
        return not self._kept.isdisjoint(ON_WHOLE_IMAGES)

    def _apply(self, trainer: Trainer, task: AugmentedTask) -> None:
        """Do what was kept, and what is applied until it is tried."""
        self._set(task, self._kept | {*self.open})
        for name in self._kept & {*ON_WHOLE_IMAGES}:
            self.finetune_epochs = (trainer.max_epochs or 0) - _first_epoch(trainer, task, name)
            task.finetune_epochs = self.finetune_epochs

    def _set(self, task: AugmentedTask, names: Collection[str]) -> None:
        if MIRROR in self.names:
            task.flip = MIRROR in names
        if LIGHT in self.names:
            task.vary = self.light if LIGHT in names else None

    def _can_try(self, trainer: Trainer, task: AugmentedTask, name: str, first: int) -> bool:
        """Whether there are steps and images enough to learn something."""
        cross_fit = task.cross_fit
        fewest = FEWEST_STEPS // 4 if name in ON_WHOLE_IMAGES else FEWEST_STEPS  # soon seen
        return (
            _count_steps(trainer, task) >= fewest
            and cross_fit is not None
            and first < min(cross_fit.end, trainer.max_epochs or 0)
            and len(cross_fit.images(first)) >= FEWEST_IMAGES
        )

    def _try_all(
        self, trainer: Trainer, task: AugmentedTask, names: Sequence[str]
    ) -> dict[str, Finding]:
        assert task.cross_fit is not None  # noqa: S101  # else nothing could be tried
        epoch, n_steps = trainer.current_epoch, (1 + len(names)) * _count_steps(trainer, task)
        images = task.cross_fit.images(epoch)
        judges = images.subset(evenly_spaced_indices(len(images), MOST_IMAGES))
        hidden = () if task.cross_fit.is_apart else task.cross_fit.rows(epoch)
        rows = np.setdiff1d(np.arange(len(self.data)), hidden)
        *some, last = (QUESTIONS[name].in_words for name in names)
        what = " and ".join(filter(None, (", ".join(some), last)))
        _say(trainer, f"Trying {what} on the side, in {n_steps:,} steps.")
        before: Judged | None = None
        found: dict[str, Finding] = {}
        for name in ("", *names):
            self._set(task, self._kept | {name})
            with _unchanged(task), suppress(NonFiniteError):
                whole = name in ON_WHOLE_IMAGES
                judged = self._judge(trainer, task, rows, judges, whole=whole)
                if before is not None:
                    found[name] = judged.compare(before, name)
                before = before if name else judged
            if before is None:
                break  # there is nothing to compare with
        return found

    def _judge(
        self, trainer: Trainer, task: AugmentedTask, rows: np.ndarray, judges: LabeledImages, *,
        whole: bool,
    ) -> "Judged":  # fmt: skip
        """Losses of held-out images after some steps."""
        loader, n_steps = trainer.train_dataloader, _count_steps(trainer, task)
        assert isinstance(loader, BatchLoader)  # noqa: S101  # as in all runs that try
        order = np.random.default_rng([task.seed, trainer.current_epoch, trainer.global_rank])
        optimizer = _optimizer(task)
        rates = [group["lr"] for group in optimizer.param_groups]
        for step in range(n_steps):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * (1 - step / n_steps)
            for part in range(task.accumulate_grad_batches):
                chosen = order.choice(rows, min(loader.batch_size, len(rows)), replace=False)
                generator = _generator(task, step * task.accumulate_grad_batches + part)
                with trainer.precision_plugin.forward_context():  # which keeps cast weights
                    self._learn(task, chosen, generator, whole=whole)
            if task.gradient_clip_val:
                nn.utils.clip_grad_norm_(task.model.parameters(), task.gradient_clip_val)
            optimizer.step()
            optimizer.zero_grad()
            _stop_if_asked(trainer)
        with trainer.precision_plugin.forward_context():
            return Judged.of(task, judges, loader.batch_size)

    def _learn(
        self, task: AugmentedTask, rows: np.ndarray, generator: Generator, *, whole: bool
    ) -> None:
        """Add the gradient of a batch; φ draws and does not learn."""
        x, targets = self.data.__getitems__(rows.tolist())
        x, targets = x.to(task.device), targets.to(task.device)
        losses = task.losses_of_views(x, targets, generator, whole=whole)
        add_gradients(losses.mean() / task.accumulate_grad_batches, task.model)


@dataclass(frozen=True)
class Judged:
    """Losses of held-out images at the end of a trial.

    Arguments:
        views: Of predictions merged from a few random views, the same in every trial.
        alone: Of predictions from the image alone.
    """

    views: Float[Tensor, " n"]
    alone: Float[Tensor, " n"]

    @staticmethod
    @torch.no_grad()
    def of(task: AugmentedTask, images: LabeledImages, batch_size: int) -> "Judged":
        """Those of a model, in evaluation mode.

        Arguments:
            task: Has the model, and an augmenter that makes views.
            images: From which the model has not learned.
            batch_size: Images at a time.
        """
        assert isinstance(task.augmenter, InstaAug)  # noqa: S101  # it looks for useful views
        views: list[Tensor] = []
        alone: list[Tensor] = []
        with evaluation_mode(task.model):
            for number, (pixels, labels) in enumerate(BatchLoader(images, batch_size)):
                generator, x = _generator(task, number), task.normalize(pixels.to(task.device))
                inputs = [task.augmenter.uninformed_views(x, generator) for _ in range(N_VIEWS)]
                targets = labels.to(task.device)
                outputs = torch.stack([_outputs(task, view) for view in inputs])
                views.append(task.losses(outputs.mean(dim=0), targets))
                alone.append(task.losses(_outputs(task, task.augmenter.canonical(x)), targets))
        return Judged(torch.cat(views).float(), torch.cat(alone).float())

    def compare(self, before: "Judged", name: str) -> Finding:
        """What has changed, over all processes.

        Everything competes with whatever the model does better without it: predict from views, or
        from the image alone. Whole images are for a model that predicts from these.

        Arguments:
            before: Without what is tried.
            name: What is tried.
        """
        base, own = before.best, self.alone if name in ON_WHOLE_IMAGES else self.best
        difference = own - base
        moments = torch.stack([base.mean(), difference.mean(), difference.var() / len(base)])
        loss, mean, variance = mean_over_processes(moments).tolist()
        if not isfinite(mean):
            raise NonFiniteError("A trial on the side ended in a loss that is NaN or infinite.")
        return Finding(loss, mean, sqrt(variance), QUESTIONS[name].limit)

    @property
    def best(self) -> Float[Tensor, " n"]:
        """Losses of the better way to predict."""
        views, alone = mean_over_processes(torch.stack([self.views.mean(), self.alone.mean()]))
        return self.alone if alone < views else self.views


def describe_findings(findings: Mapping[str, Finding]) -> str:
    """What was found, in words; empty if nothing was tried.

    Example:
        >>> found = {"mirror": Finding(2.0, 0.004, 0.008, 0.03)}
        >>> print(describe_findings({**found, "light": Finding(2.0, 0.2, 0.02, 0.03)}))
        Tried on the side: mirror images change the loss of held-out images by +0.2% ± 0.4%
        (kept); another light by +10.0% ± 1.0% (left out from here on).
    """
    found: list[str] = []
    for name, one in findings.items():
        change = f"by {one.change:+.1%} ± {one.error / max(one.loss, LOW):.1%}"
        verb = "" if found else f" change{'s' * (name == LIGHT)} the loss of held-out images"
        asked = QUESTIONS[name]
        found.append(f"{asked.in_words}{verb} {change} ({asked.yes if one.is_kept else asked.no})")
    return f"Tried on the side: {'; '.join(found)}." if found else ""


def _first_epoch(trainer: Trainer, task: AugmentedTask, name: str) -> int:
    """The epoch before which a trial is: when φ learns, and a checkpoint has been written."""
    phi_starts = task.pretrain_epochs + task.phi_rest_epochs
    return max(round(QUESTIONS[name].start * (trainer.max_epochs or 0)), phi_starts, 1)


def _count_steps(trainer: Trainer, task: AugmentedTask) -> int:
    """Steps of a trial."""
    all_steps = optimizer_steps(trainer, 0, accumulate=task.accumulate_grad_batches)
    return round(LENGTH * (all_steps or 0))


@contextmanager
def _unchanged(task: AugmentedTask) -> Iterator[None]:
    """Bring weights, the state of the optimizer and random numbers back in the end."""
    modules, optimizer = nn.ModuleList([task.model, task.augmenter]), _optimizer(task)
    weights, state = deepcopy(modules.state_dict()), deepcopy(optimizer.state_dict())
    devices = [task.device] if task.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices=devices):
            yield
    finally:
        modules.load_state_dict(weights)
        optimizer.load_state_dict(state)
        optimizer.zero_grad()


def _outputs(task: AugmentedTask, x: Images) -> Tensor:
    outputs = pick_output(task.model(x))
    assert isinstance(outputs, Tensor)  # noqa: S101  # training has checked it
    return outputs


def _optimizer(task: AugmentedTask) -> Optimizer:
    """That of the model; Lightning need not know of its steps."""
    optimizers = task.optimizers()
    first = optimizers[0] if isinstance(optimizers, list) else optimizers
    assert isinstance(first, LightningOptimizer)  # noqa: S101  # not fabric's
    return first.optimizer


def _generator(task: AugmentedTask, number: int) -> Generator:
    """The source of draws that no step of the run makes."""
    step = ASIDE + number
    return step_generator(task.seed, rank=task.global_rank, step=step, device=task.device)


def _stop_if_asked(trainer: Trainer) -> None:
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, Checkpoints):
            callback.stop_if_asked(trainer)


def _say(trainer: Trainer, words: str) -> None:
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RichProgress):
            callback.say(words)
