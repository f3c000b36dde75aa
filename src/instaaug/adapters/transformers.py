"""Learned augmentation in Hugging Face's Trainer, for models that classify images."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Trainer, TrainerCallback
from typing_extensions import override

from instaaug.augmentation import InstaAug, weights_file
from instaaug.augmentation.hub import WEIGHTS
from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.processes import copy_first_process, mean_over_processes
from instaaug.networks.model_interface import output_rows

__all__ = ["InstaAugTrainer"]


class InstaAugTrainer(Trainer):
    """Hugging Face's Trainer with φ: training batches are augmented, all others are not.

    The model takes ``pixel_values`` and returns ``logits``; a batch has ``labels``, one class per
    image. φ's parameters are a group of the Trainer's own optimizer, with the Trainer's schedule.
    Every checkpoint, and whatever ``save_model`` writes, has ``aug.safetensors``; training that is
    resumed goes on with φ and λ from there. The logs have the objective as ``loss``, and the mean
    loss, entropies and λ under ``aug/``.

    Arguments:
        aug: The augmenter. Where images are normalized, build it with their mean and std.
        learning_rate: Of φ, at its peak.
        arguments: What Hugging Face's Trainer takes: model, args, train_dataset and so on.

    Example:
        >>> from instaaug import InstaAug
        >>> # InstaAugTrainer(model=model, args=args, train_dataset=data, aug=InstaAug("crop"))
    """

    def __init__(self, *, aug: InstaAug, learning_rate: float = 1e-3, **arguments: Any) -> None:
        if arguments.get("compute_loss_func") is not None:
            raise ArgumentError(
                "`compute_loss_func` gives one loss per batch, but φ learns from one per image: "
                "got a function. Leave it out, or override losses() in a subclass."
            )
        super().__init__(**arguments)
        self.aug, self.phi_learning_rate = aug.to(self.args.device), learning_rate
        self.model_accepts_loss_kwargs = False  # our loss is a mean over the batch
        self.add_callback(_ForgetGradients(aug))
        self._monitored: dict[str, Tensor] = {}

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """One loss per image; override it to train with another."""
        smoothing = self.args.label_smoothing_factor
        return F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)

    @override
    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if not model.training:
            return super().compute_loss(model, inputs, *args, **kwargs)
        if missing := {"pixel_values", "labels"} - inputs.keys():
            raise ShapeError(
                f"`pixel_values` and `labels` must be in a batch: {', '.join(sorted(missing))} "
                f"is missing among {', '.join(inputs)}. Name them so in `data_collator`."
            )
        others = {name: value for name, value in inputs.items() if name != "labels"}
        batch = self.aug.train()(inputs["pixel_values"], targets=inputs["labels"])
        outputs = model(**{**others, "pixel_values": batch.inputs})
        losses = batch.losses(
            lambda labels: self.losses(output_rows(outputs, len(batch.inputs)), labels)
        )
        self._monitored = {"loss": losses.detach().mean(), **self.aug.monitor(batch)}
        objective = self.aug.objective(losses, batch)
        returns_outputs = kwargs.get("return_outputs", args[0] if args else False)
        return (objective, outputs) if returns_outputs else objective

    @override
    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        is_given = self.optimizer is not None
        optimizer = super().create_optimizer(*args, **kwargs)
        parameters = [p for p in self.aug.parameters() if p.requires_grad]
        if not is_given:
            group = {"params": parameters, "lr": self.phi_learning_rate, "weight_decay": 0.0}
            optimizer.add_param_group(group)
            copy_first_process(self.aug)
            for parameter in parameters:  # accelerate averages the model's gradient alone
                parameter.register_hook(mean_over_processes)
        theirs = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not theirs.issuperset(map(id, parameters)):
            raise ArgumentError(
                "`optimizers` must train φ, too: got an optimizer without its parameters. Add "
                '{"params": aug.parameters(), "lr": 1e-3}, or leave `optimizers` out.'
            )
        return optimizer

    @override
    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        if "loss" in logs:
            logs |= {f"aug/{name}": float(value) for name, value in self._monitored.items()}
        super().log(logs, *args, **kwargs)

    @override
    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        super().save_model(output_dir, _internal_call)
        if self.args.should_save:
            self.aug.save(Path(output_dir or self.args.output_dir) / WEIGHTS)

    @override
    def _load_from_checkpoint(self, resume_from_checkpoint: str, *args: Any, **kw: Any) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, *args, **kw)
        path = Path(resume_from_checkpoint) / WEIGHTS
        weights_file.load_tensors(path, self.aug, weights_file.read(path)[1])


class _ForgetGradients(TrainerCallback):
    """Begins every step without a gradient of φ: the Trainer clears the model's alone."""

    def __init__(self, aug: InstaAug) -> None:
        self.aug = aug

    @override
    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self.aug.zero_grad()
