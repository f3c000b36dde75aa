"""What a table or figure of the paper is: how it is measured, what it needs, what came out.

A module of an exhibit ends with its :class:`Exhibit`; ``paper.catalog`` lists them all, and
``python -m paper NAME`` measures one. Scores are in the unit of the paper's own table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from instaaug.errors import InstaAugError
from instaaug.stats import mean_and_standard_error

__all__ = ["SCALES", "Exhibit", "Findings", "MissingData", "Plan", "Row", "Scale", "Score"]

Scale = Literal["laptop", "paper"]
SCALES: tuple[Scale, ...] = ("laptop", "paper")


class MissingData(InstaAugError):  # noqa: N818  # nothing is wrong: an exhibit is skipped
    """An exhibit needs data or packages that are not there."""


@dataclass(frozen=True)
class Score:
    """A number of a table.

    Arguments:
        mean: Over runs.
        error: Standard error of the mean over runs; None if there is one run or none is known.
        runs: How many there are; None if the paper does not say.

    Example:
        >>> Score.of([64.0, 66.0])
        Score(mean=65.0, error=1.0, runs=2)
    """

    mean: float
    error: float | None = None
    runs: int | None = None

    @classmethod
    def of(cls, scores: Sequence[float]) -> "Score":
        """The score of several runs."""
        mean, error = mean_and_standard_error(scores)
        return cls(mean, error if len(scores) > 1 else None, len(scores))


@dataclass(frozen=True)
class Row:
    """A line of a table: the paper's numbers and ours, one per column.

    Arguments:
        name: What the paper calls it; ours where the paper has no such line.
        ours: What we measured; None where nothing was.
        paper: What the paper reports; None where it reports nothing.
        group: Lines are drawn between groups.
    """

    name: str
    ours: tuple[Score | None, ...]
    paper: tuple[Score | None, ...]
    group: int = 0


@dataclass(frozen=True)
class Findings:
    """What was measured for an exhibit.

    Arguments:
        columns: Names of the columns of scores.
        rows: In the paper's order.
        setting: The data, the model, the training, in a sentence.
        unit: Of scores, for example ``"accuracy (%)"``.
        seconds: Of all runs together, by the clock where they were processes of their own.
        notes: What the reader must know of single numbers.
        pictures: Files, which the exhibit has drawn.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    setting: str
    unit: str = "accuracy (%)"
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    pictures: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Plan:
    """How an exhibit is to be measured.

    Arguments:
        scale: What two cores can afford, or what the paper did.
        seeds: Runs per line of the table.
        folder: For runs and pictures; what is finished in it is not run again.
        overrides: Further options of ``instaaug``, as typed, over those of the exhibit.
    """

    scale: Scale
    seeds: int
    folder: Path
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper.

    Arguments:
        name: On the command line.
        title: The paper's own name and what it shows.
        measure: Runs what is missing and returns what was found. Raises
            :class:`MissingData` where data are missing.
        needs: Data, by scale.
        hours: Of two cores, or of the accelerator that the paper names, by scale.
        seeds: Runs per line if nothing else is asked for, by scale.
        differs: In which ways the laptop's setting is not the paper's.
        verdict: One honest sentence on what the laptop's numbers say of the paper's claim.
    """

    name: str
    title: str
    measure: Callable[[Plan], Findings]
    needs: Mapping[Scale, str]
    hours: Mapping[Scale, float]
    seeds: Mapping[Scale, int] = field(default_factory=lambda: {"laptop": 3, "paper": 10})
    differs: tuple[str, ...] = ()
    verdict: str = ""
