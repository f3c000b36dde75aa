"""From settings and data to a task: which parts with which numbers."""

from typing import Any

import torch
from torch import nn

from instaaug.augmentation import Augmenter
from instaaug.data import LabeledImages
from instaaug.runs.augmenters import make_augmenter
from instaaug.runs.config import TrainConfig
from instaaug.runs.contrastive_options import read_contrast
from instaaug.runs.data_facts import DataFacts
from instaaug.methods import Distortions
from instaaug.networks import make_model
from instaaug.networks.projection import without_head
from instaaug.tasks import (
    AugmentedTask,
    ContrastiveTask,
    Optimization,
    RegressionTask,
    SupervisedTask,
)

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
        if config.task == "contrastive":
            return _contrastive(config, facts, model, augmenter)
    settings = {
        **_settings(config, facts),
        "n_samples": config.n_samples,
        "phi_step": config.phi_step,
        "held_out": held_out,
    }
    if config.task == "regression":
        return RegressionTask(
            model, augmenter, n_targets=facts.n_targets, loss=config.loss, **settings
        )
    return SupervisedTask(
        model,
        augmenter,
        num_classes=len(facts.classes),
        label_smoothing=config.label_smoothing,
        **settings,
    )


def _contrastive(
    config: TrainConfig, facts: DataFacts, model: nn.Module, augmenter: Augmenter
) -> ContrastiveTask:
    image = torch.zeros(1, facts.channels, facts.image_size, facts.image_size)
    encoder, n_features = without_head(model, image)
    own = read_contrast(config.contrast)
    distortions = Distortions(
        strength=own.strength,
        jitter=own.jitter,
        gray=own.gray,
        blur=own.blur,
        flip=own.mirror,
        mean=facts.mean,
        std=facts.std,
    )
    return ContrastiveTask(
        encoder,
        augmenter,
        n_features=n_features,
        temperature=own.temperature,
        hidden=own.hidden,
        n_projected=own.n_projected,
        distortions=distortions,
        **_settings(config, facts),
    )


def _settings(config: TrainConfig, facts: DataFacts) -> dict[str, Any]:
    """What all tasks take."""
    drops: dict[str, Any] = {"factor": config.drop_factor, "drops": config.drop_shares()}
    return {
        "optimization": Optimization(
            config.optimizer,
            config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            schedule=config.schedule,
            warmup_steps=config.warmup_steps,
            **drops,
        ),
        "phi_optimization": Optimization(
            config.phi_optimizer, config.phi_learning_rate, schedule=config.phi_schedule, **drops
        ),
        "mean": facts.mean,
        "std": facts.std,
        "pretrain_epochs": config.pretrain_epochs,
        "phi_rest_epochs": config.phi_rest_epochs,
        "flip": config.flip,
        "clip": config.clip,
        "accumulate": config.accumulate,
        "seed": config.seed,
    }
