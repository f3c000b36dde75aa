"""Settings with structure: nested dataclasses that read the same in YAML, Python and a shell."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from difflib import SequenceMatcher
from pathlib import Path
from reprlib import repr  # noqa: A004  # a hostile file may hold a value of any length
from sys import float_info
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.signatures import convert, describe_form

__all__ = [
    "SettingInfo",
    "Settings",
    "plain_value",
    "section",
    "setting",
    "setting_infos",
    "similar_settings",
]

S = TypeVar("S", bound="Settings")

LIKELY = {
    "epochs": "max_epochs",
    "lr": "learning_rate",
    "size": "image_size",
    "gpus": "devices",
    "nodes": "num_nodes",
    "clip": "gradient_clip_val",
    "accumulate": "accumulate_grad_batches",
    "samples": "n_views",
}
"""What other programs call a setting, by the last part of its name."""


def setting(
    default: Any,
    help: str,  # noqa: A002  # argparse's, click's and typer's name for it
    *,
    at_least: int | float | None = None,
    at_most: int | float | None = None,
    path: bool = False,
) -> Any:
    """A field of a dataclass of settings.

    Arguments:
        default: Its value unless it is set; the class of a section of settings makes a section.
        help: A sentence that explains it.
        at_least: The smallest number that works.
        at_most: The largest one.
        path: Whether it may name a file or folder, which is then stored with its full path.
    """
    facts = {"help": help, "at_least": at_least, "at_most": at_most, "path": path}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=facts)
    return field(default=default, metadata=facts)


def section(kind: type[S]) -> Any:
    """A field that holds a section of settings, all at their defaults."""
    return field(default_factory=kind, metadata={"section": True})


@dataclass(frozen=True)
class SettingInfo:
    """One setting, as help pages, tables and options of a command need it.

    Arguments:
        name: What it is called in a shell: ``crop.grid``, but ``method`` for ``method.name``.
        path: The sections it lies in and its name there, such as ``method.name``.
        type: What it may be.
        default: Its default.
        help: A sentence.
        section: The title of its section.
    """

    name: str
    path: str
    type: Any
    default: Any
    help: str
    section: str


@dataclass(frozen=True)
class Settings:
    """A section of settings, checked when it is made.

    Subclasses are frozen dataclasses of :func:`setting` and :func:`section` fields. Values are
    converted to their declared types as YAML and command lines need it: lists to tuples, whole
    numbers to floats, one value to a tuple of one.

    Example:
        >>> @dataclass(frozen=True)
        ... class Crop(Settings):
        ...     size: float = setting(0.5, "Side of a crop.", at_least=0, at_most=1)
        >>> @dataclass(frozen=True)
        ... class Everything(Settings):
        ...     epochs: int = setting(20, "Passes through the images.", at_least=1)
        ...     crop: Crop = section(Crop)
        >>> Everything.from_mapping({"crop.size": 1, "epochs": 3})
        Everything(epochs=3, crop=Crop(size=1.0))
        >>> Everything.from_mapping({"crop": {"size": 2}}, source="my.yaml")
        Traceback (most recent call last):
        instaaug.errors.ArgumentError: `crop.size` must be at most 1: got 2.0. (in my.yaml)
    """

    title: ClassVar[str] = ""
    """The heading of the section on help pages."""

    main: ClassVar[str | None] = None
    """The setting that a bare value stands for: ``method: mixup`` is ``method: {name: mixup}``."""

    open: ClassVar[str | None] = None
    """The field of a ``dict`` that takes every name which is not a setting."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, Settings):
                object.__setattr__(self, item.name, _check(item, value))

    @classmethod
    def from_mapping(cls: type[S], *layers: Mapping[Any, Any], source: str = "settings") -> S:
        """Settings by name; what is not named has its default.

        Arguments:
            layers: As YAML gives them: sections are mappings, or names have dots. Later ones win.
            source: Where they come from, for the words of an error.
        """
        try:
            values: dict[str, Any] = {}
            for layer in layers:
                values = _combine(cls, values, _nest(cls, layer, "", source))
            return _build(cls, values, "")
        except ArgumentError as error:
            raise ArgumentError(f"{error} (in {source})") from None

    @classmethod
    def combine(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a section, and others over them; for settings that exclude one another."""
        return {**before, **after}

    def to_mapping(self) -> dict[str, Any]:
        """Every setting, nested, as YAML and JSON know it."""
        plain: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Settings):
                plain[item.name] = value.to_mapping()
            elif item.name == self.open:
                plain |= plain_value(value)
            else:
                plain[item.name] = plain_value(value)
        return plain

    def override(self: S, values: Mapping[str, Any], *, source: str = "settings") -> S:
        """The same settings, but for some.

        Arguments:
            values: By name, with dots or nested.
            source: Where they come from, for the words of an error.

        Example:
            >>> from instaaug.runs.settings import TrainSettings
            >>> TrainSettings().override({"crop.max_outside": 0.5}).crop.max_outside
            0.5
        """
        return type(self).from_mapping(self.to_mapping(), values, source=source)

    def flatten(self) -> dict[str, Any]:
        """Every setting by its full name, such as ``crop.grid``, as YAML knows it."""
        flat: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Settings):
                flat |= {f"{item.name}.{name}": part for name, part in value.flatten().items()}
            elif item.name == self.open:
                flat |= plain_value(value)
            else:
                flat[item.name] = plain_value(value)
        return flat

    def with_full_paths(self: S) -> S:
        """The same with absolute paths, so that a run can be used from any folder."""
        changes: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Settings):
                changes[item.name] = value.with_full_paths()
            elif item.metadata.get("path") and value and Path(value).exists():
                changes[item.name] = str(Path(value).resolve())
        return replace(self, **changes)


def setting_infos(kind: type[Settings], prefix: str = "", title: str = "") -> list[SettingInfo]:
    """All settings of a class and its sections, in order.

    The main setting of a section has the section's own name: ``method``, not ``method.name``.
    """
    found: list[SettingInfo] = []
    for item in fields(kind):
        if "section" in item.metadata:
            inner: type[Settings] = item.type  # type: ignore[assignment]
            found += setting_infos(inner, f"{prefix}{item.name}.", inner.title)
        elif item.name != kind.open:
            is_main = item.name == kind.main and prefix
            name = prefix.rstrip(".") if is_main else prefix + item.name
            default = {} if item.default is MISSING else item.default
            facts = (item.type, default, str(item.metadata["help"]))
            found.append(SettingInfo(name, prefix + item.name, *facts, title or kind.title))
    return found


def similar_settings(name: str, known: Sequence[str]) -> list[str]:
    """The settings that a name may have been meant for, at most three, the likeliest first.

    Arguments:
        name: A name that is not known.
        known: Names with their sections, such as ``trainer.max_epochs``.

    Example:
        >>> similar_settings("batch-size", ["data.batch_size", "data.flip"])
        ['data.batch_size']
    """
    wanted = name.replace("-", "_")
    own = wanted.rpartition(".")[2]
    usual = LIKELY.get(own, own)

    def score(candidate: str) -> float:
        last = candidate.rpartition(".")[2]
        if last == usual:
            return 2.0
        return max(
            SequenceMatcher(None, a, b).ratio() for a, b in ((wanted, candidate), (own, last))
        )

    near = sorted((-score(candidate), candidate) for candidate in known)
    best = -near[0][0] if near else 0.0
    return [candidate for s, candidate in near if -s >= max(0.6, best - 0.1)][:3]


class _Entries(dict[str, Any]):
    """Entries of a mapping by their own names, which leave the others as they are."""

    def over(self, earlier: object) -> dict[str, Any]:
        """These and the others of a mapping; still entries where there is none."""
        if not isinstance(earlier, dict):
            return self
        return type(earlier)({**earlier, **self})


def _nest(
    kind: type[Settings], values: Mapping[Any, Any], prefix: str, source: str
) -> dict[str, Any]:
    """Values by name as nested mappings without dots or bare values; raise on unknown names."""
    known = {item.name: item for item in fields(kind)}
    nested: dict[str, Any] = {}
    for given, value in values.items():
        name, _, rest = str(given).partition(".")
        item = known.get(name)
        if item is not None and "section" in item.metadata:
            inner: type[Settings] = item.type  # type: ignore[assignment]
            full = f"{prefix}{name}."
            part = {rest: value} if rest else _as_section(inner, value, full)
            nested[name] = _over(inner, nested.get(name, {}), _nest(inner, part, full, source))
        elif item is not None and rest and get_origin(item.type) is dict:
            nested[name] = _Entries({rest: value}).over(nested.get(name))
        elif (item is not None and name != kind.open and not rest) or (
            kind.open is not None and not rest
        ):
            nested[name] = value
        else:
            names = [prefix + info.name for info in setting_infos(kind)]
            raise UnknownNameError(
                f"setting in {source}",
                f"{prefix}{given}",
                [prefix + known_name for known_name in known],
                similar=similar_settings(f"{prefix}{given}", names),
            )
    return nested


def _over(
    kind: type[Settings], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of a section and others over them; single entries beside those of before."""
    entries = {name: value for name, value in after.items() if isinstance(value, _Entries)}
    combined = kind.combine(before, {n: v for n, v in after.items() if n not in entries})
    return combined | {name: own.over(combined.get(name)) for name, own in entries.items()}


def _combine(
    kind: type[Settings], before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any]:
    """Nested values, and others over them, section by section."""
    sections = {item.name: item.type for item in fields(kind) if "section" in item.metadata}
    combined = _over(kind, before, after)
    for name in before.keys() & after.keys() & sections.keys():
        combined[name] = _combine(sections[name], before[name], after[name])  # type: ignore[arg-type]
    return combined


def _build(kind: type[S], values: Mapping[str, Any], prefix: str) -> S:
    known = {item.name: item for item in fields(kind)}
    arguments: dict[str, Any] = {} if kind.open is None else {kind.open: {}}
    for name, value in values.items():
        item = known.get(name)
        if item is None or name == kind.open:
            arguments[str(kind.open)][name] = value
        elif "section" in item.metadata:
            arguments[name] = _build(item.type, value, f"{prefix}{name}.")  # type: ignore[arg-type]
        else:
            arguments[name] = _check(item, value, prefix)
    return kind(**arguments)


def _as_section(kind: type[Settings], value: Any, prefix: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    if kind.main is None:
        raise ArgumentError(
            f"`{prefix.rstrip('.')}` must be settings by name, such as "
            f"{{{fields(kind)[0].name}: ...}}: got {repr(value)}."
        )
    return {kind.main: value}


def _check(item: Field[Any], value: Any, prefix: str = "") -> Any:
    """The value in its declared type and within its bounds."""
    name = f"`{prefix}{item.name}`"
    try:
        value = convert(item.type, value)
    except (TypeError, ValueError, OverflowError):
        if choices := _choices(item.type):
            raise UnknownNameError(prefix + item.name, str(value), choices) from None
        form = describe_form(item.type)
        raise ArgumentError(f"{name} must be {form}: got {repr(value)}.") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        _check_bounds(item, value, name)
    return value


def _check_bounds(item: Field[Any], value: int | float, name: str) -> None:
    least, most = (item.metadata.get(key) for key in ("at_least", "at_most"))
    if least is not None and not value >= least:  # neither is NaN
        raise ArgumentError(f"{name} must be at least {least:g}: got {value}.")
    if not abs(value) <= float_info.max:  # integers may be larger
        raise ArgumentError(f"{name} must be finite: got {repr(value)}.")
    if most is not None and value > most:
        raise ArgumentError(f"{name} must be at most {most:.10g}: got {value}.")


def _choices(kind: Any) -> tuple[str, ...]:
    """The names that a setting chooses from, if that is all it does."""
    parts = [kind]
    if get_origin(kind) in (Union, UnionType):
        parts = [part for part in get_args(kind) if part is not NoneType]
    return get_args(parts[0]) if len(parts) == 1 and get_origin(parts[0]) is Literal else ()


def plain_value(value: Any) -> Any:
    """The value as YAML and JSON know it: tuples are lists."""
    if isinstance(value, Mapping):
        return {name: plain_value(part) for name, part in value.items()}
    return [plain_value(part) for part in value] if isinstance(value, tuple | list) else value
