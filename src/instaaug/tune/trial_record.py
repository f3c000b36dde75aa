"""What one trial of a search came to, and its row in ``trials.json``, read with suspicion."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import sqrt
from reprlib import repr  # noqa: A004  # a damaged file may hold a value of any length
from statistics import fmean
from sys import float_info
from typing import Any, Literal

from instaaug.stats import wilson_interval

__all__ = ["State", "TrialRecord", "is_rung", "parsed_trials"]

State = Literal["running", "complete", "pruned", "failed"]
ONE_SIGMA = 0.6827
ENDED = ("complete", "pruned", "failed")
NUMBERS_OF_PRUNER = "completed_rung_"  # how their names begin


@dataclass(frozen=True)
class TrialRecord:
    """What one trial came to.

    Arguments:
        number: From 0, the settings as they were.
        state: Pruned trials were cut short; failed ones came upon a NaN or another error.
        point: The numbers that were searched.
        bands: The entropy band of each factor as diversity.
        phi_learning_rate: As it was used.
        rungs: Pairs (epochs, mean score) of the comparisons on the way.
        scores: Of each validation image, 1 is best; for a complete trial.
        seconds: It took.
        memory: What the pruner must remember.
        reason: Why it failed.
    """

    number: int
    state: State
    point: dict[str, float]
    bands: dict[str, tuple[float, float]]
    phi_learning_rate: float
    rungs: tuple[tuple[int, float], ...] = ()
    scores: tuple[float, ...] = ()
    seconds: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    @property
    def score(self) -> float | None:
        """The mean over the validation images; for a trial cut short, the last one seen."""
        if self.scores:
            return fmean(self.scores)
        return self.rungs[-1][1] if self.rungs else None

    @property
    def error(self) -> float:
        """The standard error of the score; of an accuracy, that is the binomial one.

        That would be 0 where all images are right, or none: there it is half of Wilson's interval.
        """
        n, mean = len(self.scores), fmean(self.scores)
        if set(self.scores) in ({0.0}, {1.0}):
            low, high = wilson_interval(round(n * mean), n, confidence=ONE_SIGMA)
            return (high - low) / 2
        return sqrt(fmean((score - mean) ** 2 for score in self.scores) / n)


def parsed_trials(text: str) -> list[TrialRecord]:
    """The finished trials that a text of JSON holds, in their order.

    Raises:
        ValueError: If a search has not written it so.

    Example:
        >>> parsed_trials('[{"number": 0}]')
        Traceback (most recent call last):
        ...
        ValueError: trial 0 has no `state`
    """
    try:
        rows = json.loads(text)
    except RecursionError:
        raise ValueError("it is too deep") from None
    if not isinstance(rows, list):
        raise ValueError(f"it is no list of trials but {repr(rows)}")
    records = [_record(row, number) for number, row in enumerate(rows)]
    if len(lengths := {len(r.scores) for r in records if r.state == "complete"}) > 1:
        raise ValueError(f"its trials have scores of {sorted(lengths)} images, not of the same")
    return records


def _record(row: Any, number: int) -> TrialRecord:
    where = f"trial {number}"
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {repr(row)}")
    names = [item.name for item in fields(TrialRecord)]
    if absent := [name for name in names if name not in row]:
        raise ValueError(f"{where} has no `{absent[0]}`")
    if unknown := [name for name in row if name not in names]:
        raise ValueError(f"{where} has {repr(unknown[0])}, which is not known")
    good = {
        "number": type(row["number"]) is int and row["number"] == number,
        "state": row["state"] in ENDED,
        "point": _holds(row["point"], lambda _, value: _is_number(value)),
        "bands": _holds(row["bands"], lambda _, band: _is_pair(band) and _are_numbers(band)),
        "phi_learning_rate": _is_number(row["phi_learning_rate"]),
        "rungs": isinstance(row["rungs"], list) and all(map(is_rung, row["rungs"])),
        "scores": _are_numbers(row["scores"])
        and bool(row["scores"]) == (row["state"] == "complete"),
        "seconds": _is_number(row["seconds"]) and row["seconds"] >= 0,
        "memory": _holds(row["memory"], _is_memory),
        "reason": isinstance(row["reason"], str),
    }
    if wrong := [name for name, is_good in good.items() if not is_good]:
        raise ValueError(f"the `{wrong[0]}` of {where} is {repr(row[wrong[0]])}")
    return TrialRecord(
        **{
            **row,
            "bands": {name: (low, high) for name, (low, high) in row["bands"].items()},
            "rungs": tuple((epoch, score) for epoch, score in row["rungs"]),
            "scores": tuple(float(score) for score in row["scores"]),
        }
    )


def is_rung(row: Any) -> bool:
    """Whether a value read from JSON is a number of epochs with the score after them.

    Example:
        >>> is_rung([2, 0.5]), is_rung([2.5, 0.5]), is_rung([2, float("nan")]), is_rung(2)
        (True, False, False, False)
    """
    return _is_pair(row) and type(row[0]) is int and row[0] > 0 and _is_number(row[1])


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= float_info.max


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_number, values))


def _holds(values: Any, is_good: Callable[[str, Any], bool]) -> bool:
    return isinstance(values, dict) and all(is_good(*item) for item in values.items())


def _is_memory(name: str, value: Any) -> bool:
    return not name.startswith(NUMBERS_OF_PRUNER) or _is_number(value)
