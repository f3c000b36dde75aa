"""Runs of a comparison that train nothing."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from instaaug.compare.runner import Outcome
from instaaug.compare.state import Failure

__all__ = ["FakeRun", "Fleet"]


class FakeRun:
    """Works for two looks, then ends as told."""

    def __init__(self, folder: Path, fleet: "Fleet") -> None:
        self.folder, self.fleet, self.n_looks = folder, fleet, 0
        self.stops: list[bool] = []

    def outcome(self) -> Outcome | None:
        self.n_looks += 1
        if self.fleet.on_look is not None:
            self.fleet.on_look(self)
        if self.stops and self.fleet.obeys(self):
            return self._end(Outcome("stopped"))
        if self.n_looks <= 2:
            return None
        name = f"{self.folder.parent.name}/{self.folder.name}"
        if name in self.fleet.failing:
            return self._end(Outcome("failed", self.fleet.failing[name]))
        if name not in self.fleet.silent:
            score = {"top1": self.fleet.score, "n": 10}
            results = {"split_hash": self.fleet.images.get(name, "a"), "test": {"plain": score}}
            (self.folder / "results.json").write_text(json.dumps(results))
        return self._end(Outcome("done"))

    def stop(self, *, at_once: bool = False) -> None:
        self.stops.append(at_once)

    def _end(self, outcome: Outcome) -> Outcome:
        with suppress(ValueError):
            self.fleet.at_work.remove(self)
        return outcome


class Fleet:
    """Starts fake runs and remembers which."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.at_work: list[FakeRun] = []
        self.all: list[FakeRun] = []
        self.most_at_work = 0
        self.failing: dict[str, Failure] = {}
        self.silent: set[str] = set()
        self.score = 0.5
        self.images: dict[str, str] = {}  # of those with a split of their own
        self.on_look: Callable[[FakeRun], None] | None = None
        self.obeys: Callable[[FakeRun], bool] = lambda _: True

    def __call__(self, folder: Path) -> FakeRun:
        run = FakeRun(folder, self)
        self.started.append(f"{folder.parent.name}/{folder.name}")
        self.at_work.append(run)
        self.all.append(run)
        self.most_at_work = max(self.most_at_work, len(self.at_work))
        return run
