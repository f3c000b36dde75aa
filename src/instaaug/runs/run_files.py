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
from instaaug.safe_files import load_yaml

__all__ = ["environment", "parse_yaml", "read_yaml", "take_back"]

PACKAGES = ("torch", "lightning", "numpy", "pillow", "safetensors")


def read_yaml(path: Path) -> dict[Any, Any]:
    """A YAML file that is a mapping of settings."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    content = parse_yaml(path.read_text(encoding="utf-8"), argument="config", source=path)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ArgumentError(
            f"`config` must be lines of `setting: value`: {str(path)!r} holds "
            f"{type(content).__name__}."
        )
    return content


def parse_yaml(text: str, *, argument: str, source: Path | None = None) -> Any:
    """The content of YAML text, in which no mapping may have a name twice.

    Arguments:
        text: YAML.
        argument: What it was given for, for the words of an error.
        source: The file it is from.
    """
    said = "" if source is None else f" {str(source)!r} is not:"
    try:
        content = load_yaml(text)
        twice = _repeated_name(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:300]
        raise ArgumentError(f"`{argument}` must be YAML:{said} {words}") from None
    if twice is not None:
        where = f" in {str(source)!r}" if source is not None else ""
        raise ArgumentError(f"`{argument}` must give every name once: got {twice!r} twice{where}.")
    return content


def _repeated_name(text: str) -> str | None:
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
