"""Processes of single runs: how they end, and that two never work in one folder."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from instaaug.compare import lone_run
from instaaug.compare.child_run import ChildRun, Outcome, last_lines
from instaaug.compare.state import claimed_by_one
from instaaug.errors import ArgumentError
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 3})
WITH_A_CHILD = """
import subprocess, sys, time
print(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid, flush=True)
time.sleep(60)
"""


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


def test_ended_at_once_it_takes_along_what_it_started(tmp_path: Path) -> None:
    run = ChildRun.__new__(ChildRun)
    run.log, run.was_asked = tmp_path / "log.txt", False
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


def test_rests_are_swept_only_by_who_holds_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = tmp_path / ".last.ckpt.0123.part"
    rest.write_text("half a checkpoint")
    monkeypatch.setattr(lone_run, "SECONDS_TO_WAIT", 0.0)
    seen: list[bool] = []
    monkeypatch.setattr(lone_run, "resume", lambda *_, **__: seen.append(rest.exists()))
    with (
        claimed_by_one(tmp_path, words="this test"),
        pytest.raises(ArgumentError, match="Another process is at work"),
    ):
        lone_run.work_on(tmp_path)
    assert rest.exists()
    lone_run.work_on(tmp_path)
    assert seen == [False]
