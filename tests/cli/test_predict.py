"""``instaaug predict``: any names, any files, tables that other programs can read."""

import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from instaaug.runs.inference import predict_files
from tests.support.command_line import QUICK, CommandLine
from tests.support.picture_folders import (
    CLASSES,
    gray_levels,
    mixed_folder,
    plain_folder,
    truncated_jpeg,
)

ODD_NAMES = (
    "two words.png",
    "comma, and more.png",
    'a "quoted" one.png',
    "it's.png",
    "two\nlines.png",
    "carriage\rreturn.png",
    "tab\tulator.png",
    "ünïcödé 猫.png",
    "[bold]name[red].png",
    "=SUM(A1).png",
    "-dash.png",
)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_table_goes_to_the_terminal(instaaug: CommandLine, shop: Path) -> None:
    images = [shop / "pets" / name / "rgb 0.png" for name in CLASSES]
    done = instaaug("predict", shop / "run", *images)
    assert done.code == 0, done.err
    rows = table(done.out)
    assert [row["path"] for row in rows] == [str(image) for image in images]
    assert list(rows[0]) == ["path", "label", "probability", "error"]
    assert {row["label"] for row in rows} <= set(CLASSES)
    assert all(1 / 3 <= float(row["probability"]) <= 1 for row in rows)
    assert {row["error"] for row in rows} == {""}
    assert done.err == ""


def test_the_files_say_what_the_terminal_says(
    instaaug: CommandLine, shop: Path, tmp_path: Path
) -> None:
    command = ("predict", shop / "run", shop / "pets")
    shown = instaaug(*command).out
    done = instaaug(*command, "--out", "new/p.csv")
    assert (done.code, done.out) == (0, "")
    assert done.err == "36 of 36 images predicted; see new/p.csv.\n"
    assert (tmp_path / "new" / "p.csv").read_text() == shown
    instaaug(*command, "--out", "p.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [{k: str(v) for k, v in line.items()} for line in lines] == table(shown)
    assert isinstance(lines[0]["probability"], float)


def test_a_folder_gives_its_images_in_natural_order_and_nothing_else(
    instaaug: CommandLine, tmp_path: Path, shop: Path
) -> None:
    shutil.copytree(shop / "pets" / "cat", tmp_path / "inbox" / "deep")
    (tmp_path / "inbox" / "notes.txt").write_text("no image")
    (tmp_path / "inbox" / "deep" / "._rgb 0.png").write_text("what macOS leaves behind")
    rows = table(instaaug("predict", shop / "run", "inbox").out)
    assert [row["path"] for row in rows] == [f"inbox/deep/rgb {i}.png" for i in range(12)]


def test_every_kind_of_file_is_predicted(
    instaaug: CommandLine, tmp_path: Path, shop: Path
) -> None:
    mixed_folder(tmp_path / "inbox", n=7)
    rows = table(instaaug("predict", shop / "run", "inbox").out)
    assert len(rows) == 21
    assert all(row["label"] for row in rows)


def test_the_most_probable_classes_are_listed_in_order(instaaug: CommandLine, shop: Path) -> None:
    image = shop / "pets" / "cat" / "rgb 0.png"
    (row,) = table(instaaug("predict", shop / "run", image, "--top", 3).out)
    labels = [row[name] for name in ("label", "label_2", "label_3")]
    probabilities = [float(row[f"probability{n}"]) for n in ("", "_2", "_3")]
    assert sorted(labels) == sorted(CLASSES)
    assert probabilities == sorted(probabilities, reverse=True)
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)
    (more,) = table(instaaug("predict", shop / "run", image, "--top", 99).out)
    assert more == row  # there are three


def test_no_views_predicts_the_image_itself(instaaug: CommandLine, shop: Path) -> None:
    command = ("predict", shop / "run", shop / "pets")
    plain = instaaug(*command, "--views", 0).out
    assert plain == instaaug(*command, "--views", 0).out
    assert plain != instaaug(*command, "--views", 3).out
    expected = predict_files(shop / "run", [shop / "pets"], n_views=0)
    probabilities = [float(row["probability"]) for row in table(plain)]
    assert probabilities == [row["probability"] for row in expected]


def test_predictions_do_not_depend_on_how_many_files_are_read_at_once(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = list(predict_files(shop / "run", [shop / "pets"], n_views=0))
    monkeypatch.setattr("instaaug.runs.inference.CHUNK", 5)
    again = list(predict_files(shop / "run", [shop / "pets"], n_views=0))
    assert [row["label"] for row in rows] == [row["label"] for row in again]
    assert [r["probability"] for r in rows] == pytest.approx([r["probability"] for r in again])


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_odd_names_come_back_as_they_were(
    instaaug: CommandLine, tmp_path: Path, shop: Path, ending: str
) -> None:
    (tmp_path / "odd").mkdir()
    for name in ODD_NAMES:
        shutil.copy(shop / "pets" / "cat" / "rgb 0.png", tmp_path / "odd" / name)
    assert instaaug("predict", shop / "run", "odd", "--out", f"p.{ending}").code == 0
    text = (tmp_path / f"p.{ending}").read_bytes().decode()
    rows = table(text) if ending == "csv" else [json.loads(line) for line in text.split("\n")[:-1]]
    assert {row["path"] for row in rows} == {f"odd/{name}" for name in ODD_NAMES}


@pytest.fixture
def no_text(tmp_path: Path, shop: Path) -> str:
    """An image whose name is no text, as old archives have them."""
    name = os.fsdecode(b"latin \xe4.png")
    try:
        shutil.copy(shop / "pets" / "cat" / "rgb 0.png", tmp_path / name)
    except OSError:
        pytest.skip("this file system takes text only")
    return name


@pytest.mark.parametrize("out", ["p.csv", "p.jsonl"])
def test_a_name_that_is_no_text_goes_into_a_file_byte_for_byte(
    instaaug: CommandLine, tmp_path: Path, shop: Path, no_text: str, out: str
) -> None:
    done = instaaug("predict", shop / "run", no_text, "--out", out)
    assert done.code == 0, done.err
    assert b"latin \xe4.png" in (tmp_path / out).read_bytes()


def test_a_name_that_is_no_text_goes_to_the_terminal_byte_for_byte(
    instaaug: CommandLine, shop: Path, no_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", terminal)
    done = instaaug("predict", shop / "run", no_text)
    assert done.code == 0, done.err
    terminal.seek(0)
    assert b"latin \xe4.png" in terminal.buffer.read()


def test_a_regression_gives_numbers(instaaug: CommandLine, tmp_path: Path) -> None:
    files = sorted(plain_folder(tmp_path / "pets", n=5).rglob("*.png"))
    lines = [f"{file.relative_to(tmp_path)},{i},{-i}" for i, file in enumerate(files)]
    (tmp_path / "t.csv").write_text("\n".join(["path,one,two", *lines]))
    settings = ("--task", "regression", "--method", "none", *QUICK)
    instaaug("train", "t.csv", "--data.target_column", "one", "--out", "one", *settings)
    instaaug("train", "t.csv", "--data.target_column", "one,two", "--out", "both", *settings)
    (one,) = table(instaaug("predict", "one", files[0]).out)
    (both,) = table(instaaug("predict", "both", files[0]).out)
    assert list(one) == ["path", "prediction", "error"]
    assert list(both) == ["path", "prediction_1", "prediction_2", "error"]
    assert float(one["prediction"]) == float(one["prediction"])  # a number, not NaN
    scores = instaaug("evaluate", "one", "t.csv")  # the column is that of the training
    assert scores.code == 0, scores.err


# Files that cannot be read


def test_a_truncated_image_is_named(instaaug: CommandLine, tmp_path: Path, shop: Path) -> None:
    truncated_jpeg(tmp_path / "half.jpg")
    sentence = instaaug.error("predict", shop / "run", "half.jpg")
    assert sentence.startswith("'half.jpg' cannot be read as an image: ")
    assert "truncated" in sentence


def test_a_truncated_image_is_listed_and_the_others_are_predicted(
    instaaug: CommandLine, tmp_path: Path, shop: Path
) -> None:
    good = shop / "pets" / "cat" / "rgb 0.png"
    truncated_jpeg(tmp_path / "half.jpg")
    command = ("predict", shop / "run", "--on_bad_image", "skip", "--top", 2)
    done = instaaug(*command, good, "half.jpg", good)
    assert done.code == 0
    assert done.err == "2 of 3 images predicted.\n"
    first, bad, last = table(done.out)
    assert (bad["path"], bad["label"], bad["probability_2"]) == ("half.jpg", "", "")
    assert "cannot be read as an image" in bad["error"]
    assert first["label"] == last["label"] != ""
    (alone,) = table(instaaug(*command, "half.jpg").out)
    assert alone == bad


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no.png",), "There is no image 'no.png'."),
        (("empty",), "`images` must name at least one image: got folders without any."),
        (("IMAGE", "--out", "p.txt"), "`out` must end in .csv or .jsonl: got 'p.txt'."),
        (("IMAGE", "--out", "taken/p.csv"), "'taken' cannot be used: "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    instaaug: CommandLine, tmp_path: Path, shop: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken").write_text("a file")
    image = str(shop / "pets" / "cat" / "rgb 0.png")
    given = [image if argument == "IMAGE" else argument for argument in arguments]
    assert instaaug.error("predict", shop / "run", *given).startswith(words)


def test_earlier_predictions_survive_a_slip(
    instaaug: CommandLine, tmp_path: Path, shop: Path
) -> None:
    (tmp_path / "p.csv").write_text("precious")
    instaaug.error("predict", "nothing", "x.png", "--out", "p.csv")
    instaaug.error("predict", shop / "run", "no.png", "--out", "p.csv")
    assert (tmp_path / "p.csv").read_text() == "precious"


def test_a_run_that_has_not_finished_is_one_sentence(
    instaaug: CommandLine, tmp_path: Path, shop: Path
) -> None:
    shutil.copytree(shop / "run", tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").unlink()
    sentence = instaaug.error("predict", "run", shop / "pets")
    assert sentence.startswith("The run 'run' has not finished: there is no model.safetensors.")


def test_weights_that_were_spoiled_are_one_sentence(
    instaaug: CommandLine, tmp_path: Path, shop: Path
) -> None:
    shutil.copytree(shop / "run", tmp_path / "run")
    (tmp_path / "run" / "model.safetensors").write_bytes(b"junk")
    sentence = instaaug.error("predict", "run", shop / "pets")
    assert sentence.startswith("'run/model.safetensors' does not fit the settings of its run: ")


def test_a_run_on_arrays_predicts_files(instaaug: CommandLine, tmp_path: Path, shop: Path) -> None:
    gray_levels(tmp_path / "a.npz")
    instaaug("train", "a.npz", "--out", "run", "--method", "none", *QUICK)
    rows = table(instaaug("predict", "run", shop / "pets").out)
    assert {row["label"] for row in rows} <= {"0", "1", "2"}
