"""``instaaug compare``, with real processes where they matter."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from instaaug.cli.standings import shown_standings, standings_table
from instaaug.compare.standings import Standing
from rich.console import Console

from instaaug.cli.compare import _and_written
from instaaug.compare.state import claimed_by_one
from instaaug.errors import DataError
from instaaug.report.records import Score
from tests.support.command_line import QUICK, CommandLine
from tests.support.picture_folders import plain_folder

PROGRAM = "import instaaug.cli; instaaug.cli.main()"


# Before anything is trained


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "none"], "`method` is what is compared: name several in `methods`."),
        (["--methods", "none,rndom"], "There is no method or variant called 'rndom'."),
        (["--methods", "none", "--budget", "1m"], "`budget` and `epochs` say the same thing"),
        (["--methods", "none", "--trainer.devices", "2"], "`devices` and `nodes` must be 1"),
        (["--methods", "none(epochs=2)"], "`epochs` must be the same for all methods"),
        (["--methods", "none", "--reference", "random"], "There is no contender called 'random'"),
        (["--methods", "none", "--out", "pets/x"], "`out` must lie outside of the images"),
    ],
)
def test_slips_are_found_at_once_and_leave_no_trace(
    instaaug: CommandLine, tmp_path: Path, options: list[str], words: str
) -> None:
    plain_folder(tmp_path / "pets")
    assert words in instaaug.error("compare", "pets", *QUICK, *options)
    runs = tmp_path / "runs"
    assert not runs.exists() or not list(runs.iterdir())
    assert not (tmp_path / "pets" / "x").exists()


def test_a_budget_is_a_time(instaaug: CommandLine, tmp_path: Path) -> None:
    plain_folder(tmp_path / "pets")
    said = instaaug.error("compare", "pets", "--methods", "none", "--budget", "soon")
    assert "`budget` must be a time like 90s" in said


def test_a_typed_band_takes_the_place_of_a_filed_one_said_in_the_other_way(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "pets")
    (tmp_path / "my.yaml").write_text("entropy: [1.0, 2.0]\n")
    said = instaaug.error(
        "compare", "pets", *QUICK, "--config", "my.yaml", "--entropy.diversity", "0.1", "0.3",
        "--methods", "rndom",
    )  # fmt: skip
    assert "There is no method or variant called 'rndom'" in said


def test_ctrl_c_while_timing_says_how_to_go_on_and_leaves_no_trace(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_folder(tmp_path / "pets")

    def stopped(_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("instaaug.compare.plan.measured_epoch", stopped)
    done = instaaug("compare", "pets", *QUICK, "--methods", "none", "--out", "c")
    assert (done.code, done.err) == (130, "Stopped. The same command goes on.\n")
    assert not (tmp_path / "c").exists()


def test_tables_that_cannot_be_written_stop_no_training_and_are_told_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(_: Path) -> None:
        raise DataError("There are two measures.")

    monkeypatch.setattr("instaaug.cli.compare.read_comparison", broken)
    console = Console(file=StringIO(), width=80)
    seen: list[Sequence[Standing]] = []
    on_change = _and_written(console, seen.append, tmp_path)
    on_change(RUNS[:1])
    on_change(RUNS)
    assert seen == [RUNS[:1], RUNS]
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == "There is no table yet: There are two measures.\n"


def test_two_at_once_do_not_fight(instaaug: CommandLine, tmp_path: Path) -> None:
    plain_folder(tmp_path / "pets")
    out = tmp_path / "c"
    with claimed_by_one(out, words="this test"):
        said = instaaug.error("compare", "pets", *QUICK, "--methods", "none", "--out", out)
    assert "`out` must not be in use: another comparison is at work" in said


# How it goes


def standing(label: str, seed: int, status: str, value: float | None = None) -> Standing:
    score = None if value is None else Score("top1", value, 100)
    sentence = "NaN." if status == "failed" else ""
    return Standing(label, seed, Path(), status, 3, score, sentence)  # type: ignore[arg-type]


RUNS = [
    standing("none", 0, "done", 0.5),
    standing("random", 0, "done", 0.625),
    standing("none", 1, "running"),
    standing("random", 1, "failed"),
    standing("late", 0, "waiting"),
]


def shown(table: object, *, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_table_shows_the_best_first_and_what_each_run_is_at() -> None:
    lines = [" ".join(x.split()) for x in shown(standings_table(RUNS, n_epochs=20)).splitlines()]
    assert lines == [
        "3 of 5 runs",
        "method so far runs",
        "random 62.5% 1 done, seed 1 failed: NaN.",
        "none 50.0% 1 done, seed 1: epoch 4/20",
        "late 1 to do",
    ]


def test_without_a_terminal_every_run_that_ends_is_a_line() -> None:
    console = Console(file=StringIO(), force_terminal=False, width=80)
    with shown_standings(console, n_epochs=20) as show:
        show(RUNS[:1])
        show(RUNS)
        show(RUNS)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().splitlines() == [
        "1 of 1 runs have ended before.",
        "2/5 random, seed 0: 62.50%",
        "3/5 random, seed 1: failed: NaN.",
    ]


def test_a_terminal_shows_a_table_that_is_gone_in_the_end() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    with shown_standings(console, n_epochs=20) as show:
        show(RUNS)
    assert isinstance(console.file, StringIO)
    before, _, after = console.file.getvalue().rpartition("to do")
    assert "epoch 4/20" in before
    n_lines = shown(standings_table(RUNS, n_epochs=20)).count("\n")
    assert after.count("\x1b[2K") >= n_lines == 5  # each line of the table is erased


# In earnest


@pytest.mark.slow
def test_methods_are_compared_and_one_that_fails_stops_no_other(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "pets", n=12)
    broken = "none(optimizer=sgd,learning_rate=1e38)"
    command = ("compare", "pets", *QUICK, "--methods", f"none,random,{broken}", "--seeds", "2")
    done = instaaug(*command, "--jobs", "2")
    assert done.code == 0, done.err
    assert "3 methods × 2 seeds = 6 runs of 1 epoch; about" in done.out
    assert done.out.count("failed: ") >= 2
    out = tmp_path / "runs" / "pets-comparison"
    rows = list(csv.DictReader((out / "leaderboard.csv").read_text().splitlines()))
    assert len(rows) == 3
    assert [len(list(out.glob(f"{name}/seed_*/results.json"))) for name in ("none", "random")] == [
        2, 2
    ]  # fmt: skip
    failure = json.loads(
        (out / "none-optimizer-sgd-learning_rate-1e38/seed_0/failure.json").read_text()
    )
    assert "NaN or infinite" in failure["sentence"]
    assert failure["log"][-1] == f"failed: {failure['sentence']}"
    for name in ("leaderboard.md", "leaderboard.tex", "runs.csv", "report/index.html"):
        assert (out / name).is_file(), name
    split = {json.loads(f.read_text())["split_hash"] for f in out.glob("*/seed_0/results.json")}
    assert len(split) == 1  # the same images for all

    again = instaaug(*command)
    assert again.code == 0, again.err
    assert "6 of 6 runs have ended before." in again.out
    assert "of which 0 are left" in again.out


@pytest.mark.slow
def test_after_kill_9_no_run_lives_on_and_the_same_command_goes_on(tmp_path: Path) -> None:
    plain_folder(tmp_path / "pets", n=12)
    n_epochs = 120
    command = (
        sys.executable, "-c", PROGRAM, "compare", "pets", *QUICK,
        "--trainer.max_epochs", str(n_epochs),
        "--methods", "random", "--seeds", "1", "--out", "c",
    )  # fmt: skip
    run = tmp_path / "c" / "random" / "seed_0"
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603
    until = time.monotonic() + 120
    while not (run / "last.ckpt").is_file() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    with claimed_by_one(run, words="It lives on.", seconds=60.0):
        n_before = (run / "metrics.csv").read_text().count("\n") - 1
    assert 1 <= n_before < n_epochs
    assert not (run / "results.json").exists()

    second = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert second.returncode == 0, second.stderr
    assert "random, seed 0: " in second.stdout
    rows = list(csv.DictReader((run / "metrics.csv").read_text().splitlines()))
    assert [int(row["epoch"]) for row in rows] == list(range(n_epochs))
    log = (run / "log.txt").read_text()
    assert log.count(f" 1/{n_epochs} ") == 1  # it did not begin again
    assert "Stopped by SIGTERM" in log


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    plain_folder(tmp_path / "pets", n=12)
    command = (
        sys.executable, "-c", PROGRAM, "compare", "pets", *QUICK, "--trainer.max_epochs", "100000",
        "--methods", "none,random", "--seeds", "1", "--out", "c", "--jobs", "2",
    )  # fmt: skip
    runs = [tmp_path / "c" / name / "seed_0" for name in ("none", "random")]
    process = subprocess.Popen(  # noqa: S603
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    until = time.monotonic() + 120
    while not all((r / "last.ckpt").is_file() for r in runs) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Saving; press Ctrl-C again to end at once." in printed
    assert b"Stopped by SIGINT with 0 of 2 runs finished; everything is saved." in said
    assert all("Stopped by SIGTERM in epoch" in (r / "log.txt").read_text() for r in runs)
    assert not list(tmp_path.glob("c/*/*/failure.json"))
