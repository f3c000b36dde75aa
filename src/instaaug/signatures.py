"""Keyword arguments checked against a signature before the call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["check_arguments", "parameter_hints"]


def parameter_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The type hint of every named parameter of a function, or of a class's constructor.

    Example:
        >>> def mixup(*, alpha: float = 1.0, per_input: bool = False): ...
        >>> parameter_hints(mixup)
        {'alpha': <class 'float'>, 'per_input': <class 'bool'>}
    """
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return {p.name: hints.get(p.name, Any) for p in parameters if p.kind not in several}


def check_arguments(
    function: Callable[..., Any], values: Mapping[str, Any], *, owner: str, prefix: str = ""
) -> dict[str, Any]:
    """Keyword arguments for ``function``, each of the type that its signature declares.

    Values are those that YAML and JSON know: an int is accepted where a float is declared, a list
    where a tuple or a sequence is. Nothing is parsed from strings.

    Arguments:
        function: A function or a class.
        values: Arguments by name.
        owner: What the arguments belong to, for error messages.
        prefix: Stands before the name of an argument in error messages.

    Raises:
        UnknownNameError: If there is no such argument.
        ArgumentError: If a value has another type.

    Example:
        >>> def mixup(*, alpha: float = 1.0, per_input: bool = False): ...
        >>> check_arguments(mixup, {"alpha": 1, "per_input": True}, owner="mixup")
        {'alpha': 1.0, 'per_input': True}
        >>> check_arguments(mixup, {"alpha": "x"}, owner="mixup", prefix="method.")
        Traceback (most recent call last):
        instaaug.errors.ArgumentError: `method.alpha` must be float: got 'x'.
        >>> check_arguments(mixup, {"beta": 1}, owner="mixup")
        Traceback (most recent call last):
        instaaug.errors.UnknownNameError: There is no option of mixup called 'beta'. ...
    """
    hints = parameter_hints(function)
    if values and not hints:
        raise ArgumentError(
            f"{owner} must be left without options, as it has none: got {', '.join(values)}."
        )
    checked = {}
    for name, value in values.items():
        if name not in hints:
            raise UnknownNameError(f"option of {owner}", name, hints)
        try:
            checked[name] = _convert(value, hints[name])
        except ValueError:
            raise ArgumentError(
                f"`{prefix}{name}` must be {_describe(hints[name])}: got {value!r}."
            ) from None
    return checked


def _convert(value: Any, hint: Any) -> Any:
    """The value as the hint has it; a ValueError if it has another type."""
    if hint is Any:
        return value
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _convert_to_any(value, get_args(hint))
    if origin is Literal:
        return _require(value, value in get_args(hint))
    if origin in _CONTAINERS:
        return _CONTAINERS[origin](value, get_args(hint))
    if hint is float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(_require(value, is_number))
    if hint is int:
        return _require(value, isinstance(value, int) and not isinstance(value, bool))
    return _require(value, isinstance(value, NoneType if hint is None else origin or hint))


def _require(value: Any, condition: bool) -> Any:
    if not condition:
        raise ValueError(value)
    return value


def _convert_to_any(value: Any, hints: Sequence[Any]) -> Any:
    if type(value) in hints:  # a whole number stays one where both kinds are accepted
        return value
    for hint in hints:
        try:
            return _convert(value, hint)
        except ValueError:
            continue
    raise ValueError(value)


def _convert_to_tuple(value: Any, hints: Sequence[Any]) -> tuple[Any, ...]:
    _require(value, isinstance(value, list | tuple))
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = [hints[0]] * len(value)
    _require(value, len(value) == len(hints))
    return tuple(_convert(item, hint) for item, hint in zip(value, hints, strict=True))


def _convert_to_mapping(value: Any, hints: Sequence[Any]) -> dict[Any, Any]:
    _require(value, isinstance(value, Mapping))
    key_hint, value_hint = hints
    return {_convert(k, key_hint): _convert(v, value_hint) for k, v in value.items()}


_CONTAINERS: Mapping[Any, Callable[[Any, Sequence[Any]], Any]] = {
    tuple: _convert_to_tuple,
    Sequence: lambda value, hints: _convert_to_tuple(value, [hints[0], Ellipsis]),
    list: lambda value, hints: list(_convert_to_tuple(value, [hints[0], Ellipsis])),
    Mapping: _convert_to_mapping,
    dict: _convert_to_mapping,
}


def _describe(hint: Any) -> str:
    """The hint as a sentence has it."""
    origin, hints = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_describe(part) for part in hints)
    if origin is Literal:
        return " or ".join(map(repr, hints))
    if origin in (Mapping, dict):
        return f"a mapping of {_describe(hints[0])} to {_describe(hints[1])}"
    if origin is tuple and Ellipsis not in hints:
        return f"[{', '.join(_describe(part) for part in hints)}]"
    if origin in _CONTAINERS:
        return f"a list of {_describe(hints[0])}"
    return "None" if hint in (None, NoneType) else getattr(hint, "__name__", str(hint))
