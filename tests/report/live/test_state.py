"""What can be seen of a run while it trains."""

import json
import os
from pathlib import Path

import pytest

from instaaug.report.live.state import QUIET_SECONDS, RunWatcher
from tests.support.run_folders import write_run

HEADER = "epoch,train/loss,train/entropy/crop,train/weight/crop,validation/top1\n"
NOW = 2_000_000_000.0


def at(path: Path, seconds: float) -> None:
    """Let a file be as old as if it had been written this long before NOW."""
    os.utime(path, (NOW - seconds, NOW - seconds))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of ten epochs that began 200 seconds ago and has finished none."""
    folder = write_run(tmp_path / "mine", **{"trainer.max_epochs": 10})
    (folder / "data.json").write_text("{}")
    for file in folder.iterdir():
        at(file, 200)
    return folder


def add_epochs(folder: Path, n: int, seconds_ago: float) -> None:
    rows = [f"{i},{1 / (i + 1)},3.0,0.1,0.5\n" for i in range(n)]
    (folder / "metrics.csv").write_text(HEADER + "".join(rows))
    at(folder / "metrics.csv", seconds_ago)


def watcher(folder: Path) -> RunWatcher:
    return RunWatcher(folder, clock=lambda: NOW)


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_a_run_is_waited_for(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "empty"
    if exists:
        folder.mkdir()
    state = watcher(folder).look()
    assert (state["status"], state["epoch"], state["samples"]) == ("waiting", 0, "")
    assert state["words"] == "There is no run in empty yet."


def test_curves_grow_and_time_left_follows_the_pace(run: Path) -> None:
    one = watcher(run)
    at(run / "data.json", 10)
    assert one.look()["words"] == "The first epoch is running."
    at(run / "data.json", 200)
    add_epochs(run, 2, 100)  # 50 seconds each
    state = one.look()
    assert (state["status"], state["epoch"], state["epochs"]) == ("running", 2, 10)
    assert state["words"] == "2 of 10 epochs done."
    assert state["advice"] == "About 5.8 min left, 50 s per epoch."  # 8 * 50 s, one of them over
    assert state["curves"]["loss"] == {"training": [1.0, 0.5]}
    add_epochs(run, 4, 0)  # two more, seen to take 50 seconds each
    assert one.look()["curves"]["weight"] == {"crop": [0.1] * 4}
    assert one.look()["advice"] == "About 5 min left, 50 s per epoch."


def test_a_killed_run_is_called_silent(run: Path) -> None:
    add_epochs(run, 2, 160)
    state = watcher(run).look()  # 20 seconds per epoch
    assert state["status"] == "silent"
    assert "The last sign of life was 2.7 min ago." in state["advice"]
    assert f"`instaaug resume {run}`" in state["advice"]
    assert state["curves"]["epoch"] == [1.0, 2.0]


def test_a_slow_run_is_not_called_silent(run: Path) -> None:
    for file in run.iterdir():
        at(file, 5000)
    add_epochs(run, 1, 2 * QUIET_SECONDS)
    assert watcher(run).look()["status"] == "running"


def test_what_loggers_write_is_a_sign_of_life(run: Path) -> None:
    add_epochs(run, 2, 160)
    events = run / "tensorboard" / "version_0" / "events.out.1"
    events.parent.mkdir(parents=True)
    events.touch()
    at(events, 5)
    assert watcher(run).look()["status"] == "running"


def test_results_end_it_with_the_headline(run: Path) -> None:
    add_epochs(run, 10, 1)
    assert watcher(run).look()["words"] == "All 10 epochs are done."
    results = {"test": {"plain": {"top1": 0.5, "n": 40.0}}, "validation": None}
    (run / "results.json").write_text(json.dumps(results))
    state = watcher(run).look()
    assert state["status"] == "finished"
    assert state["words"].startswith("InstaAug on ")
    assert "50.0\u202f% from the image alone" in state["words"]
    assert f"`instaaug report {run}`" in state["advice"]


@pytest.mark.parametrize("name", ["metrics.csv", "results.json", "config.yaml"])
def test_a_damaged_file_is_a_state(run: Path, name: str) -> None:
    damaged = {"metrics.csv": "a,a\n", "results.json": '{"test": 3}', "config.yaml": "\0"}
    (run / name).write_text(damaged[name])
    state = watcher(run).look()
    assert state["status"] == "unreadable"
    assert name in state["advice"]
