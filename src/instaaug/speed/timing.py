"""Timing in turns: what disturbs the machine disturbs all contenders alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["ROUNDS", "Row", "Tables", "compare", "row_of"]

WARM_UP = 3
ROUNDS = 20
SHORTEST_TURN = 0.1  # seconds; what is quicker is repeated within its turn


@dataclass(frozen=True)
class Row:
    """One comparison: ``ratio`` is the median over rounds of (measured / reference).

    Arguments:
        name: What was measured.
        reference: What it was compared with.
        ratio: Median over rounds.
        lower_quartile: Of the ratio.
        upper_quartile: Of the ratio.
        rounds: How many turns each had.
        median_seconds: Of what was measured.
        reference_seconds: Of the reference.
        budget: The largest ratio that is good enough.
    """

    name: str
    reference: str
    ratio: float
    lower_quartile: float
    upper_quartile: float
    rounds: int
    median_seconds: float
    reference_seconds: float
    budget: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the budget is met; a dash where there is none."""
        if self.budget is None:
            return "-"
        return "met" if self.ratio <= self.budget else "MISSED"


Tables = dict[str, list[Row]]
"""Rows by the title of their table."""


def compare(
    contenders: Mapping[str, Callable[[], object]],
    *,
    reference: str,
    budgets: Mapping[str, float] | None = None,
    rounds: int = ROUNDS,
) -> list[Row]:
    """Time all contenders in turns; one row for each but the reference."""
    for _ in range(WARM_UP):
        single = {name: _seconds_of(run, 1) for name, run in contenders.items()}
    repeats = max(1, round(SHORTEST_TURN / single[reference]))
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            seconds[name].append(_seconds_of(run, repeats))
    return [
        row_of(name, times, reference, seconds[reference], (budgets or {}).get(name))
        for name, times in seconds.items()
        if name != reference
    ]


def row_of(
    name: str,
    times: Sequence[float],
    reference: str,
    reference_times: Sequence[float],
    budget: float | None = None,
) -> Row:
    """The row that belongs to the seconds of each round.

    Example:
        >>> row_of("slow", [2.0, 4.0, 9.0], "fast", [1.0, 2.0, 3.0], budget=1.5).verdict
        'MISSED'
    """
    ratios = [t / r for t, r in zip(times, reference_times, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    medians = statistics.median(times), statistics.median(reference_times)
    return Row(name, reference, middle, low, high, len(ratios), *medians, budget)


def _seconds_of(run: Callable[[], object], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats
