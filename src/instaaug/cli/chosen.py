"""The settings of a run: those of a file, and those typed over them."""

from pathlib import Path
from typing import Any

from instaaug.runs.run_files import read_yaml
from instaaug.runs.settings import TrainSettings

__all__ = ["choose_settings"]


def choose_settings(given: dict[str, Any], config: Path | None) -> TrainSettings:
    """What a file and the command line say together; the rest are defaults.

    Arguments:
        given: What was typed, by the name of the setting.
        config: A YAML file.
    """
    source = "the settings" if config is None else str(config)
    return TrainSettings.from_mapping(read_yaml(config) if config else {}, given, source=source)
