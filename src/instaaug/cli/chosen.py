"""The settings of a run: those of a file, over which those typed have priority."""

from pathlib import Path
from typing import Any

from instaaug.runs.config import TrainConfig, read_config
from instaaug.runs.run_directory import read_yaml

__all__ = ["chosen_settings", "typed_and_filed"]


def chosen_settings(given: dict[str, Any], config: Path | None) -> TrainConfig:
    """What a file and the command line say together; the rest are defaults.

    Arguments:
        given: What was typed, by the name of the setting.
        config: A YAML file.
    """
    source = "the settings" if config is None else str(config)
    return read_config(typed_and_filed(given, config), source=source)


def typed_and_filed(given: dict[str, Any], config: Path | None) -> dict[Any, Any]:
    """The settings that a file or the command line gives, not checked yet."""
    settings = read_yaml(config) if config else {}
    if given.keys() & {"diversity", "entropy"}:  # two ways to say the same
        settings = {k: v for k, v in settings.items() if k not in ("diversity", "entropy")}
    return {**settings, **given}
