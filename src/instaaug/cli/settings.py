"""Every setting of a run as an option of a command, made from the one list of settings."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Optional, Union, get_args, get_origin

import typer

from instaaug.runs.settings import setting_help, setting_panel

__all__ = ["with_settings"]

Command = Callable[..., None]


def with_settings(kind: type[Any], arguments: Sequence[str] = ("data",)) -> Callable[..., Command]:
    """Give a command an option for every setting.

    The command receives what the user typed, and nothing else, as the mapping ``given``, so that
    a configuration file can say the rest.

    Arguments:
        kind: The dataclass of settings.
        arguments: Those that come first and without a flag; without a default they must be given.
    """
    settings = {item.name: item for item in fields(kind)}
    first = [_parameter(settings[name], is_argument=True) for name in arguments]
    rest = [_parameter(item) for name, item in settings.items() if name not in arguments]

    def decorated(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "given"]

        @wraps(command)
        def called(**typed: Any) -> None:
            values = {name: typed.pop(name) for name in settings}
            given = {name: value for name, value in values.items() if value is not None}
            command(given=given, **typed)

        parameters = [*first, *own, *rest]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        return called

    return decorated


def _parameter(item: Field[Any], *, is_argument: bool = False) -> inspect.Parameter:
    shown = _words(item.default)
    if is_argument:
        info: Any = typer.Argument(help=setting_help(item), show_default=shown)
    else:
        flag = f"--{item.name.replace('_', '-')}"
        name = f"{flag}/--no-{flag[2:]}" if item.type is bool else flag
        info = typer.Option(
            name, help=setting_help(item), show_default=shown, rich_help_panel=setting_panel(item)
        )
    several = get_origin(item.type) in (Union, UnionType)
    first = get_args(item.type)[0] if several else item.type  # others are for YAML alone
    must_be_given = is_argument and not item.default
    kind: Any = first if must_be_given else Optional[first]  # noqa: UP045  # known at run time
    return inspect.Parameter(
        item.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if must_be_given else None,
        annotation=Annotated[kind, info],
    )


def _words(default: Any) -> str | bool:
    if default is None or default == "":
        return False
    if isinstance(default, tuple):
        return " ".join(str(part) for part in default)
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(Path(default)) if isinstance(default, Path) else str(default)
