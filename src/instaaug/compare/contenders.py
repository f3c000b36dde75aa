"""Which methods take part in a comparison: from what was typed to settings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instaaug.compare.labels import check_labels, label_from
from instaaug.compare.variants import VARIANTS
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.methods import METHODS
from instaaug.runs.build import check_method
from instaaug.runs.settings import TrainSettings
from instaaug.yaml_files import parse_yaml, read_yaml

__all__ = ["Contender", "read_contenders"]

SHARED = ("data.", "model.", "loss.", "trainer.", "views.n_views", "seed", "task")
OWN = (
    "data.flip",
    "data.held_out_fraction",
    "trainer.gradient_clip_val",
    "trainer.accumulate_grad_batches",
)
FILES = (".yaml", ".yml")


@dataclass(frozen=True)
class Contender:
    """One row of a comparison.

    Arguments:
        label: Its name there, and that of its folder.
        settings: What it has in place of the settings that all share.
    """

    label: str
    settings: Mapping[str, Any]

    def config(self, base: TrainSettings) -> TrainSettings:
        """Every setting of its runs.

        Example:
            >>> mine = Contender("mine", {"method": "random", "method.sizes": [0.5, 1.0]})
            >>> mine.config(TrainSettings()).method
            MethodSettings(name='random', options={'sizes': [0.5, 1.0]})
        """
        config = base.override(self.settings, source=f"the contender {self.label}")
        before, after = base.flatten(), config.flatten()
        for name, value in after.items():
            if name.startswith(SHARED) and name not in OWN and before[name] != value:
                raise ArgumentError(
                    f"`{name}` must be the same for all methods: the contender {self.label} has "
                    "its own. Give it for the whole comparison."
                )
        return config


def read_contenders(methods: str | Sequence[Any], base: TrainSettings) -> list[Contender]:
    """The contenders that were asked for, checked.

    Arguments:
        methods: A list of names of methods or variants, and of settings, ``method`` among them;
            or text that is such a list in YAML, names with commas, or a YAML file that maps labels
            to settings.
        base: The settings that all share.

    Raises:
        ArgumentError: If one of them cannot run, or if two have the same label.
        UnknownNameError: If there is no such method, variant or setting.

    Example:
        >>> crops = {"method": {"name": "random", "sizes": [0.5, 1.0]}}
        >>> [contender.label for contender in read_contenders(["none", crops], TrainSettings())]
        ['none', 'random-sizes-0.5-1.0']
        >>> [contender.label for contender in read_contenders("none, mixup", TrainSettings())]
        ['none', 'mixup']
    """
    if isinstance(methods, str) and methods.endswith(FILES):
        found = list(_read_file(Path(methods)))
    else:
        found = [one for item in _list_items(methods) for one in _read_item(item)]
    if not found:
        raise ArgumentError("`methods` must name at least one method: got none.")
    check_labels([contender.label for contender in found])
    for contender in found:
        check_method(contender.config(base))
    return found


def _list_items(methods: str | Sequence[Any]) -> Sequence[Any]:
    parsed = parse_yaml(methods, argument="methods") if isinstance(methods, str) else methods
    if isinstance(parsed, str):
        return [name.strip() for name in parsed.split(",") if name.strip()]
    if isinstance(parsed, Mapping):
        return [parsed]
    if not isinstance(parsed, list | tuple):
        raise ArgumentError(
            "`methods` must be names with commas, or a list such as [none, {method: random, "
            f"method.sizes: [0.5, 1.0]}}]: got {str(methods)[:100]!r}."
        )
    return parsed


def _read_item(item: Any) -> Iterator[Contender]:
    """The contenders that an item of the list stands for; several for the name of a sweep."""
    if isinstance(item, str):
        for label, settings in _find_members(item).items():
            yield Contender(label, settings)
        return
    if not isinstance(item, Mapping) or "method" not in item:
        raise ArgumentError(
            "`methods` must be names, or settings with a `method` among them, such as {method: "
            f"random, method.sizes: [0.5, 1.0]}}: got {str(item)[:100]!r}."
        )
    own = {name: value for name, value in item.items() if name != "label"}
    label = item.get("label") or label_from("-".join(_label_parts(own)))
    yield Contender(str(label), _resolve_variant(own, str(label)))


def _read_file(path: Path) -> Iterator[Contender]:
    for label, settings in read_yaml(path).items():
        if not isinstance(settings, dict) or "method" not in settings:
            raise ArgumentError(
                f"{str(path)!r} must map labels to settings, `method` among them: {str(label)!r} "
                "has none. Write `mine: {method: {name: random, sizes: [0.5, 1.0]}}`."
            )
        yield Contender(str(label), _resolve_variant(settings, str(label)))


def _resolve_variant(settings: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """The settings with those of the variant that they name in place of a method."""
    name = settings["method"]
    if not isinstance(name, str) or name not in VARIANTS:
        return settings
    members = VARIANTS[name].members
    if len(members) > 1:
        raise ArgumentError(
            f"`method` must be one contender: {name!r}, of {label}, is {len(members)} of them. "
            "Name it in `methods` itself."
        )
    rest = {key: value for key, value in settings.items() if key != "method"}
    return {**next(iter(members.values())), **rest}


def _find_members(name: str) -> Mapping[str, Mapping[str, Any]]:
    """By label, the settings of all contenders that a name stands for."""
    if name in VARIANTS:
        return VARIANTS[name].members
    if name not in METHODS and ":" not in name:
        raise UnknownNameError("method or variant", name, [*METHODS, *VARIANTS])
    return {label_from(name): {"method": name}}


def _label_parts(settings: Mapping[str, Any]) -> Iterator[str]:
    """The method's name, then its settings and their values."""
    for name, value in settings.items():
        if name == "method" and isinstance(value, Mapping):
            yield str(value.get("name", ""))
            yield from _label_parts({k: v for k, v in value.items() if k != "name"})
        elif name == "method":
            yield str(value)
        else:
            yield f"{name.removeprefix('method.')}={_label_value(value)}"


def _label_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "-".join(f"{k}-{_label_value(v)}" for k, v in value.items())
    return "-".join(map(_label_value, value)) if isinstance(value, list) else str(value)
