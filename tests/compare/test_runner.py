"""Which runs are started, when, and what becomes of those that fail or are interrupted."""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from instaaug.compare.comparing import compare
from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.results import read_comparison, write_tables
from instaaug.compare.standings import Standing
from instaaug.compare.state import Failure, read_failure, read_state
from instaaug.errors import ArgumentError
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import Interrupted
from tests.support.fleet import FakeRun, Fleet

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 3})
NAN = Failure("The loss became NaN.", ["epoch 1", "failed: The loss became NaN."])


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.compare.comparing.SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("instaaug.compare.comparing._n_processors", lambda: 8)
    monkeypatch.setattr("instaaug.runs.folder.environment", dict)


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
    config = Run(tmp_path / "random" / "seed_4").TrainSettings.from_mapping()
    assert config == BASE.override({"method": "random", "seed": 4})


@pytest.mark.parametrize(("jobs", "threads"), [(2, 4), (3, 2), (9, 1)])
def test_jobs_share_the_processors(tmp_path: Path, jobs: int, threads: int) -> None:
    fleet = Fleet()
    compare(BASE, contenders(), range(6), tmp_path, jobs=jobs, start=fleet)
    assert fleet.most_at_work == jobs
    assert len(fleet.started) == 12
    assert Run(tmp_path / "none" / "seed_5").TrainSettings.from_mapping().threads == threads


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
    half = Run(tmp_path / "random" / "seed_0")
    half.start(BASE.override({"method": "random"}))
    (half.path / "last.ckpt").write_text("a checkpoint")
    rest = half.path / ".last.ckpt.0123.part"
    rest.write_text("half a checkpoint")
    second.score = 0.9
    ended = compare(BASE, contenders(), [0], tmp_path, start=second)
    assert second.started == ["random/seed_0"]
    assert (half.path / "last.ckpt").read_text() == "a checkpoint"
    assert rest.exists()  # its writer may live on: who holds the folder sweeps it
    assert [s.score.value for s in ended if s.score] == [0.5, 0.9]


def test_a_folder_without_settings_begins_from_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "none" / "seed_0"
    folder.mkdir(parents=True)
    (folder / ".config.yaml.0123.part").write_text("data: spr")
    (folder / "log.txt").write_text("")
    compare(BASE, contenders("none"), [0], tmp_path, start=Fleet())
    assert Run(folder).TrainSettings.from_mapping() == BASE.override({"method": "none"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            BASE.override({"optimizer.learning_rate": 0.1}),
            "`learning_rate` must be 0.001 as in the comparison",
        ),
        (
            BASE.override({"trainer.max_epochs": 4}),
            "`epochs` must be 3 as in the comparison .*: got 4",
        ),
    ],
)
def test_other_settings_in_the_same_folder_are_named(
    tmp_path: Path, changed: TrainSettings, words: str
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
    other = BASE.override(
        {
            "trainer.threads": 3,
            "trainer.log_every_n_steps": 7,
            "trainer.checkpoint_minutes": 1.0,
            "data.cache_dir": "elsewhere",
        }
    )
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
    assert state.seeds == {"none": [0, 1], "random": [1, 2]}
    assert state.every_seed == [0, 1, 2]
    methods = read_comparison(tmp_path).methods
    assert {m.runs.name: len(m.runs.scores) for m in methods} == {"none": 2, "random": 2}
    assert all(m.rank is not None for m in methods)  # each has all seeds asked of it


# The same images


def test_runs_on_other_images_are_not_compared_and_refused_at_the_door(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.images = {"mixup/seed_0": "b", "none/seed_1": "c", "random/seed_1": "c"}
    fleet.images["mixup/seed_1"] = "c"  # a seed may well have a split of its own
    compare(BASE, contenders("none,random,mixup"), [0, 1], tmp_path, start=fleet)
    runs = {m.runs.name: m.runs for m in read_comparison(tmp_path).methods}
    assert runs["mixup"].failures == {
        0: "It saw other images than none with this seed: b, 10 for the test."
    }
    assert list(runs["mixup"].scores) == [1]
    assert list(runs["none"].scores) == list(runs["random"].scores) == [0, 1]
    again = Fleet()
    with pytest.raises(ArgumentError, match=r"`data` must be the same .*mixup/seed_0' has the"):
        compare(BASE, contenders("random"), [2], tmp_path, start=again)
    assert again.started == []


@pytest.mark.parametrize("several", [{"devices": 2}, {"nodes": 2}])
def test_a_run_is_one_process(tmp_path: Path, several: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match="`devices` and `nodes` must be 1 in a comparison"):
        compare(BASE.override({**several}), contenders(), [0], tmp_path, start=Fleet())  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


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
    assert Run(tmp_path / "mine" / "seed_0").TrainSettings.from_mapping().learning_rate == 0.1
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
    told: list[int] = []
    with pytest.raises(Interrupted, match=f"{number.name} with 0 of 4 runs finished; everything"):
        compare(
            BASE, contenders(), [0, 1], tmp_path, start=fleet, jobs=2,
            on_stop=lambda: told.append(len(fleet.at_work)),
        )  # fmt: skip
    assert told == [2]  # once, while they save
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
    with pytest.raises(Interrupted, match="runs finished; others keep their last checkpoint"):
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
