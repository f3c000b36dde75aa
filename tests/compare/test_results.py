"""What is read from the files of a comparison, whole or damaged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.results import (
    environment_note,
    read_comparison,
    write_tables,
)
from instaaug.compare.runner import run_contenders
from instaaug.compare.state import Failure, read_failure, read_state
from instaaug.errors import DataError
from instaaug.runs.settings import TrainSettings
from tests.support.fleet import Fleet

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 3})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of two methods with two seeds."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    made = {"instaaug": "1.0", "commit": None, "torch": "2.4"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instaaug.compare.runner.POLL_SECONDS", 0.0)
        patch.setattr("instaaug.runs.folder.environment", lambda: made)
        run_contenders(BASE, read_contenders("none,random", BASE), [0, 1], folder, start=Fleet())
    return folder


@pytest.fixture
def out(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to be damaged."""
    monkeypatch.setattr("instaaug.compare.runner.POLL_SECONDS", 0.0)
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


STATE = {
    "settings": BASE.to_mapping(),
    "contenders": {"none": {"method": "none"}},
    "seeds": {"none": [0]},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"settings": 3}, "`settings`"),
        ({"settings": {"epoch": 3}}, "no setting in comparison.json called 'epoch'"),
        ({"settings": {"trainer.max_epochs": "many"}}, "`trainer.max_epochs`"),
        ({"contenders": ["none"]}, "`contenders`"),
        ({"contenders": {}}, "`seeds` are not those of its `contenders`"),
        ({"contenders": {"none": {}}}, "`contenders`"),
        ({"contenders": {"none": {"method": "none", "x": 1}}}, "no setting .* called 'x'"),
        (
            {"contenders": {"../up": {"method": "none"}}, "seeds": {"../up": [0]}},
            r"Labels .* got '\.\./up'",
        ),
        ({"seeds": [0]}, "`seeds`"),
        ({"seeds": {"none": ["x"]}}, "`seeds`"),
        ({"seeds": {"none": []}}, "`seeds`"),
        ({"seeds": {"random": [0]}}, "`seeds` are not those of its `contenders`"),
        ({"budget": 3}, "`budget`"),
        ({"epoch_seconds": "long"}, "`epoch_seconds`"),
        ({"epoch_seconds": 0}, "`epoch_seconds`"),
        ({"costs": {"none": [1.0]}}, "`costs`"),
        ({"costs": {"none": [1.0, 1.0, float("nan")]}}, "`costs`"),
        ({"costs": {"random": [1.0, 1.0, 1.0]}}, "`costs`, `chosen` or `reference`"),
        ({"reference": "random"}, "`costs`, `chosen` or `reference`"),
        ({"reference_named_after": "x"}, "`reference_named_after`"),
        ({"chosen": {"none": {"settings": {}}}}, "`chosen`"),
        ({"chosen": {"random": {"settings": {}, "sentence": ""}}}, "`costs`, `chosen` or"),
        ({"more": 1}, "more"),
    ],
)
def test_a_damaged_plan_says_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(STATE))
    assert read_state(tmp_path) is not None
    file.write_text(json.dumps({**STATE, **change}))
    with pytest.raises(DataError, match=f"must be as `instaaug compare` wrote it: .*{words}"):
        read_state(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"seeds": [0]}', "[" * 100_000])
def test_a_plan_that_is_no_plan_says_so(tmp_path: Path, text: str) -> None:
    (tmp_path / "comparison.json").write_text(text)
    with pytest.raises(DataError, match="must be as `instaaug compare` wrote it"):
        run_contenders(BASE, read_contenders("none", BASE), [0], tmp_path, start=Fleet())


def test_every_spelling_of_instaaug_is_ours(tmp_path: Path) -> None:
    """Otherwise it would be a baseline, and might become the reference."""
    spellings: list[dict[str, Any]] = [
        {"method": "instaaug"},
        {"method": {"name": "instaaug"}},
        {"method": {"name": "random", "sizes": [0.5, 1.0]}},
    ]
    contenders = [Contender(f"c{i}", settings) for i, settings in enumerate(spellings)]
    run_contenders(BASE, contenders, [0], tmp_path, start=Fleet())
    comparison = read_comparison(tmp_path)
    assert {m.runs.name: m.runs.is_ours for m in comparison.methods} == {
        "c0": True, "c1": True, "c2": False
    }  # fmt: skip
    assert comparison.reference == "c2"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("results.json", text) for text in ("", '{"test": 3}')),
        *(("failure.json", text) for text in ("{", '{"sentence": 3}')),
    ],
)
def test_a_run_with_a_damaged_file_has_failed_and_no_other(
    out: Path, name: str, text: str
) -> None:
    folder = out / "none" / "seed_0"
    (folder / "results.json").unlink()
    (folder / name).write_text(text)
    write_tables(out, read_comparison(out))
    runs = {m.runs.name: m.runs for m in read_comparison(out).methods}
    assert name in runs["none"].failures[0]
    assert len(runs["none"].scores) == 1
    assert len(runs["random"].scores) == 2
    again = Fleet()
    run_contenders(BASE, read_contenders("none,random", BASE), [0, 1], out, start=again)
    assert again.started == []
    run_contenders(
        BASE, read_contenders("none,random", BASE), [0, 1], out, start=again, retry=True
    )
    assert again.started == ["none/seed_0"]
    assert not read_comparison(out).methods[0].runs.failures


def test_a_result_without_its_settings_is_a_failure(out: Path) -> None:
    (out / "none" / "seed_0" / "config.yaml").unlink()
    runs = {m.runs.name: m.runs for m in read_comparison(out).methods}
    assert "has no config.yaml" in runs["none"].failures[0]


def test_a_failure_without_a_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "failure.json").write_text('{"sentence": "NaN.", "log": null}')
    assert read_failure(tmp_path) == Failure("NaN.", [])


def test_runs_by_other_software_are_noted(out: Path) -> None:
    assert environment_note(out) == ""
    file = out / "random" / "seed_1" / "environment.json"
    file.write_text(json.dumps({"instaaug": "1.0", "commit": "abc", "torch": "2.5|"}))
    words = "Not all runs were made by the same software: commit abc and unknown; torch 2.4 and "
    assert environment_note(out) == words + "unknown."
    write_tables(out, read_comparison(out))
    assert (out / "leaderboard.md").read_text().endswith(f"\n\n{words}unknown.\n")
    file.write_text("{")
    assert "instaaug 1.0 and unknown" in environment_note(out)


def test_what_was_learned_of_single_images_stands_beside_the_score(out: Path) -> None:
    for seed, value in ((0, 0.1), (1, 0.3)):
        file = out / "random" / f"seed_{seed}" / "results.json"
        results = json.loads(file.read_text())
        results["test"]["learned"] = {"crop": {"mutual_information": value}}
        file.write_text(json.dumps(results))
    write_tables(out, read_comparison(out))
    assert "crop: 0.20 nats tell images apart" in (out / "leaderboard.md").read_text()
