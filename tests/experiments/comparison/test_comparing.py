"""Which runs are started, when, and what becomes of those that fail or are interrupted."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from instaaug.errors import ArgumentError, DataError
from instaaug.experiments.comparison.child_run import ChildRun, Outcome, last_lines
from instaaug.experiments.comparison.comparing import compare
from instaaug.experiments.comparison.contenders import Contender, read_contenders
from instaaug.experiments.comparison.results import read_comparison, write_tables
from instaaug.experiments.comparison.standings import Standing
from instaaug.experiments.comparison.state import (
    Failure,
    claimed_by_one,
    read_failure,
    read_state,
)
from instaaug.experiments.config import TrainConfig
from instaaug.experiments.run_directory import RunDirectory
from instaaug.tasks import Interrupted

BASE = TrainConfig(epochs=3)
NAN = Failure("The loss became NaN.", ["epoch 1", "failed: The loss became NaN."])


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.experiments.comparison.comparing.SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("instaaug.experiments.comparison.comparing._n_processors", lambda: 8)
    monkeypatch.setattr("instaaug.experiments.run_directory.environment", dict)


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
            results = json.dumps({"test": {"plain": score}})
            (self.folder / "results.json").write_text(results)
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
        self.on_look: Callable[[FakeRun], None] | None = None
        self.obeys: Callable[[FakeRun], bool] = lambda _: True

    def __call__(self, folder: Path) -> FakeRun:
        run = FakeRun(folder, self)
        self.started.append(f"{folder.parent.name}/{folder.name}")
        self.at_work.append(run)
        self.all.append(run)
        self.most_at_work = max(self.most_at_work, len(self.at_work))
        return run


def contenders(words: str = "none,random") -> list[Contender]:
    return read_contenders(words, BASE)


def statuses(standings: Sequence[Standing]) -> dict[str, str]:
    return {f"{s.label}/{s.seed}": s.status for s in standings}


# The order of things


def test_all_contenders_run_with_a_seed_before_the_next(tmp_path: Path) -> None:
    fleet = Fleet()
    ended = compare(BASE, contenders(), [0, 1], tmp_path, start=fleet)
    assert fleet.started == ["none/seed_0", "random/seed_0", "none/seed_1", "random/seed_1"]
    assert fleet.most_at_work == 1
    assert {s.status for s in ended} == {"done"}
    assert [s.score.value for s in ended if s.score] == [0.5] * 4


def test_each_run_has_its_own_settings(tmp_path: Path) -> None:
    compare(BASE, contenders(), [0, 4], tmp_path, start=Fleet())
    config = RunDirectory(tmp_path / "random" / "seed_4").read_config()
    assert config == replace(BASE, method="random", seed=4)


@pytest.mark.parametrize(("jobs", "threads"), [(2, 4), (3, 2), (9, 1)])
def test_jobs_share_the_processors(tmp_path: Path, jobs: int, threads: int) -> None:
    fleet = Fleet()
    compare(BASE, contenders(), range(6), tmp_path, jobs=jobs, start=fleet)
    assert fleet.most_at_work == jobs
    assert len(fleet.started) == 12
    assert RunDirectory(tmp_path / "none" / "seed_5").read_config().threads == threads


def test_every_change_is_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def epoch_done(run: FakeRun) -> None:
        (run.folder / "metrics.csv").write_text("epoch,step\n" + "0,1\n" * run.n_looks)

    fleet = Fleet()
    fleet.on_look = epoch_done
    compare(
        BASE, contenders("none"), [0], tmp_path, start=fleet,
        on_change=lambda runs: seen.append(f"{runs[0].status} {runs[0].epoch}"),
    )  # fmt: skip
    assert seen == ["waiting 0", "running 1", "running 2", "done 3"]


@pytest.mark.parametrize("numbers", [{"jobs": 0, "seeds": [0]}, {"jobs": 1, "seeds": []}])
def test_nothing_to_do_is_refused(tmp_path: Path, numbers: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="`jobs` and `seeds` must be at least 1"):
        compare(BASE, contenders(), out=tmp_path, start=Fleet(), **numbers)  # type: ignore[arg-type]


# Called again


def test_finished_runs_are_kept_and_interrupted_ones_go_on(tmp_path: Path) -> None:
    first, second = Fleet(), Fleet()
    compare(BASE, contenders("none"), [0], tmp_path, start=first)
    half = RunDirectory(tmp_path / "random" / "seed_0")
    half.start(replace(BASE, method="random"))
    (half.path / "last.ckpt").write_text("a checkpoint")
    (half.path / ".last.ckpt.0123.part").write_text("half a checkpoint")
    second.score = 0.9
    ended = compare(BASE, contenders(), [0], tmp_path, start=second)
    assert second.started == ["random/seed_0"]
    assert (half.path / "last.ckpt").read_text() == "a checkpoint"
    assert not list(half.path.glob("*.part")) + list(half.path.glob(".*.part"))
    assert [s.score.value for s in ended if s.score] == [0.5, 0.9]


def test_a_folder_without_settings_begins_from_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "none" / "seed_0"
    folder.mkdir(parents=True)
    (folder / ".config.yaml.0123.part").write_text("data: spr")
    (folder / "log.txt").write_text("")
    compare(BASE, contenders("none"), [0], tmp_path, start=Fleet())
    assert RunDirectory(folder).read_config() == replace(BASE, method="none")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(BASE, learning_rate=0.1), "`learning_rate` must be 0.001 as in the comparison"),
        (replace(BASE, epochs=4), "`epochs` must be 3 as in the comparison .*: got 4"),
    ],
)
def test_other_settings_in_the_same_folder_are_named(
    tmp_path: Path, changed: TrainConfig, words: str
) -> None:
    compare(BASE, contenders(), [0], tmp_path, start=Fleet())
    fleet = Fleet()
    with pytest.raises(ArgumentError, match=words):
        compare(changed, contenders(), [0], tmp_path, start=fleet)
    assert fleet.started == []


def test_a_label_means_the_same_for_all_seeds_even_those_not_asked_for(tmp_path: Path) -> None:
    mine = [Contender("mine", {"method": "random", "sizes": [0.5, 1.0]})]
    other = [Contender("mine", {"method": "random", "sizes": [0.6, 1.0]})]
    compare(BASE, mine, [0], tmp_path, start=Fleet())
    before = read_state(tmp_path)
    with pytest.raises(ArgumentError, match=r"`sizes` must be \[0.5, 1.0\] as in the run .*mine"):
        compare(BASE, other, [1], tmp_path, start=Fleet())
    assert read_state(tmp_path) == before


def test_what_has_no_effect_on_results_may_change(tmp_path: Path) -> None:
    compare(BASE, contenders(), [0], tmp_path, start=Fleet())
    fleet = Fleet()
    other = replace(BASE, threads=3, log_every=7, checkpoint_minutes=1.0, cache_dir="elsewhere")
    compare(other, contenders(), [0, 1], tmp_path, start=fleet, jobs=2)
    assert fleet.started == ["none/seed_1", "random/seed_1"]


def test_more_methods_and_seeds_join_what_is_there(tmp_path: Path) -> None:
    compare(BASE, contenders("none"), [0, 1], tmp_path, start=Fleet())
    fleet = Fleet()
    compare(BASE, contenders("random"), [1, 2], tmp_path, start=fleet)
    assert fleet.started == ["random/seed_1", "random/seed_2"]
    state = read_state(tmp_path)
    assert state is not None
    assert list(state.contenders) == ["none", "random"]
    assert state.seeds == [0, 1, 2]
    counts = {m.runs.name: len(m.runs.scores) for m in read_comparison(tmp_path).methods}
    assert counts == {"none": 2, "random": 2}


def test_a_damaged_note_says_so(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text('{"seeds": [0]}')
    with pytest.raises(DataError, match=r"must be as `instaaug compare` wrote it: .*settings"):
        compare(BASE, contenders(), [0], tmp_path, start=Fleet())


# Failures


def test_a_failure_is_noted_and_stops_no_other(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.failing = {"none/seed_0": NAN}
    ended = compare(BASE, contenders(), [0, 1], tmp_path, start=fleet)
    assert statuses(ended) == {
        "none/0": "failed", "random/0": "done", "none/1": "done", "random/1": "done"
    }  # fmt: skip
    assert ended[0].sentence == NAN.sentence
    assert read_failure(tmp_path / "none" / "seed_0") == NAN
    write_tables(tmp_path, read_comparison(tmp_path))
    assert NAN.sentence.rstrip(".") in (tmp_path / "leaderboard.md").read_text()


def test_what_failed_is_run_again_only_if_asked_and_then_from_its_beginning(
    tmp_path: Path,
) -> None:
    fleet = Fleet()
    fleet.failing = {"none/seed_0": NAN}
    compare(BASE, contenders(), [0], tmp_path, start=fleet)
    (tmp_path / "none" / "seed_0" / "last.ckpt").write_text("a checkpoint")
    again = Fleet()
    ended = compare(BASE, contenders(), [0], tmp_path, start=again)
    assert again.started == []
    assert statuses(ended)["none/0"] == "failed"
    ended = compare(BASE, contenders(), [0], tmp_path, start=again, retry=True)
    assert again.started == ["none/seed_0"]
    assert statuses(ended)["none/0"] == "done"
    left = {file.name for file in (tmp_path / "none" / "seed_0").iterdir()}
    assert left == {"config.yaml", "environment.json", "results.json"}


def test_what_failed_may_begin_again_with_other_settings(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.failing = {"mine/seed_0": NAN}
    hot, cold = (
        [Contender("mine", {"method": "random", "learning_rate": rate})] for rate in (9.0, 0.1)
    )
    compare(BASE, hot, [0], tmp_path, start=fleet)
    with pytest.raises(ArgumentError, match=r"`learning_rate` must be 9\.0"):
        compare(BASE, cold, [0], tmp_path, start=Fleet())
    compare(BASE, cold, [0], tmp_path, start=Fleet(), retry=True)
    assert RunDirectory(tmp_path / "mine" / "seed_0").read_config().learning_rate == 0.1
    state = read_state(tmp_path)
    assert state is not None
    assert state.contenders["mine"]["learning_rate"] == 0.1


def test_an_end_without_a_result_is_a_failure(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.silent = {"none/seed_0"}
    ended = compare(BASE, contenders(), [0], tmp_path, start=fleet)
    assert ended[0].sentence == "It ended without a result."
    assert ended[1].status == "done"


def test_a_score_that_is_no_number_is_a_failure(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.score = float("nan")
    ended = compare(BASE, contenders("none"), [0], tmp_path, start=fleet)
    assert ended[0].status == "failed"
    assert "its top1 is nan, no finite number" in ended[0].sentence


# Interruptions


def interrupting(number: int, looks: Sequence[int]) -> Callable[[FakeRun], None]:
    """Send a signal to this process at certain looks at the first run."""
    n_looks = 0

    def on_look(run: FakeRun) -> None:
        nonlocal n_looks
        n_looks += run is run.fleet.all[0]
        if run is run.fleet.all[0] and n_looks in looks:
            os.kill(os.getpid(), number)

    return on_look


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_wish_to_stop_is_passed_on_once_and_the_same_call_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    fleet = Fleet()
    fleet.on_look = interrupting(number, [1])
    with pytest.raises(Interrupted, match=f"Stopped by {number.name} with 0 of 4 runs finished"):
        compare(BASE, contenders(), [0, 1], tmp_path, start=fleet, jobs=2)
    assert fleet.started == ["none/seed_0", "random/seed_0"]
    assert [run.stops for run in fleet.all] == [[False], [False]]
    assert signal.getsignal(number) == before
    again = Fleet()
    ended = compare(BASE, contenders(), [0, 1], tmp_path, start=again, jobs=2)
    assert len(again.started) == 4
    assert {s.status for s in ended} == {"done"}


def test_a_second_wish_ends_runs_at_once(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.on_look = interrupting(signal.SIGINT, [1, 2])
    fleet.obeys = lambda run: True in run.stops
    with pytest.raises(Interrupted):
        compare(BASE, contenders(), [0], tmp_path, start=fleet)
    assert fleet.all[0].stops == [False, True]


def test_a_run_that_ends_while_asked_to_stop_counts(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.on_look = interrupting(signal.SIGINT, [2])
    fleet.obeys = lambda _: False
    ended = compare(BASE, contenders("none"), [0], tmp_path, start=fleet)
    assert ended[0].status == "done"


def test_an_error_of_our_own_leaves_nobody_at_work(tmp_path: Path) -> None:
    fleet = Fleet()

    def broken(runs: Sequence[Standing]) -> None:
        if runs[0].status == "running":
            raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="the terminal is gone"):
        compare(BASE, contenders(), [0], tmp_path, start=fleet, jobs=2, on_change=broken)
    assert [run.stops for run in fleet.all] == [[False], [False]]
    assert fleet.at_work == []


# Processes


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildRun]:
    RunDirectory(tmp_path).start(BASE)
    run = ChildRun(tmp_path)
    yield run
    run.stop(at_once=True)
    run.process.wait()
    run.outcome()


def test_a_process_that_the_system_kills_has_failed(child: ChildRun) -> None:
    assert child.outcome() is None
    child.process.send_signal(signal.SIGKILL)
    child.process.wait()
    outcome = child.outcome()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.sentence == (
        "It was ended by SIGKILL. Systems do that where memory runs out."
    )


@pytest.mark.parametrize("at_once", [False, True])
def test_a_process_that_we_end_has_stopped(child: ChildRun, at_once: bool) -> None:
    child.stop(at_once=at_once)
    child.process.wait()
    assert child.outcome() == Outcome("stopped")


def test_the_end_of_a_log_is_plain_text(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    lines = [f"epoch {i}" for i in range(100)]
    log.write_bytes("\n".join(["\x1b[1mbold\x1b[0m", *lines, "a\rb", "\xff"]).encode("latin-1"))
    assert last_lines(log)[-4:] == ["epoch 99", "a", "b", "�"]
    assert len(last_lines(log)) == 20


def test_one_folder_is_claimed_by_one(tmp_path: Path) -> None:
    with claimed_by_one(tmp_path, words="in use"):
        with (
            pytest.raises(ArgumentError, match="in use"),
            claimed_by_one(tmp_path, words="in use"),
        ):
            pass
        (tmp_path / "sub").mkdir()
        with claimed_by_one(tmp_path / "sub", words="in use"):
            pass
    with claimed_by_one(tmp_path, words="in use"):
        pass


def test_an_error_within_a_claimed_folder_is_passed_on_as_it_is(tmp_path: Path) -> None:
    with (
        pytest.raises(ArgumentError, match="another thing"),
        claimed_by_one(tmp_path, words="in use"),
    ):
        raise ArgumentError("another thing")
