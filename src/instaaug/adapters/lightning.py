"""Learned augmentation for one's own Lightning module, as a callback."""

from collections.abc import Mapping
from functools import wraps
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, InstaAug
from instaaug.errors import ArgumentError, DataError, ShapeError
from instaaug.functional.processes import copy_first_process, mean_over_processes, step_generator
from instaaug.shapes import repeat_batch

__all__ = ["InstaAugCallback"]


class InstaAugCallback(Callback):
    """Trains φ along with any Lightning module, whose training step gets augmented inputs.

    The module keeps its training step, optimizer and schedule. Its training step returns one loss
    per input: ``{"loss": losses.mean(), "losses": losses}``, which also works without this
    callback, or the vector ``losses`` alone. φ has an Adam of its own; φ, λ and that optimizer
    are in Lightning's checkpoints. Validation and predictions are left as they are.

    Arguments:
        aug: The augmenter; the module's own optimizer must not have its parameters.
        learning_rate: Of φ.
        inputs: Where the images are in a batch: a number for pairs, a name for dicts.
        n_samples: Augmented samples of each input; all other tensors are repeated to match.
        seed: Decides the draws.

    Example:
        >>> from instaaug import InstaAug
        >>> callback = InstaAugCallback(InstaAug("crop"), inputs="image")
        >>> # lightning.pytorch.Trainer(callbacks=[callback]).fit(your_module, your_loader)
    """

    def __init__(
        self,
        aug: InstaAug,
        *,
        learning_rate: float = 1e-3,
        inputs: int | str = 0,
        n_samples: int = 1,
        seed: int = 0,
    ) -> None:
        self.aug, self.inputs, self.n_samples = aug, inputs, n_samples
        self.seed, self.n_steps = seed, 0
        self.optimizer = torch.optim.Adam(aug.parameters(), lr=learning_rate)

    @override
    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        _check_fit(trainer, pl_module, self.aug)
        self.aug.to(pl_module.device).zero_grad()
        self.optimizer.load_state_dict(self.optimizer.state_dict())  # its moments move along
        copy_first_process(self.aug)
        own_step = pl_module.training_step

        @wraps(own_step)
        def training_step(batch: Any, *args: Any, **kwargs: Any) -> Any:
            augmented, batch = self._augment(batch, pl_module)
            return self._objective(own_step(batch, *args, **kwargs), augmented)

        pl_module.training_step = training_step  # type: ignore[method-assign]

    @override
    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        vars(pl_module).pop("training_step", None)  # the class has its own again

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self.on_fit_end(trainer, pl_module)

    def _augment(self, batch: Any, module: LightningModule) -> tuple[AugmentedBatch, Any]:
        """The augmented inputs, and the batch with these in place of its own."""
        x, rank = _images(batch, self.inputs), module.global_rank
        generator = step_generator(self.seed, rank=rank, step=self.n_steps, device=x.device)
        augmented = self.aug.train()(x, self.n_samples, generator=generator)
        self.n_steps += 1
        module.log_dict({f"aug/{k}": v for k, v in self.aug.monitor(augmented).items()})

        def follow(tensor: Tensor) -> Tensor:
            if tensor is x:
                return augmented.inputs
            has_rows = tensor.ndim > 0 and len(tensor) == len(x)
            return repeat_batch(tensor, augmented.n_samples) if has_rows else tensor

        return augmented, apply_to_collection(batch, Tensor, follow)

    def _objective(self, returned: Any, augmented: AugmentedBatch) -> Any:
        """What the training step returned, with the objective of the model and φ as its loss."""
        if returned is None:  # Lightning skips the step
            return None
        is_dict = isinstance(returned, Mapping)
        losses = returned.get("losses", returned.get("loss")) if is_dict else returned
        if not isinstance(losses, Tensor) or losses.ndim == 0:
            raise ShapeError(
                "`training_step` must return one loss per input for φ to learn from: got "
                f'{returned!r:.80}. Compute losses with reduction="none" and return '
                '{"loss": losses.mean(), "losses": losses}.'
            )
        loss = self.aug.objective(losses, augmented)
        return {**returned, "losses": losses.detach(), "loss": loss} if is_dict else loss

    @override
    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        for parameter in self.aug.parameters():
            if parameter.grad is not None:
                parameter.grad = mean_over_processes(parameter.grad)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @override
    def state_dict(self) -> dict[str, Any]:
        optimizer = self.optimizer.state_dict()
        return {"aug": self.aug.state_dict(), "optimizer": optimizer, "n_steps": self.n_steps}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.aug.load_state_dict(state_dict["aug"])
        self.optimizer.load_state_dict(state_dict["optimizer"])
        self.n_steps = state_dict["n_steps"]


def _check_fit(trainer: Trainer, module: LightningModule, aug: InstaAug) -> None:
    """Raise where φ could not learn, or would learn twice."""
    if not module.automatic_optimization:
        raise ArgumentError(
            "`automatic_optimization` must be True with InstaAugCallback: got False. Call aug(x) "
            "and aug.objective(losses, batch) in your training step in place of the callback."
        )
    if getattr(trainer.precision_plugin, "scaler", None) is not None:
        raise ArgumentError(
            "`precision` 16-mixed scales gradients, which φ's own optimizer would not know. "
            'Choose "bf16-mixed".'
        )
    groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
    theirs = {id(parameter) for group in groups for parameter in group["params"]}
    if any(id(parameter) in theirs for parameter in aug.parameters()):
        raise ArgumentError(
            "`aug` must be trained by one optimizer: got it both in the callback and in the "
            "module's own. Leave its parameters out in configure_optimizers."
        )


def _images(batch: Any, key: int | str) -> Tensor:
    """The images of a batch, which may be nothing else."""
    try:
        found = batch if isinstance(batch, Tensor) else batch[key]
    except (KeyError, IndexError, TypeError):
        found = None
    if isinstance(found, Tensor):
        return found
    keys = f" of {', '.join(map(repr, batch))}" if isinstance(batch, Mapping) else ""
    raise DataError(
        f"`inputs` must be where a batch has its images: got {key!r} for a batch that is a "
        f"{type(batch).__name__}{keys}. Say InstaAugCallback(aug, inputs=...)."
    )
