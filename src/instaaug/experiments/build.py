"""From settings and data to a task: which parts with which numbers."""

from typing import Any

import torch

from instaaug.data import LabeledImages
from instaaug.experiments.augmenters import make_augmenter
from instaaug.experiments.config import TrainConfig
from instaaug.experiments.data_facts import DataFacts
from instaaug.networks import make_model
from instaaug.tasks import AugmentedTask, Optimization, RegressionTask, SupervisedTask

__all__ = ["build_task"]


def build_task(
    config: TrainConfig, facts: DataFacts, *, held_out: LabeledImages | None = None
) -> AugmentedTask:
    """The model, the augmenter and how they are trained; the seed decides the first weights.

    Arguments:
        config: Every setting.
        facts: On the data.
        held_out: Training images that the model is not shown, for methods that learn from such.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = make_model(
            config.model,
            facts.n_targets,
            in_channels=facts.channels,
            image_size=facts.image_size,
            width=config.width,
            stem_stride=config.stem_stride,
        ).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        augmenter = make_augmenter(config, facts)
        augmenter.attach(model)  # some have weights from then on only
    settings: dict[str, Any] = {
        "optimization": Optimization(
            config.optimizer,
            config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            schedule=config.schedule,
        ),
        "phi_optimization": Optimization(
            config.phi_optimizer, config.phi_learning_rate, schedule=config.phi_schedule
        ),
        "mean": facts.mean,
        "std": facts.std,
        "pretrain_epochs": config.pretrain_epochs,
        "phi_rest_epochs": config.phi_rest_epochs,
        "n_samples": config.n_samples,
        "flip": config.flip,
        "clip": config.clip,
        "accumulate": config.accumulate,
        "phi_step": config.phi_step,
        "held_out": held_out,
        "seed": config.seed,
    }
    if config.task == "regression":
        return RegressionTask(
            model, augmenter, n_targets=facts.n_targets, loss=config.loss, **settings
        )
    return SupervisedTask(
        model,
        augmenter,
        n_classes=len(facts.classes),
        label_smoothing=config.label_smoothing,
        **settings,
    )
