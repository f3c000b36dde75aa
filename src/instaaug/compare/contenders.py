"""Who takes part in a comparison: from words to settings over those that all share."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from instaaug.compare.labels import check_labels, label_from
from instaaug.compare.variants import VARIANTS
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.records.record_files import parsed_yaml
from instaaug.runs.augmenters import AUGMENTERS
from instaaug.runs.config import TrainConfig, read_config, setting_panel
from instaaug.runs.run_files import read_yaml

__all__ = ["Contender", "read_contenders"]

SHARED = {
    *(f.name for f in fields(TrainConfig) if setting_panel(f) in ("Data", "Model")),
    *("epochs", "batch_size", "loss", "test_samples"),
    *("seed", "accelerator", "devices", "strategy", "nodes", "precision"),
}
SPEC = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<settings>.*)\))?", re.DOTALL)
BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Contender:
    """One row of a comparison.

    Arguments:
        label: Its name there, and that of its folder.
        settings: What it has in place of the settings that all share.
    """

    label: str
    settings: Mapping[str, Any]

    def config(self, base: TrainConfig) -> TrainConfig:
        """Every setting of its runs.

        Example:
            >>> Contender("mine", {"method": "random"}).config(TrainConfig(epochs=3)).epochs
            3
        """
        for name in sorted(self.settings.keys() & SHARED):
            raise ArgumentError(
                f"`{name}` must be the same for all methods: the contender {self.label} has its "
                "own. Give it for the whole comparison."
            )
        values = base.to_dict()
        if self.settings.keys() & {"diversity", "entropy"}:  # two ways to say the same
            values |= {"diversity": None, "entropy": None}
        return read_config({**values, **self.settings}, source=f"the contender {self.label}")


def read_contenders(words: str, base: TrainConfig) -> list[Contender]:
    """The contenders that some words name, checked.

    Arguments:
        words: Separated by commas: a method or a variant, with settings of its own in parentheses
            or without; or ``@file.yaml``, which maps labels to settings.
        base: The settings that all share.

    Raises:
        ArgumentError: If one of them cannot run, or if two have the same label.
        UnknownNameError: If there is no such method, variant or setting.

    Example:
        >>> several = read_contenders("none, random(sizes=[0.5, 1.0])", TrainConfig())
        >>> [(c.label, c.settings["method"]) for c in several]
        [('none', 'none'), ('random-sizes-0.5-1.0', 'random')]
    """
    found = [contender for piece in _pieces(words) for contender in _read(piece)]
    if not found:
        raise ArgumentError("`methods` must name at least one method: got none.")
    check_labels([contender.label for contender in found])
    for contender in found:
        contender.config(base)
    return found


def _read(piece: str) -> Iterator[Contender]:
    if piece.startswith("@"):
        yield from _from_file(Path(piece[1:]))
        return
    match = SPEC.fullmatch(piece)
    if match is None:
        raise ArgumentError(
            "`methods` must be names with settings in parentheses or without, such as "
            f"none,random(sizes=[0.5,1.0]): got {piece!r}."
        )
    own: dict[str, Any] = {}
    for part in _pieces(match["settings"] or ""):
        name, value = _assignment(part, piece)
        if name in own:
            raise ArgumentError(f"`methods` must give {name} once: got it twice in {piece!r}.")
        own[name] = value
    if "method" in own:
        raise ArgumentError(f"`method` must stand before the parentheses: got {piece!r}.")
    parts = [f"{name}={_written(value)}" for name, value in own.items()]
    for label, settings in _members(match["name"]).items():
        yield Contender(label_from("-".join([label, *parts])), {**settings, **own})


def _from_file(path: Path) -> Iterator[Contender]:
    content = read_yaml(path)
    if (twice := _said_twice(path.read_text(encoding="utf-8"))) is not None:
        raise ArgumentError(
            f"{str(path)!r} must name every label and setting once: got {twice!r} twice."
        )
    for label, settings in content.items():
        if not isinstance(settings, dict) or not isinstance(settings.get("method"), str):
            raise ArgumentError(
                f"{str(path)!r} must map labels to settings, `method` among them: {str(label)!r} "
                "has none. Write `mine: {method: random, sizes: [0.5, 1.0]}`."
            )
        members = _members(settings["method"])
        if len(members) > 1:
            raise ArgumentError(
                f"`method` must be one contender: {settings['method']!r}, in {str(path)!r}, is "
                f"{len(members)} of them. Name it in `methods` itself."
            )
        own = {name: value for name, value in settings.items() if name != "method"}
        yield Contender(str(label), {**next(iter(members.values())), **own})


def _members(name: str) -> Mapping[str, Mapping[str, Any]]:
    """By label, the settings of all contenders that a name stands for."""
    if name in AUGMENTERS:
        return {name: {"method": name}}
    if name in VARIANTS:
        return VARIANTS[name].members
    raise UnknownNameError("method or variant", name, [*AUGMENTERS, *VARIANTS])


def _assignment(part: str, piece: str) -> tuple[str, Any]:
    name, sign, value = part.partition("=")
    try:
        if not sign:
            raise ValueError("it has no '='")
        parsed = parsed_yaml(value)
        if (twice := _said_twice(value)) is not None:
            raise ValueError(f"it has {twice!r} twice")
        return name.strip(), parsed
    except (yaml.YAMLError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise ArgumentError(
            f"`methods` must have settings like sizes=[0.5,1.0] in parentheses: got {part!r} in "
            f"{piece!r}: {words}."
        ) from None


def _said_twice(text: str) -> str | None:
    """A name that a mapping has twice, of which YAML would keep the last."""
    waiting = [yaml.compose(text, yaml.SafeLoader)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            names = [str(name.value) for name, _ in node.value]
            if twice := [name for name in names if names.count(name) > 1]:
                return twice[0]
            waiting.extend(value for _, value in node.value)
    return None


def _pieces(text: str) -> list[str]:
    """What commas outside of brackets and quotes separate, without what is empty."""
    pieces, closing, quote = [""], "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in BRACKETS:
            closing = BRACKETS[letter] + closing
        elif closing and letter == closing[0]:
            closing = closing[1:]
        elif letter == "," and not closing:
            pieces.append("")
            continue
        pieces[-1] += letter
    if closing or quote:
        raise ArgumentError(
            f"`methods` must close what it opens: {(quote + closing)[0]} is missing in {text!r}."
        )
    return [piece.strip() for piece in pieces if piece.strip()]


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "-".join(f"{k}-{_written(v)}" for k, v in value.items())
    return "-".join(map(_written, value)) if isinstance(value, list) else str(value)
