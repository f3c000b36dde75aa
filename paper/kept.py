"""Results that are kept: what was computed once is read, not computed again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, TypeVar

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.files import write_text
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.safe_files import read_json
from instaaug.yaml_files import parse_yaml
from paper.exhibits import Plan

__all__ = ["change_numbers", "given_settings", "keep", "read_options", "train_once"]

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
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
    """Train, or train to the end, unless the run is finished.

    Returns the processor time in seconds; of a run that was interrupted, since it went on.

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


def read_options(plan: Plan) -> dict[str, str]:
    """The options that were typed for ``instaaug``: text by name.

    Raises:
        ArgumentError: If one has no name or no value.

    Example:
        >>> read_options(Plan("laptop", 1, Path(), ("--seed", "3", "--model.width=0.5")))
        {'seed': '3', 'model.width': '0.5'}
    """
    found, waiting = {}, list(plan.overrides)
    while waiting:
        flag, sign, value = waiting.pop(0).partition("=")
        if not flag.startswith("--") or not (sign or waiting):
            raise ArgumentError(
                "Options for instaaug must be pairs such as --trainer.max_epochs 2: got "
                f"{' '.join(plan.overrides)!r}. `python -m paper --help` lists all others."
            )
        found[flag.removeprefix("--")] = value if sign else waiting.pop(0)
    return found


def given_settings(plan: Plan) -> dict[str, Any]:
    """What was typed for ``instaaug``, by name, as YAML reads it.

    Example:
        >>> given_settings(Plan("laptop", 1, Path(), ("--trainer.max_epochs", "2")))
        {'trainer.max_epochs': 2}
    """
    return {name: parse_yaml(text, argument=name) for name, text in read_options(plan).items()}


def change_numbers(numbers: T, plan: Plan) -> T:
    """The numbers of an experiment, with those that were typed in place of its own.

    Arguments:
        numbers: A dataclass.
        plan: With what was typed.

    Raises:
        UnknownNameError: If there is no such number.
        ArgumentError: If it is not a number.
    """
    given, known = given_settings(plan), [one.name for one in fields(numbers)]
    for name, value in given.items():
        if name not in known:
            raise UnknownNameError("setting", name, known)
        if not isinstance(value, int | float):
            raise ArgumentError(f"`{name}` must be a number: got {value!r}.")
    return replace(numbers, **given)
