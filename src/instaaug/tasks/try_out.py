"""Find out on the side of training whether mirror images and another light are safe."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
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
from instaaug.tasks.callbacks import Checkpoints, RichProgress
from instaaug.tasks.loader import BatchLoader
from instaaug.tasks.optimization import optimizer_steps
from instaaug.tasks.task import AugmentedTask, add_gradients

__all__ = ["Finding", "TryOut", "describe_findings"]

START = 0.3  # share of the epochs before it
LENGTH = 0.05  # of a trial, as a share of all steps of the model
FEWEST_STEPS, FEWEST_IMAGES, MOST_IMAGES = 20, 50, 2000
ASIDE = 1 << 40  # the first number of draws that belong to no step of the run
N_VIEWS = 4  # that a prediction is merged from
TOLERANCE = 0.03  # share of the loss: what is worth two points in the end may cost two percent
LOW = 0.5  # nats; of a lower loss, a share would be too little to tell
MIRROR, LIGHT = "mirror", "light"
IN_WORDS = {MIRROR: "mirror images", LIGHT: "another light"}


@dataclass(frozen=True)
class Finding:
    """What a trial says about one transform.

    Arguments:
        loss: Mean loss of held-out images after the same steps without it.
        difference: By how much it is higher with it.
        error: Standard error of that.
    """

    loss: float
    difference: float
    error: float

    @property
    def change(self) -> float:
        """The difference as a share of the loss, or of half a nat where the loss is lower."""
        return self.difference / max(self.loss, LOW)

    @property
    def is_safe(self) -> bool:
        """Whether the loss falls, or rises by next to nothing.

        Example:
            >>> [Finding(2.0, d, 0.01).is_safe for d in (-0.05, 0.02, 0.1)]
            [True, True, False]
        """
        return self.change <= TOLERANCE


class TryOut(Callback):
    """Lets more happen to training images, and finds out early in training what of it is safe.

    At the beginning of an epoch, the model takes some steps with a rate that falls to zero: once
    without any of it, and once with each transform; every time it then goes back to where it was.
    What raises the loss of held-out images no longer happens from then on. A short trial
    understates what regularizes, so that equal is good enough; what destroys the label, such as
    mirrored digits, stands out within a few dozen steps. What is safe is worth most early: hence
    it is there from the start.

    Arguments:
        data: Training images.
        mirror: Whether mirror images are tried.
        light: What changes the light, if another light is tried.

    Attributes:
        findings: By transform; None before the trial, empty if there are too few steps or
            images for one, and none of it happens.
    """

    def __init__(self, data: LabeledImages, *, mirror: bool, light: Augmenter | None) -> None:
        self.data, self.light = data, light
        self.names = [MIRROR] * mirror + [LIGHT] * (light is not None)
        self.findings: dict[str, Finding] | None = None
        self._goes_on = False

    @override
    def state_dict(self) -> dict[str, Any]:
        found = self.findings
        return {"findings": found and {name: vars(one) for name, one in found.items()}}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        found, self._goes_on = state_dict["findings"], True
        self.findings = (
            None if found is None else {name: Finding(**one) for name, one in found.items()}
        )

    def to_dict(self) -> dict[str, Any]:
        """Findings by transform, as JSON has them, with a sentence."""
        if self.findings is None:
            return {"words": "Nothing was tried on the side: training ended before."}
        found = self.findings
        numbers = {name: {**vars(one), "is_safe": one.is_safe} for name, one in found.items()}
        return {**numbers, "words": describe_findings(found)}

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101  # made for our tasks
        is_older = pl_module.n_steps > 0 and not self._goes_on  # begun by an earlier version
        if self.findings is None and (is_older or not self._can_try(trainer, pl_module)):
            self.findings = {}
        self._follow(pl_module)

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, AugmentedTask)  # noqa: S101
        if self.findings is None and trainer.current_epoch >= _first_epoch(trainer, pl_module):
            try:
                self.findings = self._try_all(trainer, pl_module)
            except NonFiniteError:
                self.findings = {}
            self._follow(pl_module)
            _say(trainer, describe_findings(self.findings) or "A trial diverged: nothing is kept.")

    def _follow(self, task: AugmentedTask) -> None:
        """Let happen to training images what is safe, or all while nothing is known."""
        found = self.findings
        self._set(task, self.names if found is None else [n for n in found if found[n].is_safe])

    def _set(self, task: AugmentedTask, names: Collection[str]) -> None:
        if MIRROR in self.names:
            task.flip = MIRROR in names
        if LIGHT in self.names:
            task.vary = self.light if LIGHT in names else None

    def _can_try(self, trainer: Trainer, task: AugmentedTask) -> bool:
        """Whether there are steps and images enough to learn something."""
        first, cross_fit = _first_epoch(trainer, task), task.cross_fit
        return (
            _count_steps(trainer, task) >= FEWEST_STEPS
            and cross_fit is not None
            and first < min(cross_fit.end, trainer.max_epochs or 0)
            and len(cross_fit.images(first)) >= FEWEST_IMAGES
        )

    def _try_all(self, trainer: Trainer, task: AugmentedTask) -> dict[str, Finding]:
        assert task.cross_fit is not None  # noqa: S101  # else nothing could be tried
        n_steps, epoch = _count_steps(trainer, task), trainer.current_epoch
        images = task.cross_fit.images(epoch)
        judges = images.subset(evenly_spaced_indices(len(images), MOST_IMAGES))
        hidden = () if task.cross_fit.is_apart else task.cross_fit.rows(epoch)
        rows = np.setdiff1d(np.arange(len(self.data)), hidden)
        what, n_tries = " and ".join(IN_WORDS[name] for name in self.names), 1 + len(self.names)
        _say(trainer, f"Trying {what} on the side, in {n_tries * n_steps:,} steps.")
        losses: dict[str, Tensor] = {}
        for name in ("", *self.names):
            self._set(task, [name])
            with _unchanged(task):
                losses[name] = self._losses_after(trainer, task, rows, n_steps, judges)
        plain = losses.pop("")
        return {name: _compare(plain, own) for name, own in losses.items()}

    def _losses_after(
        self, trainer: Trainer, task: AugmentedTask, rows: np.ndarray, n_steps: int,
        judges: LabeledImages,
    ) -> Float[Tensor, " n"]:  # fmt: skip
        """Losses of held-out images after some steps."""
        loader = trainer.train_dataloader
        assert isinstance(loader, BatchLoader)  # noqa: S101  # as in all runs that try
        order = np.random.default_rng([task.seed, trainer.current_epoch, trainer.global_rank])
        optimizer = _optimizer(task)
        rates = [group["lr"] for group in optimizer.param_groups]
        for step in range(n_steps):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * (1 - step / n_steps)
            for part in range(task.accumulate_grad_batches):
                chosen = order.choice(rows, min(loader.batch_size, len(rows)), replace=False)
                number = step * task.accumulate_grad_batches + part
                with trainer.precision_plugin.forward_context():  # which keeps cast weights
                    self._learn(task, chosen, _generator(task, number))
            if task.gradient_clip_val:
                nn.utils.clip_grad_norm_(task.model.parameters(), task.gradient_clip_val)
            optimizer.step()
            optimizer.zero_grad()
            _stop_if_asked(trainer)
        with trainer.precision_plugin.forward_context():
            return _held_out_losses(task, judges, loader.batch_size)

    def _learn(self, task: AugmentedTask, rows: np.ndarray, generator: Generator) -> None:
        """Add the gradient of a batch; φ draws and does not learn."""
        x, targets = self.data.__getitems__(rows.tolist())
        losses = task.losses_of_views(x.to(task.device), targets.to(task.device), generator)
        add_gradients(losses.mean() / task.accumulate_grad_batches, task.model)


def describe_findings(findings: Mapping[str, Finding]) -> str:
    """What was found, in words; empty if nothing was tried.

    Example:
        >>> found = {"mirror": Finding(2.0, 0.004, 0.008), "light": Finding(2.0, 0.2, 0.02)}
        >>> print(describe_findings(found))
        Tried on the side: mirror images change the loss of held-out images by +0.2% ± 0.4%
        (kept); another light by +10.0% ± 1.0% (left out from here on).
    """
    found: list[str] = []
    for name, one in findings.items():
        change = f"by {one.change:+.1%} ± {one.error / max(one.loss, LOW):.1%}"
        verb = "" if found else f" change{'s' * (name == LIGHT)} the loss of held-out images"
        outcome = "kept" if one.is_safe else "left out from here on"
        found.append(f"{IN_WORDS[name]}{verb} {change} ({outcome})")
    return f"Tried on the side: {'; '.join(found)}." if found else ""


def _first_epoch(trainer: Trainer, task: AugmentedTask) -> int:
    """The epoch before which the trial is: when φ learns, and a checkpoint has been written."""
    phi_starts = task.pretrain_epochs + task.phi_rest_epochs
    return max(round(START * (trainer.max_epochs or 0)), phi_starts, 1)


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


@torch.no_grad()
def _held_out_losses(
    task: AugmentedTask, images: LabeledImages, batch_size: int
) -> Float[Tensor, " n"]:
    """Losses of predictions merged from a few random views, the same at every call."""
    assert isinstance(task.augmenter, InstaAug)  # noqa: S101  # it looks for useful views
    losses = []
    with evaluation_mode(task.model):
        for number, (pixels, targets) in enumerate(BatchLoader(images, batch_size)):
            generator, x = _generator(task, number), task.normalize(pixels.to(task.device))
            merged = torch.zeros(())
            for _ in range(N_VIEWS):
                outputs = pick_output(task.model(task.augmenter.uninformed_views(x, generator)))
                assert isinstance(outputs, Tensor)  # noqa: S101  # training has checked it
                merged = merged.to(outputs) + outputs / N_VIEWS
            losses.append(task.losses(merged, targets.to(task.device)))
    return torch.cat(losses).float()


def _compare(plain: Float[Tensor, " n"], own: Float[Tensor, " n"]) -> Finding:
    """The mean over images and processes."""
    difference = own - plain
    moments = torch.stack([plain.mean(), difference.mean(), difference.var() / len(plain)])
    loss, mean, variance = mean_over_processes(moments).tolist()
    if not isfinite(mean):
        raise NonFiniteError("A trial on the side ended in a loss that is NaN or infinite.")
    return Finding(loss, mean, sqrt(variance))


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
