"""What can be seen of a run that still trains, read from its folder again and again."""

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict

from instaaug.durations import format_duration
from instaaug.errors import DataError
from instaaug.report.page.content import Curves
from instaaug.report.page.runs import curves_of, headline_of, result_rows
from instaaug.report.records import RunRecord, read_record
from instaaug.report.units import humanize

__all__ = ["LiveFactor", "LiveState", "RunWatcher"]

Status = Literal["waiting", "running", "silent", "finished", "unreadable"]

QUIET_SECONDS = 120.0  # that any run may be silent for
QUIET_EPOCHS = 3.0  # so many times the time of an epoch
SIGNS = ("config.yaml", "environment.json", "data.json", "metrics.csv", "last.ckpt", "samples.png")
"""Files whose changes are signs of life, besides those of loggers."""


class LiveFactor(TypedDict):
    """A part of θ and its entropy band in nats."""

    name: str
    band: list[float]


class LiveState(TypedDict):
    """What the page shows now.

    ``words`` say how far the run is, ``advice`` what to do then.
    """

    name: str
    status: Status
    words: str
    advice: str
    epoch: int
    epochs: int | None
    curves: Curves
    factors: list[LiveFactor]
    is_share: bool
    samples: str  # changes when the picture does; empty if there is none


class RunWatcher:
    """Looks at a run's folder, which may be empty so far, whenever it is asked.

    Time left is told from the epochs seen since watching began, and from the first files of the
    run before any of them has ended.

    Arguments:
        folder: Of the run.
        clock: The time now, in seconds since 1970.
    """

    def __init__(self, folder: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = Path(folder)
        self.samples_file = self.folder / "samples.png"
        self._clock = clock
        self._first_seen: tuple[int, float] | None = None  # epochs done, and when
        self._last_seen: tuple[int, float] | None = None

    def look(self) -> LiveState:
        """The state of the run now; a folder that cannot be read is a state, too."""
        try:
            record = read_record(self.folder)
        except FileNotFoundError:
            words = f"There is no run in {self.folder.name or 'this folder'} yet."
            return self._state("waiting", words, "It appears here when it begins.")
        except DataError as error:
            return self._state("unreadable", "A file of the run cannot be read.", str(error))
        if record.results:
            return self._finished(record)
        return self._training(record)

    def _finished(self, record: RunRecord) -> LiveState:
        command = f"`instaaug report {shlex.quote(str(self.folder))}`"
        advice = f"{command} writes the full report: what was learned for single inputs."
        try:
            words = headline_of(record, result_rows(record))
        except DataError as error:
            return self._state("unreadable", "The results cannot be read.", str(error), record)
        return self._state("finished", words, advice, record)

    def _training(self, record: RunRecord) -> LiveState:
        now, sign = self._clock(), self._last_sign()
        done, total = len(record.history), _epochs(record)
        pace = self._seconds_per_epoch(done)
        silence = 0.0 if sign is None else max(0.0, now - sign)
        of = "" if total is None else f" of {total}"
        words = f"{done}{of} epochs done." if done else "The first epoch is running."
        if silence > max(QUIET_SECONDS, QUIET_EPOCHS * (pace or 0.0)):
            advice = (
                f"The last sign of life was {format_duration(silence)} ago. If the run was "
                f"killed, `instaaug resume {shlex.quote(str(self.folder))}` goes on with it."
            )
            return self._state("silent", words, advice, record)
        if total is not None and done >= total:
            words, advice = f"All {total} epochs are done.", "Scores on test images come next."
        elif pace is None or total is None:
            advice = "Time left is known after the first epoch."
        else:
            within = min(silence, pace)
            left = max(1.0, pace * (total - done) - within)
            advice = f"About {format_duration(left)} left, {format_duration(pace)} per epoch."
        return self._state("running", words, advice, record)

    def _state(
        self, status: Status, words: str, advice: str, record: RunRecord | None = None
    ) -> LiveState:
        history = [] if record is None else record.history
        curves = curves_of(history)
        return {
            "name": self.folder.resolve().name,
            "status": status,
            "words": words,
            "advice": advice,
            "epoch": len(history),
            "epochs": None if record is None else _epochs(record),
            "curves": curves,
            "factors": [
                {"name": humanize(name), "band": list(band)}
                for name, band in ({} if record is None else record.bands).items()
            ],
            "is_share": "validation top-1" in curves["score"],
            "samples": _version(self.samples_file),
        }

    def _last_sign(self) -> float | None:
        files = [self.folder / name for name in SIGNS]
        files += (self.folder / "tensorboard").rglob("events.*")
        return max((at for file in files if (at := _changed(file)) is not None), default=None)

    def _seconds_per_epoch(self, done: int) -> float | None:
        """From what was seen; from the ages of the run's files until an epoch was seen to end."""
        at = _changed(self.folder / "metrics.csv")
        if not done or at is None:
            return None
        if self._first_seen is None or done < self._first_seen[0]:  # or begun anew
            self._first_seen = self._last_seen = (done, at)
        if self._last_seen is None or done > self._last_seen[0]:
            self._last_seen = (done, at)
        (first, start), (last, end) = self._first_seen, self._last_seen
        if last > first:
            return (end - start) / (last - first)
        begun = _changed(self.folder / "data.json")
        return None if begun is None or begun >= at else (at - begun) / done


def _epochs(record: RunRecord) -> int | None:
    total = record.config.get("trainer.max_epochs")
    return total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else None


def _changed(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _version(file: Path) -> str:
    try:
        return f"{file.stat().st_mtime_ns:x}"
    except OSError:
        return ""
