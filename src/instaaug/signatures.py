"""Values checked against declared types: of settings, and of a function's arguments."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = ["check_arguments", "convert", "describe_form", "parameter_hints"]


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

    Values are those that YAML and JSON know: see :func:`convert`.

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
        instaaug.errors.ArgumentError: `method.alpha` must be a number, such as 0.5: got 'x'.
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
            checked[name] = convert(hints[name], value)
        except (TypeError, ValueError, OverflowError):
            form = describe_form(hints[name])
            raise ArgumentError(f"`{prefix}{name}` must be {form}: got {value!r}.") from None
    return checked


def convert(kind: Any, value: Any) -> Any:
    """The value as a declared type has it; a YAML list becomes a tuple, a whole number a float.

    Raises:
        TypeError: If it is something else.
        ValueError: If text or a number does not say what is needed.

    Example:
        >>> convert(tuple[float, ...], [1, "1e-3"])
        (1.0, 0.001)
        >>> convert(Literal["sgd", "adam"] | None, "adam")
        'adam'
    """
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _convert_union(parts, value)
    if origin is Literal and value in parts:
        return value
    if origin in (tuple, list, Sequence):
        return _convert_tuple(parts if origin is tuple else (parts[0], ...), value)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return {str(name): convert(parts[1], part) for name, part in value.items()}
    if origin in (Literal, dict, Mapping):
        raise TypeError(value)
    return _convert_scalar(kind, value)


def describe_form(kind: Any) -> str:
    """What a value of a declared type must be, in words.

    Example:
        >>> describe_form(int | None), describe_form(tuple[float, float])
        ('a whole number, such as 3', 'like [0.5, 0.5]')
    """
    parts = [part for part in get_args(kind) if part is not NoneType]
    single = parts[0] if get_origin(kind) in (Union, UnionType) and len(parts) == 1 else kind
    if get_origin(single) is Literal:
        return f"one of {_expected_form(single)}"
    words = {
        str: "text",
        int: "a whole number, such as 3",
        float: "a number, such as 0.5",
        bool: "true or false",
    }
    return words.get(single, f"like {_expected_form(kind)}")


def _expected_form(kind: Any) -> str:
    """What a value of a declared type looks like in YAML, for error messages.

    Example:
        >>> _expected_form(tuple[float, float] | None)
        '[0.5, 0.5]'
    """
    if get_origin(kind) in (Union, UnionType):
        forms = [_expected_form(part) for part in get_args(kind) if part is not NoneType]
        return " or ".join(dict.fromkeys(forms))
    if get_origin(kind) is Literal:
        return ", ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        return f"[{', '.join('...' if p is ... else _expected_form(p) for p in parts)}]"
    if get_origin(kind) in (list, Sequence):
        return f"[{_expected_form(get_args(kind)[0])}, ...]"
    if get_origin(kind) in (dict, Mapping):
        return f"{{name: {_expected_form(get_args(kind)[1])}}}"
    names = {str: "text", int: "3", float: "0.5", bool: "true"}
    return names.get(kind, "a value")


def _convert_union(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None and NoneType in kinds:
        return None
    if type(value) in kinds:  # a whole number stays one where both kinds are accepted
        return value
    for kind in kinds:
        try:
            return convert(kind, value)
        except (TypeError, ValueError, OverflowError):
            continue
    raise TypeError(value)


def _convert_tuple(parts: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if parts[-1] is ...:
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(convert(parts[0], item) for item in items)
    if not isinstance(value, list | tuple) or len(value) != len(parts):
        raise ValueError(value)
    return tuple(convert(part, item) for part, item in zip(parts, value, strict=True))


def _convert_scalar(kind: Any, value: Any) -> Any:
    if kind is NoneType:
        raise TypeError(value)
    if kind is str:
        if not isinstance(value, str | Path):
            raise TypeError(value)
        return str(value)
    if kind not in (bool, int, float):  # an object of Python, which YAML does not know
        if not isinstance(value, get_origin(kind) or kind):
            raise TypeError(value)
        return value
    if isinstance(value, bool) != (kind is bool) or isinstance(value, list | tuple | dict):
        raise TypeError(value)
    if kind is int and not isinstance(value, int | str) and int(value) != float(value):
        raise TypeError(value)
    return kind(value)
