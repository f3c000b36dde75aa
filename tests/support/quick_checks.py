"""The checks of types and shapes that run in tests, in a fraction of the time they would take."""

import re
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
import torch
from jaxtyping import AbstractArray
from jaxtyping._storage import get_shape_memo
from torch import Tensor

__all__ = ["check_quickly"]

check_by_jaxtyping = jaxtyping.jaxtyped
SHAPES = check_by_jaxtyping("context")
check_array = type(AbstractArray).__instancecheck__
PLAIN = re.compile(r"\d+|[A-Za-z]\w*")  # a length, or a name without a modifier
passed: set[tuple[type[AbstractArray], torch.dtype]] = set()


def check_types(checked: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Have every call checked once, by beartype; lengths of axes are compared within it.

    jaxtyping binds every argument to its name and checks all twice, for the sake of its messages,
    which takes several times as long. It is left what beartype would check too late or not know.
    """
    if checked is None:
        return partial(check_types, typechecker=typechecker)
    if is_dataclass(checked) and isinstance(checked, type):
        if isinstance(made := vars(checked).get("__init__"), FunctionType):
            checked.__init__ = check_types(made, typechecker=typechecker)  # type: ignore[method-assign]
        return checked
    hints = getattr(checked, "__annotations__", {}).values()
    if (
        not isinstance(checked, FunctionType)
        or isgeneratorfunction(checked)
        or any(map(has_name, hints))
    ):
        return check_by_jaxtyping(checked, typechecker=typechecker)
    return checked_once(checked, typechecker(checked), compare=any(map(has_shape, hints)))


def checked_once(plain: FunctionType, checking: Callable[..., Any], *, compare: bool) -> Any:
    """A function that is checked unless jaxtyping is disabled."""

    @wraps(plain)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        chosen = plain if jaxtyping.config.jaxtyping_disable else checking
        return chosen(*args, **kwargs)

    @wraps(plain)
    def call_comparing(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return plain(*args, **kwargs)
        with SHAPES:
            return checking(*args, **kwargs)

    return call_comparing if compare else call


def has_name(hint: Any) -> bool:
    """Whether an annotation is or contains a string, which names something not yet known."""
    if get_origin(hint) is Literal:
        return False
    return isinstance(hint, str | ForwardRef) or any(map(has_name, get_args(hint)))


def has_shape(hint: Any) -> bool:
    """Whether an annotation is or contains one of jaxtyping's."""
    is_shape = isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)
    return is_shape or any(map(has_shape, get_args(hint)))


def is_array(annotation: type[AbstractArray], value: Any) -> bool:
    """What jaxtyping would say; quickly where a tensor passes, or else by jaxtyping itself."""
    axes = plain_axes(annotation)
    is_plain = axes is not None and type(value) is Tensor and (annotation, value.dtype) in passed
    if is_plain and fits(axes or (), value.shape):
        return True
    found = check_array(annotation, value)
    if found and isinstance(value, Tensor):
        passed.add((annotation, value.dtype))
    return found


def fits(axes: tuple[str | int, ...], shape: torch.Size) -> bool:
    """Whether a shape has all axes, each as long as before in this call; new ones are noted."""
    if len(axes) != len(shape):
        return False
    known: dict[str, int] = get_shape_memo()[0]  # type: ignore[no-untyped-call]
    new: dict[str, int] = {}
    for axis, length in zip(axes, shape, strict=True):
        if isinstance(axis, int):
            if axis != length:
                return False
        elif known.get(axis, new.setdefault(axis, length)) != length:
            return False
    known.update(new)
    return True


@cache
def plain_axes(annotation: type[AbstractArray]) -> tuple[str | int, ...] | None:
    """Names and lengths of axes, or None if there is anything else in an annotation."""
    axes = annotation.dim_str.split()
    if annotation.array_type is not Tensor or not all(map(PLAIN.fullmatch, axes)):
        return None
    return tuple(int(axis) if axis.isdigit() else axis for axis in axes)


def check_quickly() -> None:
    """Take the place of jaxtyping's own functions, before anything is checked by them."""
    jaxtyping.jaxtyped = check_types  # type: ignore[assignment]
    type(AbstractArray).__instancecheck__ = is_array  # type: ignore[assignment, method-assign]
