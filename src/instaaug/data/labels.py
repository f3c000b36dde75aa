"""Class numbers and regression targets from labels of any kind."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from instaaug.errors import DataError, UnknownNameError

__all__ = [
    "TaskKind",
    "check_task",
    "class_labels",
    "natural_order",
    "number_classes",
    "quote_first",
    "regression_targets",
]

TaskKind = Literal["classification", "regression"]
MOST_DIGITS = 300  # of a number within a name; Python refuses to read some thousands


def check_task(task: str) -> None:
    """Raise unless the kind of task is known."""
    if task not in get_args(TaskKind):
        raise UnknownNameError("task", task, get_args(TaskKind))


def natural_order(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """A sorting key that puts 2 before 10.

    Example:
        >>> sorted(["b10", "b9", "a"], key=natural_order)
        ['a', 'b9', 'b10']
    """
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    numbers = {part for part in parts if part.isdecimal() and len(part) <= MOST_DIGITS}
    return [(0, int(p), "") if p in numbers else (1, 0, p) for p in parts], name


def number_classes(
    labels: Sequence[str], *, is_train: Sequence[bool] | np.ndarray
) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers (int64) and the classes' names in natural order.

    Raises:
        DataError: If a class has no training image, or there are fewer than two classes.

    Example:
        >>> number_classes(["7", "3", "7"], is_train=[True, True, False])
        (tensor([1, 0, 1]), ('3', '7'))
    """
    known = {label for label, train in zip(labels, is_train, strict=True) if train}
    strangers = sorted(set(labels) - known, key=natural_order)
    if strangers:
        raise DataError(
            "Every class must have training images: "
            f"{quote_first(strangers)} {'has' if len(strangers) == 1 else 'have'} none. "
            "Add some, or remove the class from the other parts."
        )
    classes = tuple(sorted(known, key=natural_order))
    if len(classes) < 2:
        raise DataError(
            f"A classifier needs at least two classes: got {len(classes)}"
            f"{f' ({classes[0]!r})' if classes else ''}. Check how the classes are marked."
        )
    number = {name: i for i, name in enumerate(classes)}
    return torch.tensor([number[label] for label in labels], dtype=torch.int64), classes


def class_labels(values: np.ndarray, *, where: Callable[[int], str]) -> list[str]:
    """Labels of any kind, one per image, as names: 3 and 3.0 are '3'.

    Raises:
        DataError: If a number is negative or not whole.
    """
    if values.dtype.kind in "US":
        return [str(value) for value in _text(values)]
    if values.dtype.kind not in "iufb":
        raise DataError(
            f"Class labels must be numbers or strings: got {values.dtype}. Convert them first."
        )
    wrong = ~(np.isfinite(values) & (values >= 0) & (values == np.floor(values)))
    if wrong.any():
        first = int(wrong.argmax())
        raise DataError(
            f"Class labels must be whole numbers from 0: {where(first)} has {values[first]}. "
            'For targets that are measured, choose task="regression".'
        )
    return [str(value) for value in values.astype(np.int64).tolist()]


def _text(values: np.ndarray) -> np.ndarray:
    try:
        return values.astype(str)
    except UnicodeDecodeError as error:
        raise DataError(
            f"Class labels must be text in ASCII where they are bytes: {error.object!r} is not. "
            "Save them as strings."
        ) from None


def regression_targets(values: np.ndarray, *, where: Callable[[int], str]) -> Tensor:
    """Targets as float32, ``(N,)`` for one number per image and ``(N, D)`` for several.

    Raises:
        DataError: If they are no numbers, not finite, or not one row per image.
    """
    if values.dtype.kind not in "iufb" or values.ndim not in (1, 2):
        raise DataError(
            "Regression targets must be numbers (N,) or (N, D): got "
            f"{values.dtype} of shape {values.shape}. "
            'For class names, choose task="classification".'
        )
    numbers = values.astype(np.float32).reshape(len(values), -1)
    wrong = ~np.isfinite(numbers).all(axis=1)
    if wrong.any():
        first = int(wrong.argmax())
        raise DataError(
            f"Regression targets must be finite: {where(first)} has {values[first]}. "
            "Remove the row, or fill in its value."
        )
    return torch.from_numpy(numbers[:, 0].copy() if numbers.shape[1] == 1 else numbers)


def quote_first(things: Iterable[str], *, limit: int = 3) -> str:
    """The first few names, quoted, for a message.

    Example:
        >>> quote_first(["a", "b", "c", "d"], limit=2)
        "'a', 'b' and 2 more"
    """
    names = [repr(thing) for thing in things]
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest
