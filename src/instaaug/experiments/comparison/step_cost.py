"""What a training step of each contender costs, as a ratio to one without augmentation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import NamedTuple

from instaaug.errors import ArgumentError, DataError, ShapeError, UnknownNameError
from instaaug.experiments.comparison.step_times import StepTimes, timed_steps
from instaaug.experiments.config import TrainConfig

__all__ = ["Cost", "cost_of", "measured_costs"]

PER_ROUND = 3  # steps: methods with a search do it every third one
N_TOGETHER = 6  # contenders whose models are in memory at a time
SLIPS = (ArgumentError, DataError, ShapeError, UnknownNameError)


class Cost(NamedTuple):
    """A ratio to the plainest method, over rounds.

    Arguments:
        median: In half of the rounds it was less.
        low: The lower quartile.
        high: The upper quartile.
    """

    median: float
    low: float
    high: float


def measured_costs(configs: Mapping[str, TrainConfig]) -> dict[str, Cost]:
    """Time real training steps of contenders and of the plainest method, in turns.

    Arguments:
        configs: Settings by label.

    Returns:
        By label; without those that failed, which their runs will tell.

    Raises:
        ArgumentError: If the settings of a contender cannot work with these images.
    """
    labels = list(configs)
    costs = {}
    for first in range(0, len(labels), N_TOGETHER):
        group = {label: configs[label] for label in labels[first : first + N_TOGETHER]}
        some = next(iter(group.values()))
        times = timed_steps({"": replace(some, method="none", options=""), **group})
        _check(times)
        for label in group:
            if times[label].error is None:
                costs[label] = cost_of(times[label].seconds, times[""].seconds)
    return costs


def cost_of(seconds: Sequence[float], plainest: Sequence[float]) -> Cost:
    """The ratio of steps that were timed in turns, three at a time.

    Example:
        >>> cost_of([1, 1, 4] * 8, [1, 1, 1] * 8)  # a search in every third step
        Cost(median=2.0, low=2.0, high=2.0)
    """
    n = min(len(seconds), len(plainest))
    size = min(PER_ROUND, n)
    ratios = [
        sum(seconds[i : i + size]) / sum(plainest[i : i + size])
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
