"""The frozen model of a run, and the images that views are fitted to."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.cache import OnProgress
from instaaug.data.decode import read_header
from instaaug.data.files import fitting_size, image_files
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.data.labels import quote_first
from instaaug.errors import ArgumentError, DataError
from instaaug.frozen import NormalizedImages
from instaaug.networks import expected_images, pretrained_maker
from instaaug.networks.model_interface import Output, pick_output
from instaaug.runs.folder import Run
from instaaug.runs.model_output import describe_output, read_output
from instaaug.runs.normalization import read_normalization
from instaaug.runs.settings import FrozenSettings, TrainSettings, TtaSettings

__all__ = [
    "FitInputs",
    "FrozenModel",
    "ModelSource",
    "build_model",
    "choose_sizes",
    "drop_hashes",
    "find_channels",
    "find_class_names",
    "find_model",
    "image_hashes",
    "load_images",
    "load_source",
    "renumber_classes",
    "split_by_hash",
]

CHANNELS = 3
Numbers = tuple[float, ...]


class FitInputs(NamedTuple):
    """The model and the images of a fit, found and checked before the model is run on any."""

    source: "ModelSource"
    model: "FrozenModel"
    splits: DataSplits
    size: int


@dataclass(frozen=True)
class ModelSource:
    """A trained model that was found, and what is known of it.

    Arguments:
        make: Makes the model, given the number of classes.
        size: Side in pixels of the images it takes, if it is known.
        channels: Of these images, if they are known.
        mean: Per-channel mean that it expects images to be normalized with, if it is known.
        std: Per-channel standard deviation, if it is known.
        classes: In the order of its outputs, if they are known.
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
    """Find the model, so that a mistake is reported before any image is read.

    Arguments:
        name: ``module:function``, ``timm:NAME``, or the folder of a run.
    """
    if os.path.isdir(name):  # noqa: PTH112  # false for names that no file can have
        return _find_in_run(name)
    make = pretrained_maker(name)
    return _find_in_timm(make(0)) if name.startswith("timm:") else ModelSource(make)


def _find_in_run(path: str) -> ModelSource:
    from instaaug.runs.build import load_task  # Lightning takes its time

    run = Run(path)
    config, facts = run.read_train_settings(), run.read_facts()
    if config.task != "classification":
        raise ArgumentError(
            f"`model` must tell classes apart: the run {path!r} is a {config.task}."
        )
    model = load_task(run).model
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


def _find_in_timm(model: nn.Module) -> ModelSource:
    known = expected_images(model)
    return ModelSource(
        lambda _: model, size=known.size, channels=known.channels, mean=known.mean, std=known.std
    )


@dataclass(frozen=True)
class FrozenModel:
    """A frozen model, and how its inputs are prepared.

    Arguments:
        module: In evaluation mode.
        channels: Of the images.
        output: Picks the logits out of what it returns.
        mean: Per-channel mean to normalize images in [0, 1] with.
        std: Per-channel standard deviation to normalize them with.
    """

    module: nn.Module
    channels: int
    output: Output | None = None
    mean: Numbers | None = None
    std: Numbers | None = None

    def normalize(self, images: LabeledImages) -> NormalizedImages:
        """The images with their classes, normalized as the model expects, in their own size."""
        return NormalizedImages(images, mean=self.mean, std=self.std)

    def prepare(self, pixels: Tensor) -> Tensor:
        """8-bit pixels, normalized as the model expects, in their own size."""
        no_targets = torch.zeros(len(pixels))
        return NormalizedImages((pixels, no_targets), mean=self.mean, std=self.std).first(
            len(pixels)
        )

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
                "what it takes by --model.image_size and --model.channels."
            ) from error
        found = pick_output(returned, self.output)
        if not isinstance(found, Tensor):
            raise ArgumentError(f"`model` must return logits: got {describe_output(returned)}.")
        if found.ndim != 2:
            raise ArgumentError(
                "`model` must return a logit per class, (N, C): got shape "
                f"{tuple(found.shape)} for one image. Pick another output by --model.output."
            )
        if found.shape[1] != len(classes):
            raise ArgumentError(
                f"`model` has {found.shape[1]} outputs, but there are {len(classes)} classes: "
                f"{', '.join(classes[:5])}{', ...' if len(classes) > 5 else ''}. Write the names "
                "of its classes into a file, one per line in the order of its outputs, and give "
                "that by --model.classes."
            )


def find_channels(source: ModelSource, config: FrozenSettings) -> int:
    """Color channels of the images: typed, the model's own, or three."""
    return config.model.channels or source.channels or CHANNELS


def build_model(source: ModelSource, config: FrozenSettings, num_classes: int) -> FrozenModel:
    """The model in evaluation mode, on the accelerator if there is one; what is typed wins."""
    channels = find_channels(source, config)
    given = read_normalization(config.model.mean, config.model.std, channels)
    return FrozenModel(
        module=source.make(num_classes).eval().to("cuda" if torch.cuda.is_available() else "cpu"),
        channels=channels,
        output=read_output(config.model.output),
        mean=source.mean if given is None else given.mean,
        std=source.std if given is None else given.std,
    )


OnDecode = Callable[[int, int], None]
N_HEADERS = 100
FEWEST = 2  # images to learn from: one half judges what the other has taught
TABLES = (".csv", ".tsv")


def choose_sizes(config: FrozenSettings, source: ModelSource) -> tuple[int | None, int | None]:
    """Side of what the model sees, and of the images; None where these decide.

    Files are decoded to twice the model's side, for crops to keep their detail, but not enlarged.
    """
    path = Path(config.data.source)
    own = _short_side(path) if path.is_dir() else None
    fitting = None if own is None else fitting_size([own])
    size = config.model.image_size or source.size or fitting
    if config.data.decode_size or size is None:
        return size, config.data.decode_size
    if own is not None:
        return size, max(size, min(2 * size, own))
    return size, 2 * size if path.suffix.lower() in TABLES else None


def _short_side(folder: Path) -> int | None:
    """The median short side of the files in a folder, by up to 100 of their headers."""
    files = image_files(folder)
    sides = []
    for index in evenly_spaced_indices(len(files), N_HEADERS):
        try:
            header = read_header(files[index])
        except DataError:  # reported with all the others when it is decoded
            continue
        sides.append(min(header.height, header.width))
    return int(median(sides)) if sides else None


def load_images(
    config: FrozenSettings,
    source: ModelSource,
    *,
    side: int | None,
    channels: int,
    on_decode: OnDecode | None = None,
) -> LabeledImages:
    """The images of ``config.data.source`` that the model has probably not learned from.

    Of the data that one of our runs has trained the model on, these are its test images; of other
    data in parts, the test part; of data without parts, all.

    Arguments:
        config: The settings.
        source: The model.
        side: Side in pixels; None for the images' own.
        channels: 1 or 3.
        on_decode: Called with the number of files decoded and of all files.
    """
    trained = source.trained_by
    if trained is not None and config.with_full_paths().data.source == trained.data.source:
        size = trained.data.image_size if side is None else side
        at_this_size = trained.override({"data.image_size": size, "data.channels": channels})
        return _test_images(config.model.name, trained, at_this_size, on_decode)
    splits = load_source(config, side=side, channels=channels, on_decode=on_decode)
    return splits.test if len(splits.test) else splits.train


def load_source(
    config: FrozenSettings,
    *,
    side: int | None,
    channels: int,
    on_decode: OnProgress | None = None,
) -> DataSplits:
    """The data of a run as they are: nothing is held out that they do not hold out themselves.

    Arguments:
        config: The settings.
        side: Side in pixels; None for the images' own.
        channels: 1 or 3.
        on_decode: Called with the number of files decoded and of all files.
    """
    return load_data(
        config.data.source,
        options=config.data.options,
        size=side,
        channels=channels,
        path_column=config.data.path_column,
        target_column=config.data.target_column,
        test_fraction=0.0,
        validation_fraction=0.0,
        seed=config.seed,
        on_bad_image=config.data.on_bad_image,
        cache_dir=config.data.cache_dir,
        on_progress=on_decode,
    )


def _test_images(
    run: str, trained: TrainSettings, at_this_size: TrainSettings, on_decode: OnDecode | None
) -> LabeledImages:
    """The test images of a run; raise if they are not those that it had."""
    from instaaug.runs.training import load_splits

    Run(run).check_split(load_splits(trained, on_decode).hash)
    return load_splits(at_this_size, on_decode).test


def find_class_names(
    config: TtaSettings, source: ModelSource, others: tuple[str, ...]
) -> tuple[str, ...]:
    """Names of the classes in the order of the model's outputs: typed, known, or the others."""
    if config.model.classes is None:
        return source.classes or others
    try:
        text = Path(config.model.classes).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(
            f"`model.classes` must be a text file: {config.model.classes!r} is not UTF-8."
        ) from None
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        found = f"{quote_first(twice)} more than once" if twice else "nothing"
        raise ArgumentError(
            "`model.classes` must be a file with a name per line, each once: "
            f"{config.model.classes!r} has {found}."
        )
    return names


def split_by_hash(images: LabeledImages, config: FrozenSettings) -> DataSplits:
    """Images to learn from and, as the test set, those held out.

    An image's own pixels decide on which side it falls, so that a photo that is there twice is
    not on both. With a limit, evenly spaced images are taken.

    Raises:
        DataError: If there are too few images for that.
    """
    if config.data.limit is not None:
        images = images.subset(evenly_spaced_indices(len(images), config.data.limit))
    keys = np.array([_digest(f"{config.seed} {name}".encode()) for name in image_hashes(images)])
    n_held_out = round(config.data.test_fraction * len(images))
    limit = np.sort(keys)[n_held_out - 1] if n_held_out else ""
    held_out = keys <= limit
    if (~held_out).sum() < FEWEST or (config.data.test_fraction > 0 and not n_held_out):
        raise DataError(
            f"`data` must have different images for both sides of the split: got {len(images)}, "
            f"{int(held_out.sum())} of them held out. Add images, or change `data.test_fraction`."
        )
    return DataSplits(
        train=images.subset(np.flatnonzero(~held_out)),
        validation=None,
        test=images.subset(np.flatnonzero(held_out)),
        name=Path(config.data.source).name,
    )


def image_hashes(images: LabeledImages) -> list[str]:
    """Sixteen hex digits per image that change with any of its pixels."""
    rows = range(len(images)) if images.rows is None else images.rows
    return [_digest(np.ascontiguousarray(images.images[row]).tobytes()) for row in rows]


def drop_hashes(images: LabeledImages, hashes: Iterable[str]) -> LabeledImages:
    """The images but for those with one of these hashes."""
    known = set(hashes)
    return images.subset([i for i, name in enumerate(image_hashes(images)) if name not in known])


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


def renumber_classes(images: LabeledImages, classes: tuple[str, ...]) -> LabeledImages:
    """The same images, their classes numbered as the model numbers them; a regression as it is.

    Raises:
        DataError: If there are classes that the model does not know.
    """
    unknown = sorted(set(images.classes) - set(classes))
    if unknown:
        raise DataError(
            f"`data` must have the classes that the model knows: {', '.join(unknown[:3])} "
            f"{'is' if len(unknown) == 1 else 'are'} new. It knows "
            f"{', '.join(classes[:10])}."
        )
    number = torch.tensor([classes.index(name) for name in images.classes])
    targets = number[images.targets] if images.classes else images.targets
    return replace(images, targets=targets, classes=classes)
