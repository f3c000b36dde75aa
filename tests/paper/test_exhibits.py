"""Exhibits of the paper: their files, and that the page says what was measured."""

import json
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from instaaug.errors import ArgumentError, InstaAugError, UnknownNameError
from paper import __main__ as command
from paper.catalog import find_exhibit, list_exhibits
from paper.comparing import (
    ComparedRun,
    choose_on_validation,
    compare_methods,
    data_folder,
    read_runs,
    score_runs,
)
from paper.decomposition import World
from paper.exhibits import SCALES, Exhibit, Findings, MissingData, Plan, Row, Score
from paper.kept import change_numbers, read_options
from paper.layout import from_json, to_csv, to_json, to_latex, to_markdown
from paper.page import PAGE, RESULTS, render_page

NAMES = [exhibit.name for exhibit in list_exhibits()]
FOUND = Findings(
    columns=("n = 4", "n = 10"),
    rows=(
        Row("No aug & co", (Score(50.0, 1.25, 3), None), (Score(80.43), Score(80.43)), 0),
        Row("φ", (Score(51.0), Score(52.0)), (None, Score(81.18, 0.02, 10)), 1),
    ),
    setting="a test.",
    seconds=90.0,
    notes=("Nothing else.",),
)


def exhibit_of(findings: Findings) -> Exhibit:
    return Exhibit(
        "toy",
        "Table 0: a toy",
        lambda _: findings,
        needs=dict.fromkeys(SCALES, "nothing"),
        hours=dict.fromkeys(SCALES, 0.1),
    )


def options(folder: Path, **changes: Any) -> Namespace:
    defaults = {"scale": "laptop", "seeds": None, "resume": True, "publish": False}
    return Namespace(**{**defaults, "out": folder, **changes})


@pytest.mark.parametrize("exhibit", list_exhibits(), ids=NAMES)
def test_an_exhibit_says_what_it_needs_at_both_scales(exhibit: Exhibit) -> None:
    assert exhibit.title
    assert set(exhibit.needs) == set(exhibit.hours) == set(exhibit.seeds) == set(SCALES)
    assert all(hours > 0 for hours in exhibit.hours.values())


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_all_tables_of_the_laptop_take_a_night_together() -> None:
    assert sum(exhibit.hours["laptop"] for exhibit in list_exhibits()) <= 10


def test_an_unknown_exhibit_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="table1"):
        find_exhibit("tabel1")


def test_the_page_is_what_the_published_results_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page()


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.json")), ids=lambda file: file.stem)
def test_a_published_result_belongs_to_an_exhibit_and_has_a_verdict(file: Path) -> None:
    exhibit = find_exhibit(file.stem)
    found, about = from_json(file.read_text(encoding="utf-8"), RESULTS)
    assert exhibit.verdict.endswith(".")
    assert about["command"].startswith(f"python -m paper {exhibit.name} ")
    assert all(picture.is_file() for picture in found.pictures)
    assert all(len(row.ours) == len(row.paper) == len(found.columns) for row in found.rows)


def test_markdown_has_the_paper_beside_ours() -> None:
    lines = to_markdown(FOUND).splitlines()
    assert lines[0] == "| | n = 4, paper | n = 4, ours | n = 10, paper | n = 10, ours |"
    assert lines[2] == "| No aug & co | 80.43 | 50.00 ± 1.25 | 80.43 | – |"


def test_latex_escapes_and_rules_off_groups() -> None:
    text = to_latex(FOUND)
    assert r"No aug \& co & $80.43$ & $50.00${\tiny $\pm 1.25$} & $80.43$ & -- \\" in text
    assert text.count(r"\midrule") == 2  # below the head and between the groups
    assert text.index(r"\midrule", text.index("No aug")) < text.index(r"$\phi$")


def test_csv_has_a_line_per_number() -> None:
    lines = to_csv(FOUND).splitlines()
    assert lines[0] == "row,column,source,mean,error,runs"
    assert "No aug & co,n = 4,ours,50.0,1.25,3" in lines
    assert len(lines) == 1 + 6


def test_json_comes_back() -> None:
    text = to_json(exhibit_of(FOUND), FOUND, command="python -m paper toy", commit="abc")
    found, about = from_json(text, Path())
    assert found == FOUND
    assert (about["name"], about["title"]) == ("toy", "Table 0: a toy")
    assert (about["command"], about["commit"]) == ("python -m paper toy", "abc")


def test_measuring_prints_the_table_and_writes_all_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    console = Console(width=100)
    command.measure(console, exhibit_of(FOUND), options(tmp_path), ["--seed", "1"])
    printed = capsys.readouterr().out
    assert "50.00 ± 1.25" in printed
    assert "a test." in printed
    folder = tmp_path / "toy" / "laptop"
    written = {file.name for file in folder.iterdir()}
    assert written == {f"table.{ending}" for ending in ("md", "tex", "csv", "json")}
    typed = json.loads((folder / "table.json").read_text())["command"]
    assert typed == "python -m paper toy --scale laptop --seeds 3 --seed 1"


def test_a_picture_needs_no_table(tmp_path: Path) -> None:
    found = command.measure(
        Console(), exhibit_of(Findings((), (), "a picture.")), options(tmp_path), []
    )
    assert to_markdown(found).count("\n") == 2


def test_a_plan_has_the_seeds_of_its_scale_or_those_asked_for(tmp_path: Path) -> None:
    plans: list[Plan] = []

    def measure(plan: Plan) -> Findings:
        plans.append(plan)
        return FOUND

    exhibit = Exhibit(
        "toy", "", measure, needs={}, hours={}, seeds={"laptop": 1, "paper": 7}
    )  # fmt: skip
    for changes in ({}, {"scale": "paper"}, {"seeds": 2}):
        command.measure(Console(), exhibit, options(tmp_path, **changes), [])
    assert [plan.seeds for plan in plans] == [1, 7, 2]


def test_without_resume_a_folder_with_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy" / "laptop").mkdir(parents=True)
    with pytest.raises(InstaAugError, match="--no-resume"):
        command.measure(Console(), exhibit_of(FOUND), options(tmp_path, resume=False), [])


def test_all_goes_on_after_a_failure_and_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lack(plan: Plan) -> Findings:
        raise MissingData("no photos.")

    def fail(plan: Plan) -> Findings:
        raise InstaAugError("a run broke.")

    toys = [
        Exhibit(name, "", measure, needs={}, hours={})
        for name, measure in (("a", lack), ("b", fail), ("c", lambda _: FOUND))
    ]
    monkeypatch.setattr(command, "list_exhibits", lambda: toys)
    with pytest.raises(SystemExit, match="1"):
        command.main(["all", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "a is skipped: no photos." in printed
    assert "b failed: a run broke." in printed
    assert (tmp_path / "c" / "laptop" / "table.md").is_file()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("No module named 'timm'", name="timm"), "the package timm is not"),
        (
            OSError(28, "No space left on device", "table.md"),
            "'table.md' cannot be used: No space",
        ),
    ],
    ids=["package", "disk"],
)
def test_trouble_is_a_sentence_and_stops_no_other_exhibit(
    error: Exception,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(plan: Plan) -> Findings:
        raise error

    toys = [
        Exhibit(name, "", measure, needs={}, hours={})
        for name, measure in (("a", fail), ("b", lambda _: FOUND))
    ]
    monkeypatch.setattr(command, "list_exhibits", lambda: toys)
    with pytest.raises(SystemExit, match="1"):
        command.main(["all", "--out", str(tmp_path)])
    assert f"a failed: {words}" in capsys.readouterr().out
    assert (tmp_path / "b" / "laptop" / "table.md").is_file()


def test_an_interrupt_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "measure", interrupt)
    with pytest.raises(SystemExit, match="130"):
        command.main(["table1"])
    assert "the same command goes on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["table1", "--seeds", "0"], "must be a whole number from 1 on: got '0'"),
        (["list", "--scales", "paper"], "list takes no options: got --scales paper"),
        (["table1", "--scale", "paper", "--publish"], "--publish is for the laptop's scale"),
    ],
    ids=["seeds", "list", "publish"],
)
def test_what_cannot_be_meant_is_refused(
    typed: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main(typed)
    assert words in capsys.readouterr().err


def test_a_seed_is_an_option_of_instaaug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Namespace, list[str]]] = []
    monkeypatch.setattr(command, "measure", lambda _, __, *rest: seen.append(rest))
    command.main(["table1", "--seed", "3"])
    (given, overrides), *_ = seen
    assert (given.seeds, overrides) == (None, ["--seed", "3"])


def typed_plan(*typed: str) -> Plan:
    return Plan("laptop", 1, Path(), typed)


@pytest.mark.parametrize("typed", [("--seed",), ("3",), ("--seed", "3", "x")], ids=str)
def test_options_that_are_no_pairs_are_refused(typed: tuple[str, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"must be pairs such as --trainer\.max_epochs 2"):
        read_options(typed_plan(*typed))


def test_numbers_of_an_experiment_are_changed_by_name() -> None:
    world = change_numbers(World(), typed_plan("--n_steps", "7"))
    assert (world.n_steps, world.n_train) == (7, World().n_train)
    with pytest.raises(UnknownNameError, match="Did you mean 'n_steps'"):
        change_numbers(World(), typed_plan("--n_step", "7"))
    with pytest.raises(ArgumentError, match="`n_steps` must be a number: got 'few'"):
        change_numbers(World(), typed_plan("--n_steps", "few"))


def test_missing_data_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("INSTAAUG_DATA", raising=False)
    with pytest.raises(SystemExit, match="3"):
        command.main(["table1", "--out", str(tmp_path)])
    assert "table1 is skipped: INSTAAUG_DATA names no folder" in capsys.readouterr().out


def test_a_data_folder_is_the_first_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "second").mkdir()
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path))
    assert data_folder("first", "second") == tmp_path / "second"


def make_run(
    method: str, seed: int, plain: float, *, known: float | None = 1.0, views: float | None = None
) -> ComparedRun:
    return ComparedRun(method, seed, plain, views, known, 1.0, Path())


def test_a_method_is_scored_with_its_views_where_it_has_them() -> None:
    runs = [make_run("a", seed, 40.0 + 2 * seed, views=44.0 + 2 * seed) for seed in (0, 1)]
    runs.append(make_run("b", 0, 30.0))
    assert score_runs(runs, "a") == Score(45.0, 1.0, 2)
    assert score_runs(runs, "a", views=False) == Score(41.0, 1.0, 2)
    assert score_runs(runs, "b") == Score(30.0, None, 1)
    assert score_runs(runs, "c") is None


def test_a_range_is_chosen_on_validation_images_and_not_on_the_test() -> None:
    runs = [make_run("narrow", 0, 60.0, known=35.0), make_run("wide", 0, 50.0, known=38.0)]
    assert choose_on_validation(runs, ["narrow", "wide", "absent"]) == "wide"
    with pytest.raises(InstaAugError, match="validation"):
        choose_on_validation([make_run("a", 0, 1.0, known=None)], ["a"])


def test_a_run_without_a_result_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = tmp_path / "runs" / "mixup" / "seed_1"
    failed.mkdir(parents=True)
    (failed / "config.yaml").touch()
    ended = subprocess.CompletedProcess[str]([], 0)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    plan = Plan("laptop", 2, tmp_path)
    assert compare_methods(plan, "sprites", config=Path("a"), methods=Path("b")) == []
    assert "Without a result: mixup/seed_1. Add --retry" in capsys.readouterr().out
    ended.returncode = 2
    with pytest.raises(InstaAugError, match="ended with code 2"):
        compare_methods(plan, "sprites", config=Path("a"), methods=Path("b"))


def test_runs_are_read_from_the_folders_of_a_comparison(tmp_path: Path) -> None:
    folder = tmp_path / "mixup" / "seed_4"
    folder.mkdir(parents=True)
    results = {"seed": 4, "test": {"plain": {"top1": 0.25}}}
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "metrics.csv").write_text("epoch,validation/top1\n0,0.1\n1,0.2\n2,\n")
    (folder / "timing.json").write_text('{"seconds": 7}')
    assert read_runs(tmp_path) == [ComparedRun("mixup", 4, 25.0, None, 20.0, 7, folder)]
