"""Files that every kind of run has: settings in YAML, and what it ran in."""

import platform
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
import yaml

from instaaug import __version__
from instaaug.errors import ArgumentError
from instaaug.report.records.record_files import parsed_yaml

__all__ = ["environment", "read_yaml", "take_back"]

PACKAGES = ("torch", "lightning", "numpy", "pillow", "safetensors")


def read_yaml(path: Path) -> dict[Any, Any]:
    """A YAML file that is a mapping of settings."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    try:
        content = parsed_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:300]
        raise ArgumentError(f"`config` must be YAML: {str(path)!r} is not: {words}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ArgumentError(
            f"`config` must be lines of `setting: value`: {str(path)!r} holds "
            f"{type(content).__name__}."
        )
    return content


def take_back(files: Iterable[Path]) -> None:
    """Remove files of a run that could not begin, and their folder if nothing else is in it."""
    for file in files:
        file.unlink(missing_ok=True)
        folder = file.parent
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def environment() -> dict[str, Any]:
    """Versions, commit, command: what else it takes to repeat a run."""
    return {
        "instaaug": __version__,
        "commit": _commit(),
        "command": " ".join(["instaaug", *sys.argv[1:]]),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": torch.get_num_threads(),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the library, where it runs from a clone."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
