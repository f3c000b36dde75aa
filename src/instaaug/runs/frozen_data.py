"""Images for a frozen model: how large, which of them, and on which side of the split."""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from statistics import median

import numpy as np

from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.decode import read_header
from instaaug.data.files import fitting_size, image_files
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.data.labels import quote_first
from instaaug.errors import ArgumentError, DataError
from instaaug.runs.frozen_model import ModelSource
from instaaug.runs.settings import TrainSettings, TtaSettings

__all__ = [
    "chosen_sizes",
    "class_order",
    "image_hashes",
    "load_images",
    "split_by_hash",
    "without_hashes",
]

OnDecode = Callable[[int, int], None]
N_HEADERS = 100
FEWEST = 2  # images to learn from: one half judges what the other has taught
TABLES = (".csv", ".tsv")


def chosen_sizes(config: TtaSettings, source: ModelSource) -> tuple[int | None, int | None]:
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
    config: TtaSettings,
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
    splits = load_data(
        config.data.source,
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
    return splits.test if len(splits.test) else splits.train


def _test_images(
    run: str, trained: TrainSettings, at_this_size: TrainSettings, on_decode: OnDecode | None
) -> LabeledImages:
    """The test images of a run; raise if they are not those that it had."""
    from instaaug.runs.run_directory import RunDirectory
    from instaaug.runs.training import load_splits

    RunDirectory(run).check_split(load_splits(trained, on_decode).hash)
    return load_splits(at_this_size, on_decode).test


def class_order(
    config: TtaSettings, source: ModelSource, images: LabeledImages
) -> tuple[str, ...]:
    """Names of the classes in the order of the model's outputs: typed, known, or those of DATA."""
    if config.model.classes is None:
        return source.classes or images.classes
    try:
        text = Path(config.model.classes).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(
            f"`classes` must be a text file: {config.model.classes!r} is not UTF-8."
        ) from None
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        found = f"{quote_first(twice)} more than once" if twice else "nothing"
        raise ArgumentError(
            f"`classes` must be a file with a name per line, each once: "
            f"{config.model.classes!r} has {found}."
        )
    return names


def split_by_hash(images: LabeledImages, config: TtaSettings) -> DataSplits:
    """Images to learn from and, as the test set, those held out.

    An image's own pixels decide on which side it falls, so that a photo that is there twice is
    not on both. With a limit, images from all over the set are taken.

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
            f"{int(held_out.sum())} of them held out. Add images, or change `test_fraction`."
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


def without_hashes(images: LabeledImages, hashes: Iterable[str]) -> LabeledImages:
    """The images but for those with one of these hashes."""
    known = set(hashes)
    return images.subset([i for i, name in enumerate(image_hashes(images)) if name not in known])


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()
