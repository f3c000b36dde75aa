"""Read YAML, JSON and CSV files that anyone may have written: bounded in size and depth."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from instaaug.errors import ArgumentError, DataError
from instaaug.yaml_files import MOST_CHARACTERS, parse_yaml

__all__ = ["read_config", "read_csv", "read_json"]

MOST_BYTES = 1 << 24


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file of settings by name.

    Raises:
        DataError: If it is anything else.
        FileNotFoundError: If there is none.
    """
    text = _text(path, MOST_CHARACTERS)
    try:
        return _mapping(path, parse_yaml(text, argument="config"))
    except ArgumentError as error:
        raise DataError(f"{_requirement(path)}: {error}") from None


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
    """The first words of an error, which may quote a hostile file at any length."""
    return " ".join(str(error).split())[:200].rstrip(".")
