"""Names that every executed example may use, and what makes the suite quick."""

import gc
from collections.abc import Callable, Iterator
from functools import partial, wraps
from importlib.util import find_spec
from types import FunctionType
from typing import Any, ForwardRef, get_args

import jaxtyping
import pytest
import torch

check_shapes = jaxtyping.jaxtyped
collect_ignore = [] if find_spec("transformers") else ["src/instaaug/adapters/transformers.py"]


def check_types(function: Any = None, *, typechecker: Callable[..., Any]) -> Any:
    """Have types checked by beartype alone where no shape is annotated, in a third of the time."""
    if function is None:
        return partial(check_types, typechecker=typechecker)
    if not isinstance(function, FunctionType) or any(
        map(has_shape, function.__annotations__.values())
    ):
        return check_shapes(function, typechecker=typechecker)
    checked = typechecker(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = function if jaxtyping.config.jaxtyping_disable else checked
        return chosen(*args, **kwargs)

    return call


def has_shape(annotation: Any) -> bool:
    """Whether an annotation is or contains one of jaxtyping's, or a string that may be one."""
    if isinstance(annotation, str | ForwardRef):
        return True
    is_shape = isinstance(annotation, type) and issubclass(annotation, jaxtyping.AbstractArray)
    return is_shape or any(map(has_shape, get_args(annotation)))


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
