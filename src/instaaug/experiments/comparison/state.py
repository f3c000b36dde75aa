"""What a comparison keeps on disk: its plan, what went wrong, and who is at work."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from instaaug.errors import ArgumentError, DataError
from instaaug.experiments.config import TrainConfig, read_config
from instaaug.files import write_text
from instaaug.frozen.table_store import claimed
from instaaug.report.records.record_files import read_json

__all__ = [
    "ComparisonState",
    "Failure",
    "check_same",
    "claimed_by_one",
    "read_failure",
    "read_state",
    "write_failure",
    "write_state",
]

WITHOUT_EFFECT = {"threads", "log_every", "checkpoint_minutes", "cache_dir"}  # on a result
OWN = {"method", "seed"}  # of each run
SECONDS_BETWEEN = 0.2


@dataclass(frozen=True)
class ComparisonState:
    """What ``comparison.json`` says; it grows when contenders or seeds are added.

    Arguments:
        settings: Those that all contenders share, the epochs among them.
        contenders: By label, settings over those.
        seeds: Of the runs of each contender.
        budget: The training time of a run that the epochs were chosen for; None if they were
            given.
        epoch_seconds: Time of an epoch without augmentation, where it was measured.
        costs: By label, the cost of a training step as a ratio: median and quartiles.
    """

    settings: Mapping[str, Any]
    contenders: Mapping[str, Mapping[str, Any]]
    seeds: list[int]
    budget: str | None = None
    epoch_seconds: float | None = None
    costs: Mapping[str, list[float]] = field(default_factory=dict)

    def joined(self, later: "ComparisonState") -> "ComparisonState":
        """The same with what a later call adds; raise if that has other settings."""
        check_same(
            read_config(self.settings, source="comparison.json"),
            read_config(later.settings),
            without=OWN,
            what="the comparison that is there",
        )
        return ComparisonState(
            settings=self.settings,
            contenders={**self.contenders, **later.contenders},
            seeds=sorted({*self.seeds, *later.seeds}),
            budget=self.budget,
            epoch_seconds=self.epoch_seconds,
            costs={**self.costs, **later.costs},
        )


@dataclass(frozen=True)
class Failure:
    """Why a run has no result.

    Arguments:
        sentence: In a sentence.
        log: The last lines that it printed.
    """

    sentence: str
    log: list[str]


def check_same(
    there: TrainConfig, wanted: TrainConfig, *, what: str, without: set[str] | None = None
) -> None:
    """Raise, and name the setting, if two runs would not give the same result.

    Arguments:
        there: Settings on disk.
        wanted: Settings that were asked for.
        what: What has the first ones.
        without: Settings that may differ.
    """
    kept, asked = there.to_dict(), wanted.to_dict()
    for name in kept.keys() - WITHOUT_EFFECT - (without or set()):
        if kept[name] != asked[name]:
            raise ArgumentError(
                f"`{name}` must be {kept[name]!r} as in {what}: got {asked[name]!r}. Choose "
                "another folder for other settings."
            )


def read_state(out: Path) -> ComparisonState | None:
    """What is known of the comparison in a folder; None if there is none."""
    path = out / "comparison.json"
    if not path.is_file():
        return None
    content = read_json(path)
    try:
        return ComparisonState(**content)
    except TypeError as error:
        raise DataError(
            f"{str(path)!r} must be as `instaaug compare` wrote it: {error}. Restore it, or "
            "choose another folder."
        ) from None


def write_state(out: Path, state: ComparisonState) -> None:
    """Write ``comparison.json``."""
    _write_json(out / "comparison.json", asdict(state))


def read_failure(folder: Path) -> Failure | None:
    """Why the run in a folder failed; None if it has not."""
    path = folder / "failure.json"
    if not path.is_file():
        return None
    content = read_json(path)
    return Failure(str(content.get("sentence")), [str(line) for line in content.get("log", [])])


def write_failure(folder: Path, failure: Failure) -> None:
    """Write ``failure.json``."""
    _write_json(folder / "failure.json", asdict(failure))


@contextmanager
def claimed_by_one(folder: Path, *, words: str, seconds: float = 0.0) -> Iterator[None]:
    """Keep others from working in a folder; whoever dies gives it up.

    Arguments:
        folder: The folder.
        words: The error if another one works there.
        seconds: How long to wait for that other one.
    """
    until = time.monotonic() + seconds
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(claimed(folder))
                break
            except ArgumentError:
                if time.monotonic() >= until:
                    raise ArgumentError(words) from None
            time.sleep(SECONDS_BETWEEN)
        yield


def _write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
