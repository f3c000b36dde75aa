"""Every setting of a run as an option of a command, made from the one list of settings."""

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Optional, Union, get_args, get_origin

import typer

from instaaug.experiments.config import TrainConfig, setting_help, setting_panel

__all__ = ["with_settings"]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every setting.

    The command receives what the user typed, and nothing else, as the mapping ``given``, so that
    a configuration file can say the rest.
    """
    settings = {item.name: item for item in fields(TrainConfig)}
    own = [p for p in inspect.signature(command).parameters.values() if p.name != "given"]

    @wraps(command)
    def called(**arguments: Any) -> None:
        typed = {name: arguments.pop(name) for name in settings}
        given = {name: value for name, value in typed.items() if value is not None}
        command(given=given, **arguments)

    options = [_parameter(item) for item in settings.values()]
    called.__signature__ = inspect.Signature([*options[:1], *own, *options[1:]])  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
    return called


def _parameter(item: Field[Any]) -> inspect.Parameter:
    shown = _words(item.default)
    if item.name == "data":
        info: Any = typer.Argument(help=setting_help(item), show_default=shown)
    else:
        flag = f"--{item.name.replace('_', '-')}"
        name = f"{flag}/--no-{flag[2:]}" if item.type is bool else flag
        info = typer.Option(
            name, help=setting_help(item), show_default=shown, rich_help_panel=setting_panel(item)
        )
    several = get_origin(item.type) in (Union, UnionType)
    first = get_args(item.type)[0] if several else item.type  # others are for YAML alone
    kind: Any = Annotated[Optional[first], info]  # noqa: UP045  # a type known at run time
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(item.name, keyword, default=None, annotation=kind)


def _words(default: Any) -> str | bool:
    if default is None:
        return False
    if isinstance(default, tuple):
        return " ".join(str(part) for part in default)
    if isinstance(default, bool):
        return "on" if default else "off"
    return str(Path(default)) if isinstance(default, Path) else str(default)
