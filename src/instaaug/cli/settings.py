"""Options of a command, one for every setting of a run."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Optional, Union, get_args, get_origin

import typer
from rich.markup import escape
from typer.core import TyperCommand
from typing_extensions import override

from instaaug.errors import ArgumentError, DataError
from instaaug.runs.settings import TrainSettings
from instaaug.settings import SettingInfo, Settings, setting_infos, similar_settings
from instaaug.signatures import describe_form
from instaaug.yaml_files import parse_yaml, read_yaml

__all__ = [
    "SettingsCommand",
    "check_data_path",
    "choose_settings",
    "read_typed",
    "with_settings",
]

Command = Callable[..., None]
TABLES = (".csv", ".npz")
"""Endings of files that list images or hold them."""
SHORT = {"--pretrained": "--model.pretrained"}
SWITCH = "<bool>"
YES_OR_NO = ("true", "false", "yes", "no", "on", "off")
OPEN = ("--method.", "--data.options.", "--data.vary.")
"""Options whose names are known only when the method, the data source or a transform is."""


class SettingsCommand(TyperCommand):
    """A command that also takes ``--method.NAME VALUE`` for any name, and bare switches."""

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {
            flag
            for parameter in self.get_params(ctx)
            for flag in (*parameter.opts, *parameter.secondary_opts)  # --timing, --no-timing
        }
        switches = {flag for p in self.get_params(ctx) if p.metavar == SWITCH for flag in p.opts}
        rest, typed, waiting = [], {}, list(args)
        while waiting:
            token = _long_name(waiting.pop(0))
            if token in switches and not (waiting and waiting[0].lower() in YES_OR_NO):
                rest += [token, "true"]
                continue
            flag, sign, value = token.partition("=")
            if not flag.startswith("--") or flag in known or flag == "--":
                rest.append(token)
                continue
            if not flag.startswith(OPEN):
                ctx.fail(_unknown_option(flag, known))
            if not sign and not waiting:
                ctx.fail(f"Option '{flag}' requires an argument.")
            typed[flag.removeprefix("--")] = value if sign else waiting.pop(0)
        ctx.meta["instaaug.open"] = typed
        return super().parse_args(ctx, rest)


def _long_name(token: str) -> str:
    """An option by its full name; other words as they are."""
    flag, sign, value = token.partition("=")
    return f"{SHORT.get(flag, flag)}{sign}{value}"


def _unknown_option(flag: str, known: Iterable[str]) -> str:
    """A sentence that names the options which may have been meant."""
    near = similar_settings(flag.lstrip("-"), [name.lstrip("-") for name in known])
    hint = f" Did you mean {' or '.join(f'--{name}' for name in near)}?" if near else ""
    return f"There is no option {flag}.{hint}"


def with_settings(
    kind: type[Settings], arguments: Sequence[str] = ("data",)
) -> Callable[[Command], Command]:
    """Give a command an option for every setting.

    The command receives what the user typed, and nothing else, as the mapping ``given`` from full
    names to text, so that a configuration file can say the rest.

    Arguments:
        kind: The settings.
        arguments: Those that come first and without a flag; without a default they must be given.
    """
    infos = {info.name: info for info in setting_infos(kind) if info.name != "kind"}
    first = [_parameter(infos[name], is_argument=True) for name in arguments]
    rest = [_parameter(info) for name, info in infos.items() if name not in arguments]

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "given"]
        names = {_identifier(name): name for name in infos}

        @wraps(command)
        def call(**typed: Any) -> None:
            context = typed.pop("context")
            values = {name: typed.pop(identifier) for identifier, name in names.items()}
            given = {name: value for name, value in values.items() if value is not None}
            given |= context.meta.get("instaaug.open", {})
            check_data_path(given.get("data", given.get("data.source")))
            command(given=read_typed(kind, given), **typed)

        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        parameters = [context, *first, *own, *rest]
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in parameters}
        return call

    return decorate


def check_data_path(source: str | None) -> None:
    """Raise if data are named by a path at which nothing is: before anything heavy is imported.

    Names of data sets, ``module:function`` and globs are left to whoever loads them.

    Arguments:
        source: As typed, if anything was.

    Raises:
        DataError: If there is nothing.

    Example:
        >>> check_data_path("sprites")
        >>> check_data_path("photos/pets")
        Traceback (most recent call last):
        instaaug.errors.DataError: There is no folder or file 'photos/pets'.
    """
    if source is None or ":" in source:
        return
    path = Path(source).expanduser()
    if not (len(path.parts) > 1 or path.suffix in TABLES) or path.exists():
        return
    beside = sorted(other.name for other in path.parent.iterdir()) if path.parent.is_dir() else []
    near = get_close_matches(path.name, beside, n=1)
    hint = f" Did you mean {str(path.with_name(near[0]))!r}?" if near else ""
    raise DataError(f"There is no folder or file {source!r}.{hint}")


def read_typed(kind: type[Settings], given: Mapping[str, str]) -> dict[str, Any]:
    """Values from the text that was typed: what YAML makes of it, but for text itself.

    Lists need no brackets: ``crop,flip`` is ``[crop, flip]``.

    Arguments:
        kind: The settings.
        given: By full name.

    Example:
        >>> from instaaug.runs.settings import TrainSettings
        >>> read_typed(TrainSettings, {"crop.grid": "[[0.5, 2], [1, 1]]", "method.alpha": "1e-3"})
        {'crop.grid': [[0.5, 2], [1, 1]], 'method.alpha': 0.001}
    """
    types = {info.name: info.type for info in setting_infos(kind)}
    return {name: _read_value(name, text, types.get(name, Any)) for name, text in given.items()}


def _read_value(name: str, text: str, kind: Any) -> Any:
    if str in _union_parts(kind):
        return text
    try:
        value = parse_yaml(text, argument=name)
    except ArgumentError:
        raise ArgumentError(f"`{name}` must be {describe_form(kind)}: got {text!r}.") from None
    if isinstance(value, str):  # YAML 1.1 takes 1e-3 for text
        if "," in value and _takes_list(kind):
            return parse_yaml(f"[{text}]", argument=name)
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _takes_list(kind: Any) -> bool:
    """Whether a value may be a list of any length, of names or numbers."""
    lists = [get_args(part) for part in _union_parts(kind) if get_origin(part) is tuple]
    kinds = [get_origin(args[0]) or args[0] for args in lists if args[-1] is ...]
    return any(kind in (str, int, float, Literal) for kind in kinds)


def _identifier(name: str) -> str:
    return name.replace(".", "__")


def _parameter(info: SettingInfo, *, is_argument: bool = False) -> inspect.Parameter:
    must_be_given = is_argument and not info.default
    if is_argument:
        details: Any = typer.Argument(help=_help(info), show_default=False)
    else:
        details = typer.Option(
            f"--{info.name}",
            help=_help(info),
            show_default=False,
            rich_help_panel=info.section,
            metavar=_metavar(info.type),
        )
    kind: Any = str if must_be_given else Optional[str]  # noqa: UP045  # known at run time
    return inspect.Parameter(
        _identifier(info.name),
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if must_be_given else None,
        annotation=Annotated[kind, details],
    )


def _help(info: SettingInfo) -> str:
    """The sentence on a setting with its choices and its default, as typer prints them."""
    words = escape(info.help)
    if choices := _choices(info.type):
        words += f" One of {', '.join(choices)}."
    if info.default is None or info.default in ("", {}):
        return words
    return f"{words} [dim]{escape(f'[default: {_as_yaml(info.default)}]')}[/]"


def _metavar(kind: Any) -> str:
    if _choices(kind):
        return "<name>"
    kinds = [part for part in _union_parts(kind) if part is not NoneType]
    names = {str: "<text>", int: "<int>", float: "<float>", bool: SWITCH}
    return names.get(kinds[0], "<yaml>") if len(kinds) == 1 else "<yaml>"


def _choices(kind: Any) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _union_parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _as_yaml(value: Any) -> str:
    """A default as it would be typed."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_yaml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def choose_settings(given: dict[str, Any], config: Path | None) -> TrainSettings:
    """What a file and the command line say together; the rest are defaults.

    Arguments:
        given: What was typed, by the name of the setting.
        config: A YAML file.
    """
    source = "the settings" if config is None else str(config)
    return TrainSettings.from_mapping(read_yaml(config) if config else {}, given, source=source)
