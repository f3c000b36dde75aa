"""Results that are kept: what was computed once is read, not computed again."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any

from instaaug.errors import ArgumentError
from instaaug.files import write_text
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.safe_files import read_json
from instaaug.yaml_files import parse_yaml
from paper.exhibits import Plan

__all__ = ["given_settings", "keep", "train_once"]

SECONDS = "processor.json"


def keep(
    file: Path, settings: Mapping[str, Any], compute: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """The numbers in a file; if there is none, they are computed and written.

    ``seconds`` of processor time are added to them.

    Arguments:
        file: Of JSON.
        settings: What the numbers depend on, kept along with them.
        compute: Gives the numbers.

    Raises:
        ArgumentError: If the file was made with other settings.
    """
    wanted = json.loads(json.dumps(settings))
    if not file.is_file():
        started, numbers = process_time(), dict(compute())
        numbers["seconds"] = process_time() - started
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"settings": wanted, "numbers": numbers}, indent=1) + "\n")
    kept = read_json(file)
    if kept.get("settings") != wanted:
        _refuse(file)
    numbers = kept["numbers"]
    assert isinstance(numbers, dict)  # noqa: S101  # as it was written
    return numbers


def train_once(settings: TrainSettings, folder: Path) -> float:
    """Train, or train to the end, unless the run is finished; its processor time in seconds.

    Arguments:
        settings: Of the run.
        folder: Of the run.

    Raises:
        ArgumentError: If the folder has a run with other settings.
    """
    from instaaug.runs.training import resume, train  # Lightning takes its time

    begun = (folder / "config.yaml").is_file()
    if begun and Run(folder).read_train_settings() != settings.with_full_paths():
        _refuse(folder)
    if not (folder / SECONDS).is_file():
        print(f"Training {folder}.", flush=True)
        started = process_time()
        if begun:
            resume(folder)
        else:
            train(settings, folder)
        write_text(folder / SECONDS, json.dumps({"seconds": process_time() - started}))
    return float(read_json(folder / SECONDS)["seconds"])


def _refuse(path: Path) -> None:
    raise ArgumentError(
        f"{str(path)!r} must have been made with the settings that are asked for: it has others. "
        "Remove it, or choose another folder with --out."
    )


def given_settings(plan: Plan) -> dict[str, Any]:
    """The options that were typed for ``instaaug``, by name.

    Example:
        >>> given_settings(Plan("laptop", 1, Path(), ("--trainer.max_epochs", "2")))
        {'trainer.max_epochs': 2}
    """
    names = [name.removeprefix("--") for name in plan.overrides[::2]]
    values = [parse_yaml(text, argument="overrides") for text in plan.overrides[1::2]]
    return dict(zip(names, values, strict=True))
