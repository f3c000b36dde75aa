"""Read YAML, JSON and CSV files that anyone may have written: bounded in size and depth."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from instaaug.errors import DataError, InstaAugError

__all__ = ["MissingYamlError", "load_yaml", "read_csv", "read_json", "read_yaml"]

MOST_YAML, MOST_BYTES = 1 << 16, 1 << 24  # bytes; the parser of YAML is slow
DEEPEST = 8  # mappings and lists within each other; the time of the parser is quadratic in them


class MissingYamlError(InstaAugError, ImportError):
    """PyYAML is needed for settings and is not installed."""


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file of settings by name, flat and without aliases, which can unfold into billions.

    Raises:
        DataError: If it is anything else.
        FileNotFoundError: If there is none.
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingYamlError(
            "Settings of a run need PyYAML, which is not installed. Run: pip install "
            "'instaaug[train]'"
        ) from error
    try:
        content = load_yaml(_text(path, MOST_YAML))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{_requirement(path)}: {_first_words(error)}.") from None
    return _mapping(path, content)


def load_yaml(text: str) -> Any:
    """What a flat YAML text without aliases says; no text takes long to refuse.

    Raises:
        ValueError: If it is too long, is deep or has aliases: no settings are.
        yaml.YAMLError: If it is not YAML.
    """
    import yaml

    if len(text) > MOST_YAML:
        raise ValueError(f"it has {len(text):,} characters, and settings at most {MOST_YAML:,}")
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):  # lazily: stops before it gets slow
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > DEEPEST:
            raise ValueError("it has aliases or is deep, which settings are not")
    return yaml.safe_load(text)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that is a mapping.

    Raises:
        DataError: If it is anything else.
        FileNotFoundError: If there is none.
    """
    try:
        content = json.loads(_text(path, MOST_BYTES))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f"{_requirement(path)}: {_first_words(error)}.") from None
    return _mapping(path, content)


def read_csv(path: Path) -> list[dict[str, float]]:
    """A table of numbers with a header, row by row; empty cells are left out.

    Raises:
        DataError: If it is anything else.
        FileNotFoundError: If there is none.
    """
    reader = csv.reader(io.StringIO(_text(path, MOST_BYTES), newline=""))
    try:
        names = next(reader, [])
        if not names or len(set(names)) < len(names):
            raise DataError(f"{_requirement(path)}: its columns have no names, or one name twice.")
        return [_numbers(path, names, row, reader.line_num) for row in reader if row]
    except csv.Error as error:
        raise DataError(f"{_requirement(path)}: {_first_words(error)}.") from None


def _numbers(path: Path, names: list[str], row: list[str], line: int) -> dict[str, float]:
    try:
        return {k: float(cell) for k, cell in zip(names, row, strict=True) if cell}
    except ValueError as error:
        raise DataError(f"{_requirement(path)}: line {line}: {_first_words(error)}.") from None


def _text(path: Path, most: int) -> str:
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    if not path.is_file():
        raise DataError(f"{_requirement(path)}: it is no file.")
    if (size := path.stat().st_size) > most:
        raise DataError(
            f"{_requirement(path)}: it has {size:,} bytes, and no run writes more than {most:,}."
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{_requirement(path)}: {_first_words(error)}.") from None


def _mapping(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise DataError(f"{_requirement(path)}: it holds no names with values.")
    return content


def _requirement(path: Path) -> str:
    return f"{str(path)!r} must be as the run wrote it; restore it, or run again"


def _first_words(error: Exception) -> str:
    """The first words of an error, for a hostile file may be quoted in it at any length."""
    return " ".join(str(error).split())[:200].rstrip(".")
