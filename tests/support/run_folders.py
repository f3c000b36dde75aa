"""Folders as runs leave them, without training anything."""

import json
from pathlib import Path
from typing import Any

import yaml

__all__ = ["SETTINGS", "write_run"]

SETTINGS = {
    "data": "sprites", "task": "classification", "method": "instaaug", "transforms": "crop",
    "entropy": None, "rule": "pi", "weight": 0.1, "sizes": [0.25, 1.0], "loss": "squared",
    "epochs": 2, "seed": 0, "threads": 1,
}  # fmt: skip


def write_run(
    folder: Path,
    *,
    plain: Any = None,
    augmented: Any = None,
    learned: Any = None,
    **settings: Any,
) -> Path:
    """A finished run of ``instaaug train`` with these scores, or an unfinished one without."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(SETTINGS | settings), encoding="utf-8")
    test = {"plain": plain, "augmented": augmented, "learned": learned}
    test = {name: value for name, value in test.items() if value is not None}
    if test:
        (folder / "results.json").write_text(json.dumps({"seed": 0, "test": test}))
    return folder
