"""Names that every executed example may use, and what makes the suite quick."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial, wraps
from importlib.util import find_spec
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any, ForwardRef, Literal, get_args, get_origin

import jaxtyping
import pytest
import torch

check_by_jaxtyping = jaxtyping.jaxtyped
SHAPES = check_by_jaxtyping("context")
collect_ignore = [] if find_spec("transformers") else ["src/instaaug/adapters/transformers.py"]


def check_types(checked: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Have every call checked once, by beartype; lengths of axes are compared within it.

    jaxtyping binds every argument to its name and checks all twice, for the sake of its messages,
    which takes several times as long. It is left what beartype would check too late or not know.
    """
    if checked is None:
        return partial(check_types, typechecker=typechecker)
    if is_dataclass(checked) and isinstance(checked, type):
        if isinstance(made := vars(checked).get("__init__"), FunctionType):
            checked.__init__ = check_types(made, typechecker=typechecker)
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


def pytest_configure() -> None:
    """Search for no garbage among modules and tests, which stay: it took a fifth of collection."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From now on, search among what tests make, and not after every few hundred objects."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _torch_in_examples(doctest_namespace: dict[str, Any]) -> Iterator[None]:
    doctest_namespace["torch"] = torch
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


jaxtyping.jaxtyped = check_types  # type: ignore[assignment]  # before anything is imported
