"""Results that are kept: what was computed once is read, not computed again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from instaaug.files import write_text
from instaaug.safe_files import read_json
from instaaug.yaml_files import parse_yaml
from paper.exhibits import Plan

__all__ = ["given_settings", "keep"]


def keep(file: Path, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """The numbers in a file; if there is none, they are computed and written.

    Arguments:
        file: Of JSON.
        compute: Gives the numbers.
    """
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(compute(), indent=1) + "\n")
    return read_json(file)


def given_settings(plan: Plan) -> dict[str, Any]:
    """The options that were typed for ``instaaug``, by name.

    Example:
        >>> given_settings(Plan("laptop", 1, Path(), ("--trainer.max_epochs", "2")))
        {'trainer.max_epochs': 2}
    """
    names = [name.removeprefix("--") for name in plan.overrides[::2]]
    values = [parse_yaml(text, argument="overrides") for text in plan.overrides[1::2]]
    return dict(zip(names, values, strict=True))
