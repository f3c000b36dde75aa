"""How many epochs fit into a time, by timing a few steps of training without augmentation."""

import re
from math import floor
from statistics import median

from instaaug.compare.step_times import plainest, timed_steps
from instaaug.errors import ArgumentError
from instaaug.runs.settings import TrainSettings

__all__ = ["epochs_in", "measured_epoch", "seconds_of", "words_of"]

DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(budget: str) -> float:
    """A time in seconds, from words.

    Example:
        >>> seconds_of("90s"), seconds_of("1h30m"), seconds_of("1.5h")
        (90.0, 5400.0, 5400.0)
    """
    text = "".join(budget.lower().split())
    parts = DURATION.findall(text)
    total = sum(float(number) * SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not total:
        raise ArgumentError(f"`budget` must be a time like 90s, 10m or 1h30m: got {budget!r}.")
    return total


def words_of(seconds: float) -> str:
    """A time in words, for people.

    Example:
        >>> words_of(42.0), words_of(600.0), words_of(9000.0), words_of(2e5)
        ('42 s', '10 min', '2.5 h', '2.3 days')
    """
    for unit, least in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * least:
            return f"{seconds / least:.2g} {unit}"
    return f"{seconds:.0f} s"


def epochs_in(seconds: float, epoch_seconds: float) -> int:
    """The most epochs that fit; one at least.

    Example:
        >>> epochs_in(60.0, epoch_seconds=7.0), epochs_in(60.0, epoch_seconds=99.0)
        (8, 1)
    """
    return max(1, floor(seconds / epoch_seconds))


def measured_epoch(config: TrainSettings) -> float:
    """The seconds of an epoch without augmentation, from a few steps of it."""
    times = timed_steps({"none": plainest(config)})["none"]
    if times.error is not None:
        raise times.error
    return median(times.seconds) * times.steps_per_epoch
