"""``instaaug compare``, with real processes where they matter."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from instaaug.cli.compare import ProgressDisplay, leaderboard_table, progress_table
from instaaug.compare.state import RunProgress
from instaaug.files import lock_folder
from instaaug.report.comparison import MethodComparison, compare_scores, one_line
from instaaug.report.records import Score
from instaaug.report.tables import table_rows
from tests.support.command_line import QUICK, CommandLine
from tests.support.compared import HOSTILE, ROWS, VIEWED, runs
from tests.support.picture_folders import plain_folder

PROGRAM = "import instaaug.cli; instaaug.cli.main()"


# Before anything is trained


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "none"], "`method` is what is compared: name several in `methods`."),
        (["--methods", "none,rndom"], "There is no method or variant called 'rndom'."),
        (
            ["--methods", "none", "--budget", "1m"],
            "`--budget` and `--trainer.max_epochs` exclude each other",
        ),
        (
            ["--methods", "none", "--trainer.devices", "2"],
            "`--trainer.devices` and `--trainer.num_nodes` must be 1",
        ),
        (
            ["--methods", "[{method: none, trainer.max_epochs: 2}]"],
            "`--trainer.max_epochs` must be the same for all methods",
        ),
        (["--methods", "none", "--reference", "random"], "There is no contender called 'random'"),
        (["--methods", "none", "--out", "pets/x"], "`out` must lie outside of the images"),
    ],
)
def test_wrong_settings_are_found_at_once_and_leave_no_folder(
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


def test_a_typed_diversity_replaces_a_band_in_a_file(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "pets")
    (tmp_path / "my.yaml").write_text("entropy: {band: [1.0, 2.0]}\n")
    said = instaaug.error(
        "compare", "pets", *QUICK, "--config", "my.yaml", "--entropy.diversity", "[0.1, 0.3]",
        "--methods", "rndom",
    )  # fmt: skip
    assert "There is no method or variant called 'rndom'" in said


def test_ctrl_c_while_timing_says_how_to_go_on_and_leaves_no_trace(
    instaaug: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_folder(tmp_path / "pets")

    def stopped(_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("instaaug.compare.plan.measure_epoch", stopped)
    done = instaaug("compare", "pets", *QUICK, "--methods", "none", "--out", "c")
    assert (done.code, done.err) == (130, "Stopped. The same command goes on.\n")
    assert not (tmp_path / "c").exists()


# Progress


def progress(label: str, seed: int, status: str, value: float | None = None) -> RunProgress:
    score = None if value is None else Score("top1", value, 100)
    sentence = "NaN." if status == "failed" else ""
    return RunProgress(label, seed, Path(), status, 3, score, sentence, n_epochs=20)  # type: ignore[arg-type]


RUNS = [
    progress("none", 0, "done", 0.5),
    progress("random", 0, "done", 0.625),
    progress("none", 1, "running"),
    progress("random", 1, "failed"),
    progress("late", 0, "waiting"),
]


def shown(table: object, *, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_table_shows_the_best_first_and_what_each_run_is_at() -> None:
    lines = [" ".join(x.split()) for x in shown(progress_table(RUNS)).splitlines()]
    assert lines == [
        "3 of 5 runs",
        "method so far runs",
        "random 62.5% 1 done, seed 1 failed: NaN.",
        "none 50.0% 1 done, seed 1: epoch 4/20",
        "late 1 to do",
    ]


def test_without_a_terminal_every_run_that_ends_is_a_line() -> None:
    console = Console(file=StringIO(), force_terminal=False, width=80)
    with ProgressDisplay(console) as show:
        show(RUNS[:1])
        show(RUNS)
        show(RUNS)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().splitlines() == [
        "1 of 1 runs have ended before.",
        "2/5 random, seed 0: 62.50%",
        "3/5 random, seed 1: failed: NaN.",
    ]


def test_runs_that_failed_before_are_told_with_what_begins_them_again() -> None:
    console = Console(file=StringIO(), force_terminal=False, width=100)
    ProgressDisplay(console)(RUNS)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue() == (
        "3 of 5 runs have ended before. 1 of them failed: --retry begins what failed again.\n"
    )


def test_a_terminal_shows_a_table_that_is_gone_in_the_end() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    with ProgressDisplay(console) as show:
        show(RUNS)
    assert isinstance(console.file, StringIO)
    before, _, after = console.file.getvalue().rpartition("to do")
    assert "epoch 4/20" in before
    n_lines = shown(progress_table(RUNS)).count("\n")
    assert after.count("\x1b[2K") >= n_lines == 5  # each line of the table is erased


# The leaderboard


NAMES = [
    *("random crop, rotation, color", "AutoAugment (ImageNet)", "InstaAug, class-specific"),
    *("spatial transformer", "TrivialAugment", "InstaAug without input"),
]


def print_leaderboard(comparison: MethodComparison, width: int, *, with_notes: bool = True) -> str:
    file = StringIO()
    console = Console(file=file, width=width, color_system=None)
    console.print(leaderboard_table(comparison, with_notes=with_notes))
    return file.getvalue()


def test_eighty_columns_hold_every_number_on_the_line_of_its_method() -> None:
    rows = [
        runs(
            name,
            0.61 - 0.1 * i,
            0.63 - 0.1 * i,
            0.66 - 0.09 * i,
            cost=1.0 + i,
            n_views=16,
            plain=[0.1] * 3,
        )
        for i, name in enumerate(NAMES)
    ]
    found = compare_scores(rows)
    lines = print_leaderboard(found, 80).splitlines()
    assert max(map(len, lines)) <= 80
    for row in table_rows(found):
        (line,) = [line for line in lines if row.score in line]
        first, *_ = row.label.split()
        assert [line.split()[0], line.split()[1].rstrip(",")] == [row.rank, first.rstrip(",")]
        assert line.rstrip().endswith(row.cost)
        assert line.split(row.score)[1].split()[0] == "16"
        assert row.difference in line
        assert f" {row.p} " in line
        assert f" {row.holm} " in line


def test_views_are_shown_and_explained_but_one_view_is_for_files() -> None:
    text = print_leaderboard(compare_scores(VIEWED), 80)
    assert "views" in text.splitlines()[0]
    assert "one view" not in text.lower()
    assert "1 is the image as it is" in " ".join(text.split())


def test_names_have_one_line_where_there_is_room() -> None:
    names = ["a name of more words than most", "another name of more words than most"]
    text = print_leaderboard(compare_scores([runs(name, 0.5, 0.6, 0.9) for name in names]), 160)
    assert all(name in text for name in names)


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(
        len(line) <= width for line in print_leaderboard(compare_scores(ROWS), width).splitlines()
    )


def test_a_number_that_is_cut_is_seen_to_be_cut() -> None:
    found = compare_scores(ROWS)
    text = print_leaderboard(found, 40, with_notes=False)
    keys = ("rank", "score", "difference", "p", "holm")
    whole = {
        word for row in table_rows(found) for key in keys for word in getattr(row, key).split()
    }
    numbers = [word for word in text.split("mixup:")[0].split() if word[-1].isdigit()]
    assert "…" in text
    assert set(numbers) <= whole


def test_remarks_are_always_below_and_notes_if_wanted() -> None:
    found = compare_scores(ROWS)
    brief, full = print_leaderboard(found, 120, with_notes=False), print_leaderboard(found, 120)
    for text in (brief, full):
        assert "mixup: 2 of 3 seeds; seed 1 failed: The loss is NaN" in text
        assert "broken: every seed failed: No memory" in text
    assert "The reference, random, has the best mean among baselines with all seeds." in full
    assert "reference, random" not in brief


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_printed_as_they_are(name: str) -> None:
    text = print_leaderboard(compare_scores([runs("base", 0.5), runs(name, 0.4)]), 200)
    assert any(one_line(name) in line for line in text.splitlines())
    assert "\x1b" not in text


# With real processes


@pytest.mark.slow
def test_methods_are_compared_and_one_that_fails_stops_no_other(
    instaaug: CommandLine, tmp_path: Path
) -> None:
    plain_folder(tmp_path / "pets", n=12)
    broken = "{method: none, optimizer: {name: sgd, learning_rate: 1e38}, label: broken}"
    methods = f"[none, random, {broken}]"
    command = ("compare", "pets", *QUICK, "--methods", methods, "--seeds", "2")
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
    failure = json.loads((out / "broken/seed_0/failure.json").read_text())
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
    with lock_folder(run, error="It lives on.", timeout=60.0):
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
