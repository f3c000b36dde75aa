"""One door for all data: a name, a folder, a table, arrays, or another library's data set."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from instaaug.data.adapters import from_dataset
from instaaug.data.arrays import read_arrays
from instaaug.data.cache import OnBadImage, OnProgress
from instaaug.data.folder import read_folder
from instaaug.data.labeled import LabeledImages
from instaaug.data.labels import TaskKind
from instaaug.data.lights import relit_set
from instaaug.data.named import DATASETS, looks_like
from instaaug.data.splits import DataSplits, SplitBy, carve_validation
from instaaug.data.splits import split as split_up
from instaaug.data.table import read_table
from instaaug.data.unlabeled import is_unlabeled, read_unlabeled
from instaaug.errors import ArgumentError, DataError, UnknownNameError

__all__ = ["load_data", "parse_lights"]


def load_data(
    source: Any,
    *,
    root: str | Path | None = None,
    task: TaskKind = "classification",
    size: int | None = None,
    channels: int | None = None,
    path_column: str | None = None,
    target_column: str | None = None,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.1,
    split: SplitBy = "random",
    lights: Sequence[str] | None = None,
    seed: int = 0,
    needs_labels: bool = True,
    on_bad_image: OnBadImage = "error",
    cache_dir: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> DataSplits:
    """Images with targets, split into training, validation and test.

    Arguments:
        source: A name from ``DATASETS``; a folder, CSV, ``.npz`` or ``.npy`` file; or a data set
            of Hugging Face or torchvision.
        root: Where the original files of a named set are.
        task: ``"classification"`` or ``"regression"``.
        size: Side in pixels that images are resized to; chosen from the images if absent.
        channels: 1 or 3; chosen from the images if absent.
        path_column: Column of a table with the paths.
        target_column: Column of a table with the labels or numbers.
        test_fraction: Share held out, where the data have no test set of their own.
        validation_fraction: Share of the training images to watch over training.
        split: ``"random"``, or ``"block"`` to hold out neighbors together.
        lights: Simulated lights for training and for test, such as ``("1-4", "5-12,40")``.
        seed: Decides the split.
        needs_labels: Whether a folder must have one folder per class; without, images may lie
            directly in it.
        on_bad_image: ``"error"``, or ``"skip"`` to leave unreadable images out and list them.
        cache_dir: Where decoded images are kept.
        on_progress: Called with the number of files decoded and of all files.

    Example:
        >>> splits = load_data("sprites")
        >>> len(splits.train), len(splits.validation), len(splits.test)
        (1800, 200, 1000)
    """
    files: dict[str, Any] = {
        "cache_dir": cache_dir,
        "on_bad_image": on_bad_image,
        "on_progress": on_progress,
    }
    columns = {"path_column": path_column, "target_column": target_column}
    if not isinstance(source, str | Path):
        data = from_dataset(
            source, size=size, channels=channels, task=task, target_column=target_column,
            on_bad_image=on_bad_image, on_progress=on_progress,
        )  # fmt: skip
        parts, name = {"all": data}, type(source).__name__
    elif (named := _named(source)) is not None:
        where = source if root is None and Path(source).is_dir() else root
        parts, name = DATASETS[named].load(where, size=size, seed=seed, **files), named
    else:
        shaped = {**files, "size": size, "channels": channels}
        path, name = Path(source), Path(source).name
        if not needs_labels and path.is_dir() and is_unlabeled(path):
            parts, task = read_unlabeled(path, **shaped), "regression"
        else:
            parts = _from_path(path, shaped, columns, task=task)
    _check_task(parts, task, name)
    _check_shape(parts, name, size=size, channels=channels)
    choices: dict[str, Any] = {"seed": seed, "by": split}
    if "all" in parts:
        splits = split_up(parts["all"], test_fraction=test_fraction, name=name, **choices)
    else:
        splits = DataSplits(parts["train"], parts.get("validation"), parts["test"], name)
    if validation_fraction and splits.validation is None:
        splits = carve_validation(splits, fraction=validation_fraction, **choices)
    return splits if lights is None else _relit(splits, lights, seed)


def _named(source: str | Path) -> str | None:
    """The named set that is meant: by its name, or by the layout of a folder."""
    path = Path(source)
    if str(source) in DATASETS and not path.exists():
        return str(source)
    if path.is_dir() and (found := looks_like(path)) in DATASETS:
        return found
    return None


def _from_path(
    path: Path, options: dict[str, Any], columns: dict[str, Any], *, task: TaskKind
) -> dict[str, LabeledImages]:
    ending = path.suffix.lower()
    if path.is_dir():
        if task != "classification":
            raise ArgumentError(
                f"`task` must be classification for a folder of classes: got {task!r}. Numbers to "
                "predict come from a CSV or an .npz file."
            )
        return read_folder(path, **options)
    if not path.exists():
        if path.name == str(path) and not ending:
            raise UnknownNameError("data set, folder or file", str(path), DATASETS)
        raise FileNotFoundError(f"There is no folder or file {str(path)!r}.")
    if ending in (".csv", ".tsv"):
        return read_table(path, task=task, **columns, **options)
    if ending in (".npz", ".npy"):
        return read_arrays(path, task=task, on_bad_image=options["on_bad_image"])
    raise ArgumentError(
        f"`source` must be a folder, .csv, .npz or .npy: got {str(path)!r}. A single image is for "
        "`instaaug predict`."
    )


def _check_task(parts: dict[str, LabeledImages], task: TaskKind, name: str) -> None:
    has_classes = bool(next(iter(parts.values())).classes)
    if has_classes != (task == "classification"):
        kind = "classes" if has_classes else "numbers"
        wanted = "classification" if has_classes else "regression"
        raise ArgumentError(
            f'`task` must fit the data: {name!r} has {kind} as targets. Choose task="{wanted}".'
        )


def _check_shape(
    parts: dict[str, LabeledImages], name: str, *, size: int | None, channels: int | None
) -> None:
    """Raise if images come as they are, and not as they were asked for."""
    got_channels, height, _ = next(iter(parts.values())).image_shape
    if size not in (None, height) or channels not in (None, got_channels):
        raise ArgumentError(
            f"`size` and `channels` must be those of {name!r}, which cannot be changed: its "
            f"images have {height} pixels and {got_channels} channels, got "
            f"{height if size is None else size} and "
            f"{got_channels if channels is None else channels}. Leave them out, or convert the "
            "images."
        )


def _relit(splits: DataSplits, lights: Sequence[str], seed: int) -> DataSplits:
    if len(lights) != 2:
        raise ArgumentError(f"`lights` must be two lists, for training and test: got {lights}.")
    train, test = (parse_lights(numbers) for numbers in lights)
    return replace(
        splits,
        train=relit_set(splits.train, train, per_image="one", seed=seed),
        validation=splits.validation
        and relit_set(splits.validation, train, per_image="one", seed=seed),
        test=relit_set(splits.test, test, per_image="one", seed=seed),
    )


def parse_lights(text: str) -> list[int]:
    """Numbers of lights from text.

    Example:
        >>> parse_lights("1-3,7")
        [1, 2, 3, 7]
    """
    numbers: list[int] = []
    try:
        for piece in text.split(","):
            first, _, last = piece.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError:
        raise DataError(f"`lights` must be numbers such as 1-4,7: got {text!r}.") from None
    return numbers
