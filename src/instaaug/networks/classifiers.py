"""Classifiers by name, from a package, or the user's own."""

import importlib
from collections.abc import Callable
from inspect import Parameter, signature
from itertools import pairwise
from pickle import UnpicklingError
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.networks.feature_networks import PreActResNet18
from instaaug.registry import Registry, import_object, working_folder
from instaaug.shapes import Images

__all__ = [
    "MODELS",
    "ExpectedImages",
    "SmallCNN",
    "expected_images",
    "make_model",
    "pretrained_maker",
]


class SmallCNN(nn.Module):
    """Three strided convolutions and a linear layer on a 4 × 4 summary; any image size.

    Example:
        >>> SmallCNN(4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 4])
    """

    def __init__(self, num_classes: int, *, in_channels: int = 3, channels: int = 16) -> None:
        super().__init__()
        widths = [in_channels, channels, 2 * channels, 4 * channels]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(4 * channels * 16, num_classes)
        )

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch classes"]:
        return self.head(self.features(x))


TIMM = "timm:"
MODELS: Registry[Callable[..., nn.Module]] = Registry("model")
SMALL_IMAGE = 32


@MODELS.register("small_cnn")
def small_cnn(n_outputs: int, *, in_channels: int, width: float = 1.0, **_: Any) -> nn.Module:
    """Three convolutions, for small images and quick answers."""
    channels = max(1, round(16 * width))
    return SmallCNN(n_outputs, in_channels=in_channels, channels=channels)


@MODELS.register("preact_resnet18")
def preact_resnet18(
    n_outputs: int, *, in_channels: int, image_size: int, width: float = 1.0, stem_stride: int = 0
) -> nn.Module:
    """The paper's classifier, 64 channels at width 1."""
    stride = stem_stride or (1 if image_size < 64 else 2)
    return PreActResNet18(n_outputs, width=width, in_channels=in_channels, stem_stride=stride)


def describe_auto(image_size: int) -> str:
    """What the model ``auto`` is for images of this size, in words.

    Example:
        >>> describe_auto(32), describe_auto(64)
        ('small_cnn', 'preact_resnet18 of half the width')
    """
    return "small_cnn" if image_size <= SMALL_IMAGE else "preact_resnet18 of half the width"


@MODELS.register("auto")
def auto(n_outputs: int, *, in_channels: int, image_size: int, **options: Any) -> nn.Module:
    """small_cnn up to 32 pixels, preact_resnet18 of half the width above."""
    shape = {"in_channels": in_channels, "image_size": image_size}
    if image_size <= SMALL_IMAGE:
        return small_cnn(n_outputs, **shape, **options)
    options["width"] = options.get("width", 1.0) / 2
    return preact_resnet18(n_outputs, **shape, **options)


def make_model(
    name: str,
    n_outputs: int,
    *,
    in_channels: int = 3,
    image_size: int = 64,
    width: float = 1.0,
    stem_stride: int = 0,
    pretrained: bool = False,
) -> nn.Module:
    """Build a model.

    Arguments:
        name: A registered name; ``timm:NAME`` where timm is installed, ``timm:local-dir:FOLDER``
            for weights on disk; or ``module:function``, called with the number of outputs.
        n_outputs: Classes, or numbers to predict.
        in_channels: Channels of the images.
        image_size: Side of the images in pixels.
        width: Multiplies the channels of a registered model.
        stem_stride: Stride of PreActResNet's first layer; 0 chooses by the image size.
        pretrained: Whether a model of timm gets its published weights; its last layer is new
            unless they have as many outputs.

    Example:
        >>> type(make_model("auto", 10, image_size=32)).__name__
        'SmallCNN'
    """
    if name.startswith(TIMM):
        weights = {"pretrained": True} if pretrained else {}
        return _from_timm(name, num_classes=n_outputs, in_chans=in_channels, **weights)
    origin, _, rest = name.rpartition(":")
    if pretrained:
        way = (
            "A function returns its model with the weights that it has: leave it out, and say "
            "what the model expects by `model.mean` and `model.std`."
            if origin
            else "Name one of timm's, or a module:function that returns a trained model."
        )
        raise ArgumentError(
            "`model.pretrained` is for timm:NAME, whose weights are published: got the model "
            f"{name!r}. {way}"
        )
    if origin:
        return _call_function(import_object(origin, rest, argument="model"), name, n_outputs)
    if name not in MODELS:
        raise UnknownNameError("model", name, [*MODELS, "timm:NAME", "module:function"])
    if not width > 0:
        raise ArgumentError(f"`width` must be above 0: got {width}. 1 is the model as published.")
    return MODELS[name](
        n_outputs,
        in_channels=in_channels,
        image_size=image_size,
        width=width,
        stem_stride=stem_stride,
    )


def pretrained_maker(name: str) -> Callable[[int], nn.Module]:
    """A function of the number of classes that gives a trained model.

    Whatever can be found out without that number is found out now: that the module can be
    imported, that timm has the weights.

    Arguments:
        name: ``timm:NAME``, with its weights and as many classes as these have; or
            ``module:function``, called without an argument if it needs none, else with the number
            of classes.
    """
    if name.startswith(TIMM):
        model = _from_timm(name, pretrained=True)
        return lambda _: model
    origin, _, rest = name.rpartition(":")
    if not origin:
        raise ArgumentError(
            "`model` must be a module:function that returns a trained model, timm:NAME, or the "
            f"folder of a finished `instaaug train`: got {name!r}, and there is no such folder."
        )
    function = import_object(origin, rest, argument="model")
    alone = _takes_no_argument(function)

    def make(n_outputs: int) -> nn.Module:
        try:
            return _call_function(function, name, *(() if alone else (n_outputs,)))
        except (OSError, RuntimeError, UnpicklingError) as error:  # weights: absent, or of another
            words = " ".join(str(error).split())[:300]
            raise ArgumentError(f"`model` {name!r} cannot load its weights: {words}") from error

    return make


class ExpectedImages(NamedTuple):
    """What a model was made for, as far as it says so."""

    size: int | None
    channels: int | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


def expected_images(model: nn.Module) -> ExpectedImages:
    """Side, channels and normalization of the images that a model expects; timm's say so.

    Example:
        >>> model = SmallCNN(2)
        >>> model.pretrained_cfg = {"input_size": (3, 160, 160), "mean": (0.5, 0.5, 0.5)}
        >>> expected_images(model)
        ExpectedImages(size=160, channels=3, mean=(0.5, 0.5, 0.5), std=None)
    """
    known: Any = getattr(model, "pretrained_cfg", None) or {}
    channels, height, _ = known.get("input_size") or (None, None, None)
    mean, std = (known.get(name) for name in ("mean", "std"))
    return ExpectedImages(
        height,
        channels,
        None if mean is None else tuple(mean),
        None if std is None else tuple(std),
    )


def _from_timm(name: str, **settings: Any) -> nn.Module:
    try:
        timm = importlib.import_module("timm")
    except ImportError:
        raise ArgumentError(
            f"`model` {name!r} needs timm, which is not installed. Run `pip install timm`."
        ) from None
    try:
        model = timm.create_model(name.removeprefix(TIMM), **settings)
    except (RuntimeError, OSError, ValueError, KeyError) as error:
        words = " ".join(str(error).split()).rstrip(".")[:300]
        if settings.get("pretrained") and isinstance(error, OSError):
            raise ArgumentError(
                f"`model` {name!r} cannot load its weights: {words}. Where there is no network, "
                "name a folder with config.json and model.safetensors: timm:local-dir:FOLDER."
            ) from error
        raise ArgumentError(f"`model` {name!r} cannot be built: {words}.") from error
    return _check_module(model, name)


def _takes_no_argument(function: Any) -> bool:
    """Whether it can be called without an argument."""
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # no function, or one of C: the call will tell
        return False
    return all(p.default is not p.empty or p.kind in several for p in parameters)


def _call_function(make: Any, given: str, *arguments: int) -> nn.Module:
    """Call the function with the number of outputs, or without an argument."""
    try:
        with working_folder():
            model = make(*arguments)
    except TypeError as error:
        how = "one argument, the number of outputs" if arguments else "no argument"
        raise ArgumentError(f"`model` {given!r} is called with {how}: {error}.") from error
    return _check_module(model, given)


def _check_module(model: object, given: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"`model` {given!r} must return an nn.Module: got {type(model).__name__}."
        )
    return model
