"""Fine-tuning of published weights: the images that they expect, and how fast they learn."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from instaaug.data.load import is_resizable
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.networks import ExpectedImages, expected_images, make_model
from instaaug.networks.encoders import backbone_parameters
from instaaug.runs.settings import TrainSettings

__all__ = [
    "backbone_of",
    "backbone_rate",
    "describe_pretrained",
    "explain_size",
    "settle_pretrained",
]

FINE_TUNING_RATE = 0.1


def settle_pretrained(config: TrainSettings) -> TrainSettings:
    """The settings with what a pre-trained model expects in place of what was not given.

    That is the size and the channels of images that are decoded from files, and the
    normalization. Settings without `model.pretrained` stay as they are.

    Raises:
        ArgumentError: If the model has no published weights.
    """
    if not config.model.pretrained:
        return config
    open_size = config.data.image_size is None or config.data.channels is None
    open_size = open_size and is_resizable(Path(config.data.source))
    open_colors = config.model.mean is None and config.model.std is None
    if not (open_size or open_colors) and config.model.name.startswith("timm:"):
        return config
    known = _look_up(config.model.name)
    chosen: dict[str, Any] = {}
    if open_size:
        wanted = {"data.image_size": known.size, "data.channels": known.channels}
        given = config.flatten()
        chosen |= {name: value for name, value in wanted.items() if value and not given[name]}
    if open_colors and known.mean is not None and known.std is not None:
        is_gray = config.data.channels == 1
        for name, values in (("mean", known.mean), ("std", known.std)):
            chosen[f"model.{name}"] = [sum(values) / len(values)] if is_gray else list(values)
    return config.override(chosen)


def _look_up(name: str) -> ExpectedImages:
    """What a model expects; its weights are not needed to know that."""
    with torch.random.fork_rng(devices=[]):
        if name.startswith("timm:"):
            return expected_images(make_model(name, 1))
        return expected_images(make_model(name, 1, pretrained=True))  # raises, saying why


def describe_pretrained(config: TrainSettings) -> str:
    """A sentence on what was settled, for the console."""
    size, channels = config.data.image_size, config.data.channels
    side = f"{size} × {size} pixels" if size else "the size they have"
    colors = {1: ", gray", 3: ", in color"}.get(channels or 0, "")
    normal = (
        f"mean {_numbers(config.model.mean)} and standard deviation {_numbers(config.model.std)}"
        if config.model.mean is not None
        else "those of the training images"
    )
    return (
        f"{config.model.name} begins with its published weights, its last layer made for these "
        f"classes. Images have {side}{colors}, normalized with {normal}; all layers but the "
        f"last learn at {backbone_rate(config):g} of the rate."
    )


def _numbers(values: Any) -> str:
    return values if isinstance(values, str) else ", ".join(f"{value:.3g}" for value in values)


def backbone_rate(config: TrainSettings) -> float:
    """The factor on the rate of all layers but the last: given, or a tenth for trained ones."""
    if config.optimizer.backbone_rate is not None:
        return config.optimizer.backbone_rate
    return FINE_TUNING_RATE if config.model.pretrained else 1.0


def backbone_of(model: nn.Module, config: TrainSettings) -> list[nn.Parameter]:
    """Parameters with a rate of their own; none if all learn alike."""
    return [] if backbone_rate(config) == 1 else backbone_parameters(model)


@contextmanager
def explain_size(model: nn.Module, config: TrainSettings, size: int) -> Iterator[None]:
    """Say it in a sentence if a model cannot take the images.

    Arguments:
        model: The model, or one that has it inside.
        config: Every setting.
        size: Side in pixels of what it is shown.
    """
    try:
        yield
    except InstaAugError:
        raise
    except (RuntimeError, ValueError, AssertionError) as error:
        words = " ".join(str(error).split()).rstrip(".")[:200]
        name = "data.image_size" if config.crop.size is None else "crop.size"
        known = next((s for m in model.modules() if (s := expected_images(m).size)), None)
        if known is None or known == size:
            raise ArgumentError(
                f"`model` {config.model.name!r} cannot take images of {size} × {size} pixels: "
                f"{words}. Choose another size by --{name}."
            ) from error
        raise ArgumentError(
            f"`{name}` must be a size that the model takes: {config.model.name!r} is made for "
            f"{known} × {known} pixels, got {size} × {size} ({words}). Give --{name} {known}."
        ) from error
