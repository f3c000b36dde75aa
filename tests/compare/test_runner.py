"""Which runs are started, when, and what becomes of those that fail or are interrupted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from instaaug.compare import runner, single_run
from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.results import read_comparison
from instaaug.compare.runner import (
    ChildRun,
    Outcome,
    read_log_tail,
    run_comparison,
    run_contenders,
)
from instaaug.compare.state import Failure, RunProgress, read_failure, read_state
from instaaug.compare.step_times import StepCost
from instaaug.errors import ArgumentError, DataError
from instaaug.files import lock_folder
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import Interrupted
from tests.support.fleet import FakeRun, Fleet

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 3})
WITH_A_CHILD = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
time.sleep(60)
"""
NAN = Failure("The loss became NaN.", ["epoch 1", "failed: The loss became NaN."])


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.compare.runner.POLL_SECONDS", 0.0)
    monkeypatch.setattr("instaaug.compare.runner._n_processors", lambda: 8)
    monkeypatch.setattr("instaaug.runs.folder.environment", dict)


def contenders(words: str = "none,random") -> list[Contender]:
    return read_contenders(words, BASE)


def statuses(runs: Sequence[RunProgress]) -> dict[str, str]:
    return {f"{s.label}/{s.seed}": s.status for s in runs}


# The order of things


def test_all_contenders_run_with_a_seed_before_the_next(tmp_path: Path) -> None:
    fleet = Fleet()
    ended = run_contenders(BASE, contenders(), [0, 1], tmp_path, start=fleet)
    assert fleet.started == ["none/seed_0", "random/seed_0", "none/seed_1", "random/seed_1"]
    assert fleet.most_at_work == 1
    assert {s.status for s in ended} == {"done"}
    assert [s.score.value for s in ended if s.score] == [0.5] * 4


def test_each_run_has_its_own_settings(tmp_path: Path) -> None:
    run_contenders(BASE, contenders(), [0, 4], tmp_path, start=Fleet())
    config = Run(tmp_path / "random" / "seed_4").read_train_settings()
    assert config == BASE.override({"method": "random", "seed": 4})


@pytest.mark.parametrize(("jobs", "threads"), [(3, 2), (9, 1)])
def test_jobs_share_the_processors(tmp_path: Path, jobs: int, threads: int) -> None:
    fleet = Fleet()
    run_contenders(BASE, contenders(), range(5), tmp_path, jobs=jobs, start=fleet)
    assert fleet.most_at_work == jobs
    assert len(fleet.started) == 10
    assert Run(tmp_path / "none" / "seed_4").read_train_settings().trainer.threads == threads


def test_every_change_is_told(tmp_path: Path) -> None:
    seen: list[str] = []

    def epoch_done(run: FakeRun) -> None:
        (run.folder / "metrics.csv").write_text("epoch,step\n" + "0,1\n" * run.n_looks)

    fleet = Fleet()
    fleet.on_look = epoch_done
    run_contenders(
        BASE, contenders("none"), [0], tmp_path, start=fleet,
        on_change=lambda runs: seen.append(f"{runs[0].status} {runs[0].epoch}"),
    )  # fmt: skip
    assert seen == ["waiting 0", "running 1", "running 2", "done 3"]


@pytest.mark.parametrize("numbers", [{"jobs": 0, "seeds": [0]}, {"jobs": 1, "seeds": []}])
def test_nothing_to_do_is_refused(tmp_path: Path, numbers: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="`jobs` and `seeds` must be at least 1"):
        run_contenders(BASE, contenders(), out=tmp_path, start=Fleet(), **numbers)  # type: ignore[arg-type]


def test_a_run_that_is_killed_after_its_result_is_done(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.failing["none/seed_0"] = Failure("It was ended by SIGKILL.", [])
    score = {"split_hash": "a", "test": {"plain": {"top1": 0.5, "n": 10}}}
    fleet.on_look = lambda run: Run.write_json(run.folder / "results.json", score)
    (ended,) = run_contenders(BASE, contenders("none"), [0], tmp_path, start=fleet)
    assert ended.status == "done"
    assert not (ended.folder / "failure.json").exists()


# Called again


def test_finished_runs_are_kept_and_interrupted_ones_go_on(tmp_path: Path) -> None:
    first, second = Fleet(), Fleet()
    run_contenders(BASE, contenders("none"), [0], tmp_path, start=first)
    half = Run(tmp_path / "random" / "seed_0")
    half.start(BASE.override({"method": "random"}))
    (half.path / "last.ckpt").write_text("a checkpoint")
    rest = half.path / ".last.ckpt.0123.part"
    rest.write_text("half a checkpoint")
    second.score = 0.9
    ended = run_contenders(BASE, contenders(), [0], tmp_path, start=second)
    assert second.started == ["random/seed_0"]
    assert (half.path / "last.ckpt").read_text() == "a checkpoint"
    assert rest.exists()  # its writer may live on: who holds the folder sweeps it
    assert [s.score.value for s in ended if s.score] == [0.5, 0.9]


def test_a_folder_without_settings_begins_from_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "none" / "seed_0"
    folder.mkdir(parents=True)
    (folder / ".config.yaml.0123.part").write_text("data: spr")
    (folder / "log.txt").write_text("")
    run_contenders(BASE, contenders("none"), [0], tmp_path, start=Fleet())
    assert Run(folder).read_train_settings() == BASE.override({"method": "none"})


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            BASE.override({"optimizer.learning_rate": 0.1}),
            "`optimizer.learning_rate` must be 0.001 as in the comparison",
        ),
        (
            BASE.override({"trainer.max_epochs": 4}),
            "`trainer.max_epochs` must be 3 as in the comparison .*: got 4",
        ),
    ],
)
def test_other_settings_in_the_same_folder_are_named(
    tmp_path: Path, changed: TrainSettings, words: str
) -> None:
    run_contenders(BASE, contenders(), [0], tmp_path, start=Fleet())
    fleet = Fleet()
    with pytest.raises(ArgumentError, match=words):
        run_contenders(changed, contenders(), [0], tmp_path, start=fleet)
    assert fleet.started == []


def test_a_label_means_the_same_for_all_seeds_even_those_not_asked_for(tmp_path: Path) -> None:
    mine = [Contender("mine", {"method": "random", "method.sizes": [0.5, 1.0]})]
    other = [Contender("mine", {"method": "random", "method.sizes": [0.6, 1.0]})]
    run_contenders(BASE, mine, [0], tmp_path, start=Fleet())
    before = read_state(tmp_path)
    with pytest.raises(
        ArgumentError, match=r"`method.sizes` must be \[0.5, 1.0\] as in the run .*mine"
    ):
        run_contenders(BASE, other, [1], tmp_path, start=Fleet())
    assert read_state(tmp_path) == before


def test_what_has_no_effect_on_results_may_change(tmp_path: Path) -> None:
    run_contenders(BASE, contenders(), [0], tmp_path, start=Fleet())
    fleet = Fleet()
    other = BASE.override(
        {
            "trainer.threads": 3,
            "trainer.log_every_n_steps": 7,
            "trainer.checkpoint_minutes": 1.0,
            "data.cache_dir": "elsewhere",
        }
    )
    run_contenders(other, contenders(), [0, 1], tmp_path, start=fleet, jobs=2)
    assert fleet.started == ["none/seed_1", "random/seed_1"]


def test_more_methods_and_seeds_join_what_is_there(tmp_path: Path) -> None:
    run_contenders(BASE, contenders("none"), [0, 1], tmp_path, start=Fleet())
    fleet = Fleet()
    run_contenders(BASE, contenders("random"), [1, 2], tmp_path, start=fleet)
    assert fleet.started == ["random/seed_1", "random/seed_2"]
    state = read_state(tmp_path)
    assert state is not None
    assert list(state.contenders) == ["none", "random"]
    assert state.seeds == {"none": [0, 1], "random": [1, 2]}
    assert state.all_seeds == [0, 1, 2]
    methods = read_comparison(tmp_path).methods
    assert {m.runs.name: len(m.runs.scores) for m in methods} == {"none": 2, "random": 2}
    assert all(m.rank is not None for m in methods)  # each has all seeds asked of it


# The same images


def test_runs_on_other_images_are_not_compared_and_refused_at_the_door(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.images = {"mixup/seed_0": "b", "none/seed_1": "c", "random/seed_1": "c"}
    fleet.images["mixup/seed_1"] = "c"  # a seed may well have a split of its own
    run_contenders(BASE, contenders("none,random,mixup"), [0, 1], tmp_path, start=fleet)
    runs = {m.runs.name: m.runs for m in read_comparison(tmp_path).methods}
    assert runs["mixup"].failures == {
        0: "It saw other images than none with this seed: b, 10 for the test."
    }
    assert list(runs["mixup"].scores) == [1]
    assert list(runs["none"].scores) == list(runs["random"].scores) == [0, 1]
    again = Fleet()
    with pytest.raises(ArgumentError, match=r"`data` must be the same .*mixup/seed_0' has the"):
        run_contenders(BASE, contenders("random"), [2], tmp_path, start=again)
    assert again.started == []


@pytest.mark.parametrize("several", [{"trainer.devices": 2}, {"trainer.num_nodes": 2}])
def test_a_run_is_one_process(tmp_path: Path, several: dict[str, int]) -> None:
    with pytest.raises(
        ArgumentError, match=r"`trainer\.devices` and `trainer\.num_nodes` must be 1"
    ):
        run_contenders(BASE.override(several), contenders(), [0], tmp_path, start=Fleet())
    assert not list(tmp_path.iterdir())


# Failures


def test_a_failure_is_noted_and_stops_no_other(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.failing = {"none/seed_0": NAN}
    ended = run_contenders(BASE, contenders(), [0, 1], tmp_path, start=fleet)
    assert statuses(ended) == {
        "none/0": "failed", "random/0": "done", "none/1": "done", "random/1": "done"
    }  # fmt: skip
    assert ended[0].sentence == NAN.sentence
    assert read_failure(tmp_path / "none" / "seed_0") == NAN


def test_what_failed_is_run_again_only_if_asked_and_then_from_its_beginning(
    tmp_path: Path,
) -> None:
    fleet = Fleet()
    fleet.failing = {"none/seed_0": NAN}
    run_contenders(BASE, contenders(), [0], tmp_path, start=fleet)
    (tmp_path / "none" / "seed_0" / "last.ckpt").write_text("a checkpoint")
    again = Fleet()
    ended = run_contenders(BASE, contenders(), [0], tmp_path, start=again)
    assert again.started == []
    assert statuses(ended)["none/0"] == "failed"
    ended = run_contenders(BASE, contenders(), [0], tmp_path, start=again, retry=True)
    assert again.started == ["none/seed_0"]
    assert statuses(ended)["none/0"] == "done"
    left = {file.name for file in (tmp_path / "none" / "seed_0").iterdir()}
    assert left == {"config.yaml", "environment.json", "results.json"}


def test_what_failed_may_begin_again_with_other_settings(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.failing = {"mine/seed_0": NAN}
    hot, cold = (
        [Contender("mine", {"method": "random", "optimizer.learning_rate": rate})]
        for rate in (9.0, 0.1)
    )
    run_contenders(BASE, hot, [0], tmp_path, start=fleet)
    with pytest.raises(ArgumentError, match=r"`optimizer.learning_rate` must be 9\.0"):
        run_contenders(BASE, cold, [0], tmp_path, start=Fleet())
    run_contenders(BASE, cold, [0], tmp_path, start=Fleet(), retry=True)
    assert Run(tmp_path / "mine" / "seed_0").read_train_settings().optimizer.learning_rate == 0.1
    state = read_state(tmp_path)
    assert state is not None
    assert state.contenders["mine"]["optimizer.learning_rate"] == 0.1


def test_an_end_without_a_result_is_a_failure(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.silent = {"none/seed_0"}
    ended = run_contenders(BASE, contenders(), [0], tmp_path, start=fleet)
    assert ended[0].sentence == "It ended without a result."
    assert ended[1].status == "done"


def test_a_score_that_is_no_number_is_a_failure(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.score = float("nan")
    ended = run_contenders(BASE, contenders("none"), [0], tmp_path, start=fleet)
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
def test_a_signal_is_passed_on_once_and_the_same_call_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    fleet = Fleet()
    fleet.on_look = interrupting(number, [1])
    told: list[int] = []
    with pytest.raises(Interrupted, match=f"{number.name} with 0 of 4 runs finished; everything"):
        run_contenders(
            BASE, contenders(), [0, 1], tmp_path, start=fleet, jobs=2,
            on_stop=lambda: told.append(len(fleet.at_work)),
        )  # fmt: skip
    assert told == [2]  # once, while they save
    assert fleet.started == ["none/seed_0", "random/seed_0"]
    assert [run.stops for run in fleet.all] == [[False], [False]]
    assert signal.getsignal(number) == before
    again = Fleet()
    ended = run_contenders(BASE, contenders(), [0, 1], tmp_path, start=again, jobs=2)
    assert len(again.started) == 4
    assert {s.status for s in ended} == {"done"}


def test_a_second_signal_ends_runs_at_once(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.on_look = interrupting(signal.SIGINT, [1, 2])
    fleet.obeys = lambda run: True in run.stops
    with pytest.raises(Interrupted, match="runs finished; others keep their last checkpoint"):
        run_contenders(BASE, contenders(), [0], tmp_path, start=fleet)
    assert fleet.all[0].stops == [False, True]


def test_a_run_that_ends_while_asked_to_stop_counts(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.on_look = interrupting(signal.SIGINT, [2])
    fleet.obeys = lambda _: False
    ended = run_contenders(BASE, contenders("none"), [0], tmp_path, start=fleet)
    assert ended[0].status == "done"


def test_an_error_of_our_own_leaves_nobody_at_work(tmp_path: Path) -> None:
    fleet = Fleet()

    def broken(runs: Sequence[RunProgress]) -> None:
        if runs[0].status == "running":
            raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="the terminal is gone"):
        run_contenders(BASE, contenders(), [0], tmp_path, start=fleet, jobs=2, on_change=broken)
    assert [run.stops for run in fleet.all] == [[False], [False]]
    assert fleet.at_work == []


# Processes


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildRun]:
    Run(tmp_path).start(BASE)
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
        "It was ended by SIGKILL. Systems do that when memory runs out."
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
    assert read_log_tail(log)[-4:] == ["epoch 99", "a", "b", "�"]
    assert len(read_log_tail(log)) == 20


def test_ended_at_once_it_takes_along_what_it_started(tmp_path: Path) -> None:
    run = ChildRun.__new__(ChildRun)
    run.log, run.stop_requested = tmp_path / "log.txt", False
    run.process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", WITH_A_CHILD], stdout=subprocess.PIPE, start_new_session=True
    )
    assert run.process.stdout is not None
    child = Path("/proc") / run.process.stdout.readline().decode().strip()
    run.stop(at_once=True)
    run.process.wait()
    run.process.stdout.close()
    until = time.monotonic() + 10
    while _is_alive(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _is_alive(child)


def _is_alive(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_unfinished_files_are_left_to_the_process_that_holds_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run(tmp_path).start(BASE)
    rest = tmp_path / ".last.ckpt.0123.part"
    monkeypatch.setattr(single_run, "LOCK_TIMEOUT", 0.0)
    with lock_folder(tmp_path):
        rest.write_text("half a checkpoint")
        with pytest.raises(ArgumentError, match="another process is at work"):
            single_run.finish_run(tmp_path)
    assert rest.exists()


# A whole comparison


@pytest.fixture
def without_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    def costs(runs: dict[str, TrainSettings], _: TrainSettings) -> dict[str, StepCost]:
        return {label: StepCost(2.0, 1.0, 3.0) for label in runs}

    monkeypatch.setattr("instaaug.compare.plan.measure_epoch", lambda _: 10.0)
    monkeypatch.setattr("instaaug.compare.plan.measure_step_costs", costs)


@pytest.mark.usefixtures("without_timing")
def test_a_script_can_run_a_whole_comparison(tmp_path: Path) -> None:
    messages: list[str] = []
    comparison = run_comparison(
        BASE, contenders(), [0, 1], tmp_path / "out", budget="1m", reference="none",
        start=Fleet(), on_message=messages.append,
    )  # fmt: skip
    assert {m.runs.name: m.runs.step_cost for m in comparison.methods} == {
        "none": 2.0, "random": 2.0
    }  # fmt: skip
    assert comparison.reference == "none"
    assert Run(tmp_path / "out/none/seed_1").read_train_settings().trainer.max_epochs == 6
    assert messages[0] == "Timing training steps of none, random."
    assert messages[1].startswith("2 methods × 2 seeds = 4 runs of 6 epochs; about 8 min")
    for name in ("leaderboard.md", "leaderboard.csv", "leaderboard.tex", "runs.csv"):
        assert (tmp_path / "out" / name).is_file()
    again = Fleet()
    run_comparison(BASE, contenders(), [0, 1], tmp_path / "out", epochs_are_set=False, start=again)
    assert again.started == []  # with the epochs of before


def test_steps_are_timed_only_if_asked(tmp_path: Path) -> None:
    messages: list[str] = []
    comparison = run_comparison(
        BASE, contenders(), [0], tmp_path / "out",
        times_steps=False, start=Fleet(), on_message=messages.append,
    )  # fmt: skip
    assert not any("Timing" in message for message in messages)
    assert {method.runs.step_cost for method in comparison.methods} == {None}


@pytest.mark.usefixtures("without_timing")
def test_a_comparison_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="`budget` must be a time"):
        run_comparison(BASE, contenders(), [0], tmp_path / "out", budget="soon", start=Fleet())
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("without_timing")
def test_tables_that_cannot_be_written_stop_no_run_and_are_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise DataError("There are two measures.")

    monkeypatch.setattr(runner, "write_tables", fail)
    messages: list[str] = []
    run_comparison(BASE, contenders(), [0], tmp_path, start=Fleet(), on_message=messages.append)
    assert messages.count("There is no table yet: There are two measures.") == 1
    assert len(list(tmp_path.glob("*/seed_0/results.json"))) == 2


def test_two_comparisons_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path),
        pytest.raises(ArgumentError, match="`out` must not be in use: another comparison"),
    ):
        run_comparison(BASE, contenders(), [0], tmp_path, start=Fleet())
