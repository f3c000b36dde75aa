"""What a comparison keeps on disk: its plan, what went wrong, and who is at work."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from instaaug.compare.labels import check_labels
from instaaug.errors import ArgumentError, DataError, InstaAugError
from instaaug.files import lock_folder, write_text
from instaaug.runs.settings import TrainSettings
from instaaug.safe_files import read_json

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

WITHOUT_EFFECT = {  # on a result
    "trainer.threads",
    "trainer.log_every_n_steps",
    "trainer.checkpoint_minutes",
    "data.cache_dir",
}
SECONDS_BETWEEN = 0.2


@dataclass(frozen=True)
class ComparisonState:
    """What ``comparison.json`` says; it grows when contenders or seeds are added.

    Arguments:
        settings: Those that all contenders share, the epochs among them.
        contenders: By label, settings over those.
        seeds: By label, those of the runs that were asked for.
        budget: The training time of a run that the epochs were chosen for; None if they were
            given.
        epoch_seconds: Time of an epoch without augmentation, where it was measured.
        costs: By label, the cost of a training step as a ratio, with quartiles.
        reference: Label of the contender that was named to compare with.
        reference_named_after: Runs that had ended when it was named, if any had.
    """

    settings: Mapping[str, Any]
    contenders: Mapping[str, Mapping[str, Any]]
    seeds: Mapping[str, list[int]]
    budget: str | None = None
    epoch_seconds: float | None = None
    costs: Mapping[str, list[float]] = field(default_factory=dict)
    reference: str | None = None
    reference_named_after: int | None = None

    def joined(self, later: "ComparisonState") -> "ComparisonState":
        """The same with what a later call adds; raise if that has other settings."""
        check_same(
            TrainSettings.from_mapping(self.settings, source="comparison.json"),
            TrainSettings.from_mapping(later.settings),
            without=("method.", "seed"),
            what="the comparison that is there",
        )
        contenders = {**self.contenders, **later.contenders}
        check_labels(contenders)
        seeds = {
            label: sorted({*self.seeds.get(label, ()), *later.seeds.get(label, ())})
            for label in contenders
        }
        costs = {  # settings that have changed cost something else
            label: cost
            for label, cost in self.costs.items()
            if contenders[label] == self.contenders[label]
        }
        return replace(self, contenders=contenders, seeds=seeds, costs={**costs, **later.costs})

    @property
    def every_seed(self) -> list[int]:
        """The seeds of all contenders."""
        return sorted({seed for seeds in self.seeds.values() for seed in seeds})


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
    there: TrainSettings, wanted: TrainSettings, *, what: str, without: tuple[str, ...] = ()
) -> None:
    """Raise, and name the setting, if two runs would not give the same result.

    Arguments:
        there: Settings on disk.
        wanted: Settings that were asked for.
        what: What has the first ones.
        without: First letters of the names of settings that may differ.
    """
    kept, asked = there.flatten(), wanted.flatten()
    names = {*kept, *asked} - WITHOUT_EFFECT
    for name in sorted(name for name in names if not name.startswith(without)):
        if kept.get(name) != asked.get(name):
            raise ArgumentError(
                f"`{name}` must be {kept.get(name)!r} as in {what}: got {asked.get(name)!r}. "
                "Choose another folder for other settings."
            )


def read_state(out: Path) -> ComparisonState | None:
    """What is known of the comparison in a folder; None if there is none."""
    path = out / "comparison.json"
    if not path.is_file():
        return None
    try:
        return _as_written(read_json(path))
    except (InstaAugError, TypeError) as error:
        words = str(error).rstrip(".")
        raise DataError(
            f"{str(path)!r} must be as `instaaug compare` wrote it: {words}. Restore it, or "
            "choose another folder."
        ) from None


def write_state(out: Path, state: ComparisonState) -> None:
    """Write ``comparison.json``."""
    _write_json(out / "comparison.json", asdict(state))


def read_failure(folder: Path) -> Failure | None:
    """Why the run in a folder failed; None if it has not."""
    path = folder / "failure.json"
    if not path.exists():
        return None
    try:
        content = read_json(path)
    except DataError as error:
        return Failure(str(error), [])
    sentence, log = content.get("sentence"), content.get("log")
    if not isinstance(sentence, str):
        return Failure(f"It failed, and {str(path)!r} does not say why.", [])
    return Failure(sentence, [str(line) for line in log] if isinstance(log, list) else [])


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
                stack.enter_context(lock_folder(folder))
                break
            except ArgumentError:
                if time.monotonic() >= until:
                    raise ArgumentError(words) from None
            time.sleep(SECONDS_BETWEEN)
        yield


def _as_written(content: dict[str, Any]) -> ComparisonState:
    """The state that a file holds; raise unless everything in it has its kind."""
    contenders, seeds = content.get("contenders"), content.get("seeds")
    seconds = content.get("epoch_seconds")
    if isinstance(seeds, list) and isinstance(contenders, dict):  # once the same for all
        content = {**content, "seeds": dict.fromkeys(contenders, seeds)}
    for name, is_right in (
        ("settings", isinstance(content.get("settings"), dict)),
        ("contenders", _is_mapping(contenders, _is_contender)),
        ("seeds", _is_mapping(content.get("seeds"), _are_seeds)),
        ("budget", isinstance(content.get("budget"), str | None)),
        ("epoch_seconds", seconds is None or _is_positive(seconds)),
        ("costs", _is_mapping(content.get("costs", {}), _is_cost)),
        ("reference", isinstance(content.get("reference"), str | None)),
        ("reference_named_after", isinstance(content.get("reference_named_after"), int | None)),
    ):
        if not is_right:
            raise DataError(f"its `{name}` are damaged")
    state = ComparisonState(**content)
    if not state.contenders or state.seeds.keys() != state.contenders.keys():
        raise DataError("its `seeds` are not those of its `contenders`")
    if not {*state.costs, state.reference or min(state.contenders)} <= state.contenders.keys():
        raise DataError("its `costs` or its `reference` are of none of its `contenders`")
    check_labels(state.contenders)
    TrainSettings.from_mapping(state.settings, source="comparison.json")
    return state


def _is_mapping(value: Any, is_right: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(map(is_right, value.values()))


def _is_contender(value: Any) -> bool:
    return isinstance(value, dict) and "method" in value


def _are_seeds(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(seed) is int for seed in value)


def _is_cost(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_positive, value))


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < inf


def _write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
