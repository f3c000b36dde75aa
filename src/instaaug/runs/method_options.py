"""Settings of a method's own, typed as ``alpha=0.2, probability=0.5``."""

import inspect
from collections.abc import Callable, Collection
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["method_options"]

SIMPLE = (bool, int, float, str)


def method_options(
    text: str, made: Callable[..., Any], *, but: Collection[str] = ()
) -> dict[str, Any]:
    """Keyword arguments for ``made`` from text, each in the type that its signature declares.

    Arguments:
        text: Names and values, with commas between.
        made: A class or function.
        but: Arguments that other settings give.

    Example:
        >>> def mixup(*, alpha: float = 1.0, per_input: bool = False): ...
        >>> method_options("alpha=0.2, per_input=true", mixup)
        {'alpha': 0.2, 'per_input': True}
        >>> method_options("beta=1", mixup)
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no option of mixup called 'beta'. ...
    """
    kinds = {name: kind for name, kind in _declared(made).items() if name not in but}
    if text.strip() and not kinds:
        raise ArgumentError(f"`options` must be empty for {made.__name__}: got {text!r}.")
    options: dict[str, Any] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not equals or not value:
            raise ArgumentError(f"`options` must be like alpha=0.2, k=2: got {piece!r}.")
        if name not in kinds:
            raise UnknownNameError(f"option of {made.__name__}", name, kinds)
        if name in options:
            raise ArgumentError(f"`options` must give every name once: got {name} twice.")
        options[name] = _read(name, value, kinds[name])
    return options


def _declared(made: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """By name, the simple types that an argument may have."""
    hints = get_type_hints(made.__init__ if inspect.isclass(made) else made)
    found: dict[str, tuple[Any, ...]] = {}
    for name in inspect.signature(made).parameters:
        hint = hints.get(name)
        several = get_origin(hint) in (Union, UnionType)
        kinds = tuple(k for k in (get_args(hint) if several else (hint,)) if k is not NoneType)
        if all(kind in SIMPLE or get_origin(kind) is Literal for kind in kinds):
            found[name] = kinds
    return found


def _read(name: str, value: str, kinds: tuple[Any, ...]) -> Any:
    for kind in kinds:
        try:
            return _converted(value, kind)
        except ValueError:
            continue
    wanted = " or ".join(
        ", ".join(map(repr, get_args(kind))) if get_origin(kind) is Literal else kind.__name__
        for kind in kinds
    )
    raise ArgumentError(f"`options` must give {name} as {wanted}: got {value!r}.")


def _converted(value: str, kind: Any) -> Any:
    if kind not in (int, float, str):
        words = {"true": True, "false": False} if kind is bool else {w: w for w in get_args(kind)}
        if value not in words:
            raise ValueError(value)
        return words[value]
    return kind(value)
