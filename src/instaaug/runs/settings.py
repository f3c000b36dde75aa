"""Settings as a dataclass: names, defaults and a sentence on each; checked, typed or from YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, field, fields
from pathlib import Path
from reprlib import repr  # noqa: A004  # a hostile file may hold a value of any length
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from instaaug.errors import ArgumentError, UnknownNameError

__all__ = [
    "check_types",
    "located",
    "plain_settings",
    "read_settings",
    "setting",
    "setting_help",
    "setting_panel",
]

S = TypeVar("S")


def setting(panel: str, default: Any, sentence: str) -> Any:
    """A field of a dataclass of settings: its group, its default, and a sentence on it."""
    return field(default=default, metadata={"panel": panel, "help": sentence})


def setting_help(item: Field[Any]) -> str:
    """The sentence on a setting."""
    return str(item.metadata["help"])


def setting_panel(item: Field[Any]) -> str:
    """The group of settings that it belongs to."""
    return str(item.metadata["panel"])


def check_types(settings: Any) -> None:
    """Give every setting its declared type, or raise; for ``__post_init__``."""
    for item in fields(settings):
        object.__setattr__(settings, item.name, _checked(item, getattr(settings, item.name)))


def read_settings(kind: type[S], values: Mapping[Any, Any], *, source: str) -> S:
    """Settings by name, as a YAML file gives them; the rest are defaults.

    Arguments:
        kind: The dataclass.
        values: What is not a default.
        source: Where they come from, for the words of an error.
    """
    known: dict[str, Field[Any]] = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise UnknownNameError(f"setting in {source}", str(name), known)
    try:
        return kind(**{k: _checked(known[k], value) for k, value in values.items()})
    except ArgumentError as error:
        raise ArgumentError(f"{error} (in {source})") from None


def plain_settings(settings: Any) -> dict[str, Any]:
    """Every setting, as YAML and JSON know it."""
    return {name: _plain(value) for name, value in asdict(settings).items()}


def located(settings: Any, names: Sequence[str]) -> dict[str, Any]:
    """Those of the named settings that are paths of something, made absolute."""
    return {
        name: str(Path(value).resolve())
        for name in names
        if (value := getattr(settings, name)) and Path(value).exists()
    }


def _checked(item: Field[Any], value: Any) -> Any:
    """The value in its declared type; a YAML list becomes a tuple, a whole number a float."""
    kinds: tuple[Any, ...] = (item.type,)
    if get_origin(item.type) in (Union, UnionType):
        kinds = get_args(item.type)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UnknownNameError(item.name, str(value), get_args(kind))
        return value
    try:
        if isinstance(value, dict) and any(get_origin(k) is dict for k in kinds):
            return {str(name): _converted(kind, v) for name, v in value.items()}
        return _converted(kind, value)
    except (TypeError, ValueError, OverflowError):
        assert item.default is not MISSING  # noqa: S101  # every setting has a default
        raise ArgumentError(
            f"`{item.name}` must be like {_example(kind)}: got {repr(value)}."
        ) from None


def _converted(kind: Any, value: Any) -> Any:
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if isinstance(value, str) or len(value) != len(parts):
            raise ValueError(value)
        return tuple(_converted(part, v) for part, v in zip(parts, value, strict=True))
    if kind is str:
        if not isinstance(value, str | Path):
            raise TypeError(value)
        return str(value)
    if isinstance(value, bool) != (kind is bool) or (kind is int and int(value) != float(value)):
        raise TypeError(value)
    return kind(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _example(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"[{', '.join(_example(part) for part in get_args(kind))}]"
    return {"str": "text", "int": "3", "float": "0.5", "bool": "true"}[kind.__name__]
