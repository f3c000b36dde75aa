"""What a training step of each contender costs, as a ratio to one without augmentation."""

from collections.abc import Mapping, Sequence
from math import ceil
from statistics import median, quantiles
from typing import NamedTuple

from instaaug.compare.step_times import StepTimes, plainest, timed_steps
from instaaug.errors import ArgumentError, DataError, ShapeError, UnknownNameError
from instaaug.runs.settings import TrainSettings

__all__ = ["Cost", "cost_of", "measured_costs"]

LEAST_IN_ROUND = 3  # steps
N_TOGETHER = 6  # contenders whose models are in memory at a time
SLIPS = (ArgumentError, DataError, ShapeError, UnknownNameError)


class Cost(NamedTuple):
    """A ratio to the plainest method.

    Arguments:
        median: Over rounds: in half of them it was less.
        low: The lower quartile.
        high: The upper quartile.
    """

    median: float
    low: float
    high: float


def measured_costs(configs: Mapping[str, TrainSettings], base: TrainSettings) -> dict[str, Cost]:
    """Time real training steps of contenders and of the plainest method, in turns.

    Arguments:
        configs: Settings by label.
        base: The settings that all share, with which the plainest method is timed.

    Returns:
        By label; without those that failed, which their runs will tell, and those too slow for
        one search.

    Raises:
        ArgumentError: If the settings of a contender cannot work with these images.
    """
    labels = list(configs)
    costs = {}
    for first in range(0, len(labels), N_TOGETHER):
        group = {label: configs[label] for label in labels[first : first + N_TOGETHER]}
        times = timed_steps({"": plainest(base), **group})
        _check(times)
        for label in group:
            found = times[label]
            if found.error is None and len(found.seconds) >= found.period:
                costs[label] = cost_of(found.seconds, times[""].seconds, period=found.period)
    return costs


def cost_of(seconds: Sequence[float], without: Sequence[float], *, period: int = 1) -> Cost:
    """The ratio of steps that were timed in turns, over rounds of whole periods.

    Arguments:
        seconds: Of the steps of a method.
        without: Of the steps without any method.
        period: Steps after which the method's work repeats.

    Example:
        >>> cost_of(
        ...     [1.0, 1.0, 1.0, 5.0] * 6, [1.0] * 24, period=4
        ... )  # a search in every fourth step
        Cost(median=2.0, low=2.0, high=2.0)
    """
    n = min(len(seconds), len(without))
    size = min(period * ceil(LEAST_IN_ROUND / period), n - n % period) or n
    ratios = [
        sum(seconds[i : i + size]) / sum(without[i : i + size])
        for i in range(0, n - size + 1, size)
    ]
    low, _, high = quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
    return Cost(median(ratios), low, high)


def _check(times: Mapping[str, StepTimes]) -> None:
    plainest = times[""].error
    if plainest is not None:
        raise plainest  # nothing can be trained
    for label, found in times.items():
        if isinstance(found.error, SLIPS):
            raise ArgumentError(f"{found.error} (the contender {label})") from found.error
