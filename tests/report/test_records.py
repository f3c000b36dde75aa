"""Runs are read as they are; what is not as a run wrote it is refused with a clear sentence."""

import json
import subprocess
import sys
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from instaaug.errors import DataError
from instaaug.report.records import RunRecord, accuracy_of, read_record
from tests.support.run_folders import SETTINGS, write_run

PLAIN = {"top1": 0.6, "nll": 1.2, "ece": 0.1, "n": 1000.0}
AUGMENTED = {"top1": 0.65, "nll": 1.1, "ece": 0.1, "n": 1000.0, "n_samples": 20}
BOMB = "epochs: 1\na: &a [x, x, x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "learned-0", plain=PLAIN, augmented=AUGMENTED)


def write_tta(folder: Path, rows: Any) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text("kind: tta\nmodel: {name: m:f}\nseed: 0\n")
    (folder / "results.json").write_text(json.dumps({"rows": rows}))
    return folder


def test_a_finished_run_is_read_whole(run: Path) -> None:
    (run / "metrics.csv").write_text(
        "epoch,step,train/loss,validation/top1\n0,57,1.5,\n1,114,nan,0.5\n"
    )
    (run / "eval.json").write_text('{"rows": [], "n": 3}')
    record = read_record(run)
    assert (record.name, record.kind) == ("learned-0", "train")
    assert record.config == SETTINGS
    assert record.results["test"]["plain"]["top1"] == 0.6
    assert record.history[0] == {"epoch": 0, "step": 57, "train/loss": 1.5}
    assert isnan(record.history[1].pop("train/loss"))
    assert record.history[1] == {"epoch": 1, "step": 114, "validation/top1": 0.5}
    assert record.scores == {"rows": [], "n": 3}
    assert record.bands == {}


def test_an_unfinished_run_is_read_as_far_as_it_came(tmp_path: Path) -> None:
    record = read_record(write_run(tmp_path / "run"))
    assert (record.results, record.history, record.scores, record.bands) == ({}, [], {}, {})
    assert accuracy_of(record) is None


def test_the_name_is_that_of_the_folder_from_within(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    assert read_record(".").name == "learned-0"


def test_bands_come_from_the_results(tmp_path: Path) -> None:
    learned = {"crop": {"band": [2, 3.5], "entropy": 3.0}, "rotation": {"entropy": 1.0}}
    assert read_record(write_run(tmp_path / "run", learned=learned)).bands == {"crop": (2.0, 3.5)}


def test_reading_needs_no_torch(run: Path) -> None:
    code = (
        "import sys; from instaaug.report.records import read_record; "
        f"read_record({str(run)!r}); sys.exit(bool({{'torch', 'lightning'}} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0  # noqa: S603


def test_the_main_score_is_augmented_if_there_is_one(run: Path) -> None:
    record = read_record(run)
    main, plain = accuracy_of(record), accuracy_of(record, "plain")
    assert main == accuracy_of(record, "augmented")
    assert main is not None
    assert plain is not None
    assert (main.measure, main.value, main.n, main.n_samples) == ("top1", 0.65, 1000, 20)
    assert (plain.value, plain.n_samples) == (0.6, None)


def test_views_count_only_where_validation_images_advise_them(run: Path) -> None:
    record = read_record(run)
    record.config["data.validation_fraction"] = 0.1
    for validation, n_samples in (({"n_views": 20}, 20), ({"n_views": 1}, None), (None, None)):
        record.results["validation"] = validation
        score = accuracy_of(record)
        assert score is not None
        assert score.n_samples == n_samples
    for setting, value in (("data.validation_fraction", 0.0), ("task", "contrastive")):
        nobody_asked = replace(record, config=record.config | {setting: value})
        assert accuracy_of(nobody_asked) == accuracy_of(record, "augmented")


def test_the_interval_is_wilsons(run: Path) -> None:
    plain = accuracy_of(read_record(run), "plain")
    assert plain is not None
    assert plain.interval is not None
    z2 = 1.959964**2  # both ends are where (p̂ - p)² n = z² p (1 - p)
    for end in plain.interval:
        assert (0.6 - end) ** 2 * 1000 == pytest.approx(z2 * end * (1 - end), rel=1e-5)


def test_a_run_without_augmentation_has_its_plain_score(tmp_path: Path) -> None:
    record = read_record(write_run(tmp_path / "none-0", plain=PLAIN, method="none"))
    assert accuracy_of(record) == accuracy_of(record, "plain")
    assert accuracy_of(record, "augmented") is None


@pytest.mark.parametrize(
    ("loss", "measure", "value"), [("squared", "rmse", 1.5), ("absolute", "mae", 1.0)]
)
def test_a_regression_has_the_error_that_it_minimized(
    tmp_path: Path, loss: str, measure: str, value: float
) -> None:
    scores = {"rmse": 1.5, "mae": 1.0, "r2": 0.3, "n": 10.0}
    record = read_record(write_run(tmp_path / "run", plain=scores, task="regression", loss=loss))
    score = accuracy_of(record)
    assert score is not None
    assert (score.measure, score.value, score.interval) == (measure, value, None)


def test_a_fit_has_one_view_and_the_most_views(tmp_path: Path) -> None:
    rows = [
        {"name": "10 views", "views": 10.0, "n": 50, "accuracy": 0.8},
        {"name": "the image", "views": 1.0, "n": 50, "accuracy": 0.5},
        {"name": "4 views", "views": 4.0, "n": 50, "accuracy": 0.9},
    ]
    record = read_record(write_tta(tmp_path / "fit", rows))
    assert record.kind == "tta"
    plain, most = accuracy_of(record, "plain"), accuracy_of(record)
    assert plain is not None
    assert most is not None
    assert (plain.value, plain.n, plain.n_samples) == (0.5, 50, None)
    assert (most.value, most.n_samples) == (0.8, 10)
    record.results["validation"] = {"n_views": 4}
    advised = accuracy_of(record)
    assert advised is not None
    assert (advised.value, advised.n_samples) == (0.9, 4)


def test_a_fit_that_held_nothing_out_has_no_score(tmp_path: Path) -> None:
    record = read_record(write_tta(tmp_path / "fit", [{"views": 1, "temperature": 1.0}]))
    assert accuracy_of(record) is None


def test_a_folder_without_a_run_is_not_found(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"There is no run in .* no config.yaml"):
            read_record(folder)


GARBAGE = bytes(range(256)) * 40_000  # 10 MB


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.yaml", b"lr: 3\n", "must have the kind train, tta or transfer: got None"),
        ("config.yaml", b"", "it holds no names with values"),
        ("config.yaml", b"- 1\n", "it holds no names with values"),
        ("config.yaml", b"3: 4\nepochs: 1\n", "it holds no names with values"),
        ("config.yaml", b"a: [1, 2", "must be as the run wrote it; .* while parsing"),
        ("config.yaml", b"a: !!python/object/apply:os.getcwd []", "could not determine"),
        ("config.yaml", b"a: 2001-99-99\nepochs: 1", "month must be in 1..12"),
        ("config.yaml", BOMB.encode(), "it has aliases or is deep, which settings are not"),
        ("config.yaml", b"[" * 60_000, "it has aliases or is deep"),
        ("config.yaml", GARBAGE, "it has 10,240,000 bytes, and no run writes more than 65,536"),
        ("config.yaml", b"\xff\xfe\x00", "can't decode"),
        ("results.json", b'{"test": {"plain": {"top1": 0.', "must be as the run wrote it"),
        ("results.json", b"[]", "it holds no names with values"),
        ("results.json", b"", "Expecting value"),
        ("results.json", b"[" * 100_000, "must be as the run wrote it"),
        ("results.json", b'{"a": ' + b"9" * 5000 + b"}", "must be as the run wrote it"),
        ("results.json", GARBAGE, "can't decode"),
        ("results.json", b'{"test": 3}', "its 'test' is no mapping"),
        ("results.json", b'{"test": {"learned": [1]}}', "its 'learned' is no mapping"),
        ("results.json", b'{"test": {"learned": {"crop": 3}}}', "its 'crop' is no mapping"),
        ("results.json", b'{"test": {"learned": {"c": {"band": 3}}}}', "band of 'c' is no finite"),
        ("results.json", b'{"test": {"learned": {"c": {"band": [1, NaN]}}}}', "no finite"),
        ("results.json", b'{"test": {"learned": {"c": {"band": [2, 1]}}}}', "no finite"),
        ("results.json", b'{"test": {"learned": {"c": {"band": [1, "2"]}}}}', "no finite"),
        ("eval.json", b"{", "eval.json' must be as the run wrote it"),
        ("eval.json", b'{"rows": 5}', "its rows are not"),
        ("eval.json", b'{"rows": [1]}', "its rows are not"),
        ("eval.json", b'{"rows": [{"name": "a", "views": 1}]}', "its rows are not"),
        ("eval.json", b'{"comparisons": [{"name": "a", "views": 1}]}', "comparisons are not"),
        ("metrics.csv", b"", "its columns have no names"),
        ("metrics.csv", b"a,a\n1,2\n", "one name twice"),
        ("metrics.csv", b"a,b\n1,2\n3", "line 3: zip"),
        ("metrics.csv", b"a,b\n1,two\n", "line 2: could not convert string to float: 'two'"),
        ("metrics.csv", b"a\n" + b"1" * 200_000, "field larger than field limit"),
        ("metrics.csv", GARBAGE, "can't decode"),
    ],
)  # fmt: skip
def test_files_that_no_run_writes_are_refused(
    run: Path, name: str, content: bytes, words: str
) -> None:
    (run / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        read_record(run)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_file_that_is_too_large_is_not_read(run: Path) -> None:
    with (run / "results.json").open("wb") as file:
        file.truncate(1 << 34)  # sparse: 16 GB that take no room
    with pytest.raises(DataError, match="it has 17,179,869,184 bytes"):
        read_record(run)


@pytest.mark.parametrize("name", ["config.yaml", "results.json", "metrics.csv", "eval.json"])
def test_a_folder_in_place_of_a_file_is_refused(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    (run / name).mkdir()
    with pytest.raises(DataError, match="it is no file"):
        read_record(run)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ({"top1": float("nan"), "n": 10}, "its top1 is nan, no finite number"),
        ({"top1": "0.5", "n": 10}, "its top1 is '0.5', no finite number"),
        ({"top1": True, "n": 10}, "its top1 is True"),
        ({"top1": 10**400, "n": 10}, "no finite number"),
        ({"top1": 1.5, "n": 10}, "its top1 is 1.5, which is no share"),
        ({"top1": -0.5, "n": 10}, "its top1 is -0.5 of 10.0 images"),
        ({"top1": 0.5}, "its n is None"),
        ({"top1": 0.5, "n": 0}, "of 0.0 images"),
        ({"top1": 0.5, "n": 2.5}, "of 2.5 images"),
        ({"top1": 0.5, "n": 1e300}, "of 1e.300 images"),
        ({"top1": 0.5, "n": 10, "n_samples": []}, "its n_samples is"),
        ({"rmse": float("inf"), "n": 10}, "its rmse is inf, no finite number"),
        ({"speed": 3.0, "n": 10}, "its score is None"),
    ],
)
def test_scores_that_no_run_has_are_refused(scores: Any, words: str) -> None:
    record = RunRecord(Path("run"), "train", {}, {"test": {"plain": scores}})
    with pytest.raises(DataError, match=words):
        accuracy_of(record)


@pytest.mark.parametrize("rows", [3, [3], [{"accuracy": 0.5, "views": "one"}]])
def test_rows_that_no_fit_has_are_refused(rows: Any) -> None:
    with pytest.raises(DataError, match=r"results.json' must be as the run wrote it"):
        accuracy_of(RunRecord(Path("run"), "tta", {}, {"rows": rows}))


def test_settings_of_any_run_survive(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", entropy={"crop": [3.0, 3.5]}, data="Prüfung")
    assert read_record(folder).config["entropy.band"] == {"crop": [3.0, 3.5]}
    assert read_record(folder).config["data.source"] == "Prüfung"
