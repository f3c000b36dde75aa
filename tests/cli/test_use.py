"""Commands that use a run work the same way on a run of any kind."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from instaaug.data.decode import decode_image
from instaaug.runs.loaded import load_run
from tests.support.command_line import CommandLine

KINDS = ("train", "contrastive", "tta")


class Made(NamedTuple):
    """A run, some images like those it has seen, and its classes."""

    run: Path
    images: Path
    classes: set[str]


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A finished run that the test may change."""
    if request.param == "tta":
        home: Path = request.getfixturevalue("place")
        run, images = home / "fit", home / "spots"
    else:
        home = request.getfixturevalue("shop")
        images = home / "pets"
        run = home / "run" if request.param == "train" else request.getfixturevalue("contrast")
    monkeypatch.setenv("INSTAAUG_CACHE", str(home / "cache"))
    shutil.copytree(run, tmp_path / "mine")
    return Made(Path("mine"), images, {folder.name for folder in images.iterdir()})


def test_evaluate_prints_a_table_and_writes_the_scores(instaaug: CommandLine, made: Made) -> None:
    done = instaaug("evaluate", made.run, "--views", 2, "--json", "scores.json")
    assert done.code == 0, done.err
    assert "prediction from" in done.out
    assert "the image" in done.out
    assert json.loads(Path("scores.json").read_text())
    other = instaaug("evaluate", made.run, made.images, "--views", 2)
    assert other.code == 0, other.err


def test_predict_writes_a_row_per_image(instaaug: CommandLine, made: Made) -> None:
    done = instaaug("predict", made.run, made.images, "--views", 2, "--top", 2)
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert list(rows[0]) == ["path", "label", "probability", "label_2", "probability_2", "error"]
    assert len(rows) == sum(file.is_file() for file in made.images.rglob("*"))
    assert {row["label"] for row in rows} <= made.classes
    certain = instaaug("predict", made.run, made.images, "--views", 2, "--certainty", 0.1)
    assert certain.out.splitlines()[0] == "path,label,probability,views,error"


def test_inspect_draws_images(instaaug: CommandLine, made: Made) -> None:
    image = next(made.images.rglob("*.png"))
    done = instaaug("inspect", made.run, image, "--samples", 2)
    assert (done.code, done.out) == (0, "Look at mine/report/inspect.png.\n"), done.err


def test_report_writes_a_page(instaaug: CommandLine, made: Made) -> None:
    done = instaaug("report", made.run, "--inputs", 4, "--views", 2)
    assert done.code == 0, done.err
    assert "4 inputs" in done.out
    html = (made.run / "report" / "index.html").read_text(encoding="utf-8")
    assert all(name in html for name in made.classes)


@pytest.mark.parametrize("made", ["train", "contrastive"], indirect=True)  # tta: in test_tta
def test_export_writes_phi(instaaug: CommandLine, made: Made) -> None:
    done = instaaug("export", made.run, "phi.pt2", "--part", "phi")
    assert done.code == 0, done.err
    assert done.out.startswith("φ is in phi.pt2; read back, its outputs differ by ")
    assert callable(torch.export.load("phi.pt2").module())


@pytest.mark.parametrize("made", ["train"], indirect=True)
def test_export_writes_the_model_that_predict_uses(instaaug: CommandLine, made: Made) -> None:
    """The image alone, of which the file and `predict` say the same."""
    done = instaaug("export", made.run, "model.pt2", "--views", 0)
    assert done.out.startswith("The predictor is in model.pt2; read back"), done.err
    image = next(made.images.rglob("*.png"))
    loaded = load_run(made.run)
    pixels = decode_image(image, size=loaded.size, channels=loaded.channels)
    x = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    probs = torch.export.load("model.pt2").module()(x)["logits"].detach().softmax(dim=1)[0]
    (row,) = csv.DictReader(instaaug("predict", made.run, image, "--views", 0).out.splitlines())
    assert row["label"] == loaded.classes[int(probs.argmax())]
    assert float(row["probability"]) == pytest.approx(float(probs.max()), abs=1e-4)


def test_embed_writes_features(instaaug: CommandLine, made: Made) -> None:
    """Of files that can be read; a view of the whole image has the features of the image."""
    images = sorted(made.images.rglob("*.png"))[:3]
    Path("bad.png").write_bytes(b"no image")
    done = instaaug("embed", made.run, *images, "bad.png", "--on_bad_image", "skip")
    assert done.code == 0, done.err
    with np.load("features.npz") as file:
        features, paths = file["features"], file["paths"]
    assert [Path(path) for path in paths] == images
    assert done.out == f"{features.shape[1]:,} features of 3 images are in features.npz.\n"
    assert np.isfinite(features).all()
    assert features.std(axis=0).max() > 0
    done = instaaug("embed", made.run, images[1], "--views", 2, "--out", "again.npz")
    assert done.code == 0, done.err
    assert np.load("again.npz")["features"].shape == (1, features.shape[1])
    assert "`out` must end in .npz or .parquet" in instaaug.error(
        "embed", made.run, images[0], "--out", "features.csv"
    )


def test_resume_finds_nothing_to_do(instaaug: CommandLine, made: Made) -> None:
    done = instaaug("resume", made.run)
    assert done.out == "The run in mine is finished; nothing is left to do.\n"


def test_show_prints_its_settings(instaaug: CommandLine, made: Made) -> None:
    done = instaaug("show", made.run)
    assert done.code == 0, done.err
    assert str(made.images) in done.out


def test_no_views_are_the_image_alone(instaaug: CommandLine, made: Made) -> None:
    image = next(made.images.rglob("*.png"))
    plain = instaaug("predict", made.run, image, "--views", 0)
    assert plain.code == 0, plain.err
    assert plain.out == instaaug("predict", made.run, image, "--views", 0).out
    scores = instaaug("evaluate", made.run, "--views", 0)
    assert scores.code == 0, scores.err
    rows = [line for line in scores.out.splitlines() if line.startswith("│")]
    assert any("the image" in row for row in rows)
    assert not any("views" in row for row in rows)


USES = {
    "evaluate": (),
    "predict": ("x.png",),
    "inspect": ("x.png",),
    "report": (),
    "resume": (),
    "export": ("phi.pt2",),
}


@pytest.mark.parametrize("command", USES)
def test_a_folder_without_a_run_is_one_sentence(
    instaaug: CommandLine, tmp_path: Path, command: str
) -> None:
    (tmp_path / "empty").mkdir()
    sentence = instaaug.error(command, "empty", *USES[command])
    assert sentence.startswith("There is no run in 'empty': it has no config.yaml.")
