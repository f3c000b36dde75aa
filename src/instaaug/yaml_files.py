"""Settings in YAML: no text takes long to refuse, none runs code, none has a name twice."""

from copy import deepcopy
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from typing_extensions import override

from instaaug.errors import ArgumentError, InstaAugError

__all__ = ["MissingYamlError", "parse_yaml", "read_yaml"]

MOST_CHARACTERS = 1 << 16  # the parser is slow
DEEPEST = 8  # mappings and lists within each other; the time of the parser is quadratic in them


class MissingYamlError(InstaAugError, ImportError):
    """PyYAML is needed for settings and is not installed."""


def read_yaml(path: Path) -> dict[Any, Any]:
    """A YAML file that is a mapping of settings.

    Raises:
        ArgumentError: If it is anything else.
        FileNotFoundError: If there is none.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(f"`config` must be YAML: {str(path)!r} is not UTF-8.") from None
    content = parse_yaml(text, argument="config", source=path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ArgumentError(
            f"`config` must be lines of `setting: value`: {str(path)!r} holds "
            f"{type(content).__name__}."
        )
    return content


def parse_yaml(text: str, *, argument: str, source: Path | None = None) -> Any:
    """The content of YAML text, without aliases, and with every name once in its mapping.

    Arguments:
        text: YAML.
        argument: What it was given for, for the words of an error.
        source: The file it is from.

    Example:
        >>> parse_yaml("{crop: {grid: [[0.5, 2], [1, 1]]}}", argument="config")
        {'crop': {'grid': [[0.5, 2], [1, 1]]}}
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingYamlError(
            "Settings of a run need PyYAML, which is not installed. Run: pip install "
            "'instaaug[train]'"
        ) from error
    subject = "" if source is None else f" {str(source)!r} is not:"
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(
                f"it has {len(text):,} characters, and settings at most {MOST_CHARACTERS:,}"
            )
        repeated, content = _load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:300]
        raise ArgumentError(f"`{argument}` must be YAML:{subject} {words}") from None
    if repeated is not None:
        where = "" if source is None else f" in {str(source)!r}"
        raise ArgumentError(
            f"`{argument}` must give every name once: got {repeated!r} twice{where}."
        )
    return deepcopy(content)  # the caller's own


@lru_cache(maxsize=256)
def _load(text: str) -> tuple[str | None, Any]:
    """A name that is there twice, if any, and the content; of text seen before, at once.

    A comparison reads the settings of all its runs whenever one of them ends.
    """
    loader = _settings_loader()(text)
    document = loader.get_single_node()
    repeated = _repeated_name(document)  # now, because construction resolves merge keys
    return repeated, None if document is None else loader.construct_document(document)


@cache
def _settings_loader() -> Any:
    """A safe loader that stops at aliases, which can explode, and at depth, which is slow."""
    import yaml

    class SettingsLoader(yaml.SafeLoader):
        depth = 0

        @override
        def compose_node(self, parent: Any, index: Any) -> Any:
            is_deep = self.depth == DEEPEST and self.check_event(yaml.CollectionStartEvent)
            if is_deep or self.check_event(yaml.AliasEvent):
                raise ValueError("it has aliases or is deep, which settings are not")
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return SettingsLoader


def _repeated_name(document: Any) -> str | None:
    """A name that a mapping has twice, of which YAML would keep the last."""
    import yaml

    waiting = [document]
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
