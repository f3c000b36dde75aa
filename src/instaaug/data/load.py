"""Load data of any kind: a name, a folder, a table, arrays, a data set, or a function of yours."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any

from instaaug.data import cifar10, mnist, rawfoot, sprites, tiny_imagenet  # noqa: F401  # register
from instaaug.data.adapters import from_dataset
from instaaug.data.arrays import read_arrays
from instaaug.data.cache import OnBadImage, OnProgress
from instaaug.data.files import is_unlabeled, read_folder, read_table, read_unlabeled
from instaaug.data.labeled import LabeledImages
from instaaug.data.labels import TaskKind
from instaaug.data.named import DATASETS, recognize
from instaaug.data.splits import DataSplits, SplitBy, split_off_validation
from instaaug.data.splits import split as split_up
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.registry import import_object

__all__ = ["is_resizable", "load_data"]

FUNCTION = re.compile(r"[\w.]+:\w+")


def load_data(
    source: Any,
    *,
    options: Mapping[str, Any] | None = None,
    root: str | Path | None = None,
    task: TaskKind = "classification",
    size: int | None = None,
    channels: int | None = None,
    path_column: str | None = None,
    target_column: str | None = None,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.1,
    split: SplitBy = "random",
    seed: int = 0,
    needs_labels: bool = True,
    on_bad_image: OnBadImage = "error",
    cache_dir: str | Path | None = None,
    on_progress: OnProgress | None = None,
) -> DataSplits:
    """Images with targets, split into training, validation and test.

    Arguments:
        source: A name from ``DATASETS``; a folder, CSV, ``.npz`` or ``.npy`` file; a data set of
            Hugging Face or torchvision; a :class:`DataSplits` or :class:`LabeledImages`; or
            ``"module:function"``, a function of yours that returns one of these.
        options: Keyword arguments of such a function, which gets ``seed`` too if it has that one;
            or those of a named set, such as ``train_lights`` of ``"rawfoot"``.
        root: Where the original files of a named set are.
        task: ``"classification"`` or ``"regression"``.
        size: Side in pixels that images are resized to; chosen from the images if absent.
        channels: 1 or 3; chosen from the images if absent.
        path_column: Column of a table with the paths.
        target_column: Column of a table with the labels or numbers.
        test_fraction: Share held out, where the data have no test set of their own.
        validation_fraction: Share of the training images to watch over training.
        split: ``"random"``, ``"block"`` to hold out neighbors together, ``"similar"`` what looks
            alike.
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
    given = source
    if _is_function(source):
        source, options = _call(source, options or {}, seed), None
    named = _named(source) if isinstance(source, str | Path) else None
    if options and named is None:
        raise ArgumentError(
            "`options` must be left out unless `source` is a module:function or a named set: got "
            f"{', '.join(options)} for {str(source)!r}."
        )
    files: dict[str, Any] = {
        "cache_dir": cache_dir,
        "on_bad_image": on_bad_image,
        "on_progress": on_progress,
    }
    if isinstance(source, DataSplits | LabeledImages):
        name = source.name if isinstance(source, DataSplits) else ""
        parts, name = _parts_of(source), name or (given if isinstance(given, str) else "")
    elif not isinstance(source, str | Path):
        data = from_dataset(
            source, size=size, channels=channels, task=task, target_column=target_column,
            on_bad_image=on_bad_image, on_progress=on_progress,
        )  # fmt: skip
        parts, name = {"all": data}, type(source).__name__
    elif named is not None:
        where = source if root is None and Path(source).is_dir() else root
        files |= {"size": size, "seed": seed, "options": options}
        parts, name = DATASETS[named].load(where, **files), named
    else:
        path, name = Path(source), Path(source).name
        shaped = {**files, "size": size, "channels": channels}
        if not needs_labels and path.is_dir() and is_unlabeled(path):
            parts, task = read_unlabeled(path, **shaped), "regression"
        else:
            columns = {"path_column": path_column, "target_column": target_column}
            parts = _from_path(path, shaped, columns, task=task)
    _check_task(parts, task, name)
    _check_shape(parts, name, size=size, channels=channels)
    return _split(parts, name, test_fraction, validation_fraction, {"seed": seed, "by": split})


def is_resizable(path: Path) -> bool:
    """Whether images are decoded from files of any size; others come in the size they have.

    Arguments:
        path: Of a folder or of a table of files.

    Example:
        >>> is_resizable(Path("arrays.npz"))
        False
    """
    if path.is_dir():
        return recognize(path) is None
    return path.suffix.lower() in (".csv", ".tsv") and path.is_file()


def _is_function(source: Any) -> bool:
    """Whether a source is of the form module:function, and no file or folder."""
    if not isinstance(source, str) or FUNCTION.fullmatch(source) is None:
        return False
    return not Path(source).exists()


def _call(source: str, options: Mapping[str, Any], seed: int) -> Any:
    module, _, attribute = source.rpartition(":")
    function = import_object(module, attribute, argument="source")
    if not callable(function):
        raise ArgumentError(
            f"`source` {source!r} must name a function: got {type(function).__name__}."
        )
    if "seed" in signature(function).parameters:
        options = {"seed": seed, **options}
    try:
        signature(function).bind(**options)
    except TypeError as error:
        raise ArgumentError(
            f"`options` must fit the function {source!r}, {attribute}{signature(function)}: "
            f"{error}. Got {', '.join(options) or 'none'}."
        ) from None
    result = function(**options)
    if result is None or _is_function(result):
        raise ArgumentError(
            f"`source` {source!r} must return a DataSplits, a data set, or the path or name of "
            f"one: got {result!r}."
        )
    return result


def _parts_of(source: DataSplits | LabeledImages) -> dict[str, LabeledImages]:
    if isinstance(source, LabeledImages):
        return {"all": source}
    parts = {"train": source.train, "validation": source.validation, "test": source.test}
    return {name: part for name, part in parts.items() if part is not None}


def _split(
    parts: dict[str, LabeledImages],
    name: str,
    test_fraction: float,
    validation_fraction: float,
    choices: dict[str, Any],
) -> DataSplits:
    """Split what comes in one part, and take validation images where there are none."""
    if "all" in parts:
        splits = split_up(parts["all"], test_fraction=test_fraction, name=name, **choices)
    else:
        splits = DataSplits(parts["train"], parts.get("validation"), parts["test"], name)
    if validation_fraction and splits.validation is None:
        splits = split_off_validation(splits, fraction=validation_fraction, **choices)
    return splits


def _named(source: str | Path) -> str | None:
    """The named set that is meant: by its name, or by the layout of a folder."""
    path = Path(source)
    if str(source) in DATASETS and not path.exists():
        return str(source)
    return recognize(path)


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
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        if path.name == str(path) and not ending:
            near = get_close_matches(path.name, [*DATASETS, *beside], n=1)
            raise UnknownNameError("data set, folder or file", str(path), DATASETS, similar=near)
        near = get_close_matches(path.name, beside, n=1)
        hint = f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise FileNotFoundError(f"There is no folder or file {str(path)!r}.{hint}")
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
