"""From settings and data to a task: which parts with which numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.data import DataSplits, channel_statistics
from instaaug.experiments.config import TrainConfig
from instaaug.experiments.named_transforms import levels_of, transforms_of
from instaaug.methods import NoAugmentation, RandomAugmentation
from instaaug.networks import make_model
from instaaug.registry import Registry
from instaaug.tasks import AugmentedTask, Optimization, RegressionTask, SupervisedTask

__all__ = ["AUGMENTERS", "DataFacts", "build_task", "levels_of", "transforms_of"]

AUGMENTERS: Registry[Callable[..., Augmenter]] = Registry("method")


@dataclass(frozen=True)
class DataFacts:
    """What a model must know of the data it was trained on; part of the run directory.

    Arguments:
        image_size: Side of the images in pixels.
        channels: Color channels.
        classes: Names of the classes; empty for a regression.
        n_targets: Numbers to predict; the number of classes in a classification.
        mean: Per-channel mean in [0, 1].
        std: Per-channel standard deviation.
        split_hash: Changes when any image changes its side.
    """

    image_size: int
    channels: int
    classes: tuple[str, ...]
    n_targets: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    split_hash: str

    @classmethod
    def of(cls, splits: DataSplits) -> "DataFacts":
        """Look at the training images."""
        train = splits.train
        channels, height, _ = train.image_shape
        mean, std = channel_statistics(train)
        n_numbers = train.targets.shape[1] if train.targets.ndim > 1 else 1
        return cls(
            image_size=height,
            channels=channels,
            classes=train.classes,
            n_targets=len(train.classes) or n_numbers,
            mean=mean,
            std=std,
            split_hash=splits.hash,
        )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "DataFacts":
        """Read back from JSON.

        Raises:
            TypeError: If a value is absent, unknown or of another type. The number of outputs, for
                one, is handed to whatever function the settings name as the model.
        """
        counts = ("image_size", "channels", "n_targets")
        wrong = [name for name in counts if type(values.get(name)) is not int]
        for name, kind in {"classes": str, "mean": float, "std": float}.items():
            items = values.get(name)
            if not isinstance(items, list) or not all(type(item) is kind for item in items):
                wrong.append(name)
        if not isinstance(values.get("split_hash"), str):
            wrong.append("split_hash")
        if wrong:
            raise TypeError(f"its {wrong[0]} is of another type")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**values)


@AUGMENTERS.register("none")
def no_augmentation(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Images as they are."""
    del config, facts  # nothing to set
    return NoAugmentation()


@AUGMENTERS.register("random")
def random_augmentation(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """The same hand-set ranges for every image."""
    return RandomAugmentation(
        transforms_of(config),
        strength=config.strength,
        sizes=config.sizes,
        mean=facts.mean,
        std=facts.std,
        padding=config.padding,
    )


@AUGMENTERS.register("instaaug")
def instaaug(config: TrainConfig, facts: DataFacts) -> Augmenter:
    """Ranges and boxes learned per image."""
    learns_from_input = config.conditioning == "input" and config.estimator != "exact"
    predicts = config.baseline in ("value", "critic")
    return InstaAug(
        transforms_of(config),
        diversity=config.diversity,
        entropy=config.entropy,
        conditioning=config.conditioning,
        network=config.network,
        width=config.phi_width,
        in_channels=facts.channels,
        n_classes=len(facts.classes) or None if config.conditioning == "class" else None,
        estimator=config.estimator,
        baseline="batch" if predicts and not learns_from_input else config.baseline,
        rule=config.rule,
        weight=config.weight,
        mean=facts.mean,
        std=facts.std,
        padding=config.padding,
    )


def build_task(config: TrainConfig, facts: DataFacts) -> AugmentedTask:
    """The model, the augmenter and how they are trained; the seed decides the first weights."""
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
        augmenter = AUGMENTERS[config.method](config, facts)
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
