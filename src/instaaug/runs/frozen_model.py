"""What MODEL may be: a function that returns a trained model, one of timm's, or that of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError
from instaaug.frozen import Pictures
from instaaug.networks import pretrained_maker
from instaaug.networks.model_interface import Output, pick_output
from instaaug.runs.settings import TrainSettings, TtaSettings

__all__ = ["FrozenModel", "ModelSource", "build_model", "channels_of", "find_model"]

CHANNELS = 3
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
"""Per-channel mean and standard deviation that most models of ImageNet expect."""
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class ModelSource:
    """A trained model that has been found, and what it says of itself.

    Arguments:
        make: Gives the model when it is told the number of classes.
        size: Side in pixels of the images it takes, if it is known.
        channels: Of these images, likewise.
        mean: Per-channel mean that it expects images to be normalized with, likewise.
        std: Per-channel standard deviation, likewise.
        classes: In the order of its outputs, likewise.
        trained_by: The settings of the run that trained it, if one of ours did.
    """

    make: Callable[[int], nn.Module]
    size: int | None = None
    channels: int | None = None
    mean: Numbers | None = None
    std: Numbers | None = None
    classes: tuple[str, ...] = ()
    trained_by: TrainSettings | None = None


def find_model(name: str) -> ModelSource:
    """Find the model, so that a slip is told before any image is read.

    Arguments:
        name: ``module:function``, ``timm:NAME``, or the folder of a run.
    """
    if Path(name).is_dir():
        return _of_run(name)
    make = pretrained_maker(name)
    return _of_timm(make(0)) if name.startswith("timm:") else ModelSource(make)


def _of_run(path: str) -> ModelSource:
    from instaaug.runs.run_directory import RunDirectory  # Lightning takes its time

    run = RunDirectory(path)
    config, facts = run.read_config(), run.read_facts()
    if config.task != "classification":
        raise ArgumentError(
            f"`model` must tell classes apart: the run {path!r} is a {config.task}."
        )
    model = run.load_task().model
    assert isinstance(model, nn.Module)  # noqa: S101  # a Lightning module's attribute is anything
    return ModelSource(
        lambda _: model,
        size=facts.image_size,
        channels=facts.channels,
        mean=facts.mean,
        std=facts.std,
        classes=facts.classes,
        trained_by=config,
    )


def _of_timm(model: nn.Module) -> ModelSource:
    known: Any = getattr(model, "pretrained_cfg", None) or {}
    channels, height, _ = known.get("input_size") or (None, None, None)
    mean, std = (known.get(name) for name in ("mean", "std"))
    return ModelSource(
        lambda _: model,
        size=height,
        channels=channels,
        mean=None if mean is None else tuple(mean),
        std=None if std is None else tuple(std),
    )


@dataclass(frozen=True)
class FrozenModel:
    """A model as it is, and how images become what it takes.

    Arguments:
        module: In evaluation mode.
        channels: Of the images.
        output: Picks the logits out of what it returns.
        mean: Per-channel mean to normalize images in [0, 1] with.
        std: Per-channel standard deviation, likewise.
    """

    module: nn.Module
    channels: int
    output: Output | None = None
    mean: Numbers | None = None
    std: Numbers | None = None

    def pictures(self, images: LabeledImages) -> Pictures:
        """Images as the model takes them, but for their size, with their classes."""
        return Pictures(images, mean=self.mean, std=self.std)

    def prepared(self, pixels: Tensor) -> Tensor:
        """8-bit pixels, likewise."""
        nobody = torch.zeros(len(pixels))
        return Pictures((pixels, nobody), mean=self.mean, std=self.std).first(len(pixels))

    def check_outputs(self, size: int, classes: Sequence[str]) -> None:
        """Raise unless the model takes images of this size and has an output for every class."""
        like = next((p for p in self.module.parameters() if p.is_floating_point()), torch.zeros(1))
        try:
            with torch.no_grad():
                returned = self.module(like.new_zeros(1, self.channels, size, size))
        except (RuntimeError, ValueError, AssertionError) as error:
            words = " ".join(str(error).split())[:200]
            raise ArgumentError(
                f"`model` cannot take an image of {self.channels} × {size} × {size}: {words}. Say "
                "what it takes by --size and --channels."
            ) from error
        found = pick_output(returned, self.output)
        if not isinstance(found, Tensor):
            raise ArgumentError(f"`model` must return logits: got {_inside(returned)}.")
        if found.ndim != 2:
            raise ArgumentError(
                "`model` must return a logit per class, (N, C): got shape "
                f"{tuple(found.shape)} for one image. Pick another output by --output."
            )
        if found.shape[1] != len(classes):
            raise ArgumentError(
                f"`model` has {found.shape[1]} outputs, but there are {len(classes)} classes: "
                f"{', '.join(classes[:5])}{', ...' if len(classes) > 5 else ''}. Write the names "
                "of its classes into a file, one per line in the order of its outputs, and give "
                "that by --classes."
            )


def channels_of(source: ModelSource, config: TtaSettings) -> int:
    """Color channels of the images: typed, the model's own, or three."""
    return config.model.channels or source.channels or CHANNELS


def build_model(source: ModelSource, config: TtaSettings, num_classes: int) -> FrozenModel:
    """The model in evaluation mode, on the accelerator if there is one; what is typed wins."""
    channels = channels_of(source, config)
    mean = _channel_values(config.model.mean, "mean", channels)
    std = _channel_values(config.model.std, "std", channels)
    if config.model.mean == "imagenet" and std is None:
        std = _channel_values("imagenet", "std", channels)
    if (mean is None) != (std is None):
        raise ArgumentError(
            "`model.mean` and `model.std` must be given both, or neither: got one of them."
        )
    if std is not None and min(std) <= 0:
        raise ArgumentError(f"`model.std` must be above 0: got {list(std)}. 1 changes nothing.")
    return FrozenModel(
        module=source.make(num_classes).eval().to("cuda" if torch.cuda.is_available() else "cpu"),
        channels=channels,
        output=_output(config.model.output),
        mean=source.mean if mean is None else mean,
        std=source.std if std is None else std,
    )


def _channel_values(
    value: Literal["imagenet"] | Numbers | None, kind: Literal["mean", "std"], channels: int
) -> Numbers | None:
    """One number per channel, from one for all, one for each, or the name of a data set."""
    numbers = IMAGENET[kind] if value == "imagenet" else value
    if numbers is None:
        return None
    if len(numbers) == 1:
        return numbers * channels
    if len(numbers) != channels:
        raise ArgumentError(
            f"`model.{kind}` must be one number, {channels}, one per channel, or imagenet: got "
            f"{list(numbers)}."
        )
    return numbers


def _output(key: str | None) -> Output | None:
    """From the word after ``--output`` to a function that picks."""
    if key is None:
        return None

    def pick(returned: Any) -> Any:
        try:
            if isinstance(returned, Tensor):
                raise KeyError(key)
            if isinstance(returned, Mapping):
                return returned[key]
            if isinstance(returned, tuple | list):
                return returned[int(key)]
            return getattr(returned, key)
        except (LookupError, ValueError, AttributeError):
            raise ArgumentError(
                f"`output` must be found in what the model returns: got {key!r}, but "
                f"{_inside(returned)}."
            ) from None

    return pick


def _inside(returned: Any) -> str:
    """What a model returned, and how to choose from it."""
    if isinstance(returned, Tensor):
        return "it returns a tensor; leave --output out"
    if isinstance(returned, Mapping):
        return f"a dict with {', '.join(map(str, returned))}; choose one by --output KEY"
    if isinstance(returned, tuple | list):
        return f"a {type(returned).__name__} of {len(returned)}; choose one by --output NUMBER"
    return f"a {type(returned).__name__}; choose one of its attributes by --output NAME"
