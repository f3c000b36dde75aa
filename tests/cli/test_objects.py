"""``instaaug objects``."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.command_line import QUICK, CommandLine
from tests.support.spots import spot_folder

FILES = {"objects.json", "objects.png", "objects.svg", "object_crops.png"}


@pytest.fixture
def boxes(shop: Path, tmp_path: Path) -> Path:
    """A box for every picture but those of one class."""
    files = sorted(file for name in ("cat", "dog") for file in (shop / "pets" / name).iterdir())
    rows = [
        f"{f.parent.name}/{f.name},0.{i % 4},0.1,0.{5 + i % 5},0.8" for i, f in enumerate(files)
    ]
    path = tmp_path / "boxes.csv"
    path.write_text("\n".join(["path,left,top,right,bottom", *rows]))
    return path


@pytest.fixture
def _no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time goes into them."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def numbers(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "objects.json").read_text(encoding="utf-8"))
    return found


def test_a_run_is_compared_with_a_table_of_boxes(
    instaaug: CommandLine, shop: Path, boxes: Path, tmp_path: Path
) -> None:
    done = instaaug("objects", shop / "run", "--boxes", boxes, "--out", "found")
    assert done.code == 0, done.err
    assert {file.name for file in (tmp_path / "found").iterdir()} == FILES
    content = numbers(tmp_path / "found")
    assert content["n_images"] + content["n_without_box"] == content["n_test"]
    assert content["n_without_box"] > 0
    assert f"{content['n_without_box']} test images have no box" in done.out
    assert content["in_words"] in done.out
    iou = content["overlap"]["iou"]
    for place in ("learned", "average", "grid", "anywhere", "best"):
        assert 0 < iou[place] < 1
        assert f"{iou[place]:.4f}" in done.out
    with Image.open(tmp_path / "found" / "object_crops.png") as picture:
        assert picture.width > 1000


@pytest.mark.usefixtures("_no_pictures")
def test_fewer_images_can_be_asked_for_and_the_folder_is_the_runs_own(
    instaaug: CommandLine, shop: Path, boxes: Path
) -> None:
    done = instaaug("objects", shop / "run", "--boxes", boxes, "--n-images", 3)
    assert done.code == 0, done.err
    assert numbers(shop / "run" / "objects")["n_images"] == 3


@pytest.mark.usefixtures("_no_pictures")
def test_the_table_fits_into_eighty_columns(
    instaaug: CommandLine, shop: Path, boxes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = instaaug("objects", shop / "run", "--boxes", boxes, "--out", "found").out
    table = out.split("On ")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert "as for the average image" in table


@pytest.mark.usefixtures("_no_pictures")
def test_without_matplotlib_there_are_numbers_all_the_same(
    instaaug: CommandLine, shop: Path, boxes: Path, tmp_path: Path
) -> None:
    done = instaaug("objects", shop / "run", "--boxes", boxes, "--out", "found")
    assert done.code == 0, done.err
    assert [file.name for file in (tmp_path / "found").iterdir()] == ["objects.json"]


@pytest.mark.usefixtures("_no_pictures")
def test_a_fit_for_a_frozen_model_is_looked_at(instaaug: CommandLine, tmp_path: Path) -> None:
    spots = spot_folder(tmp_path / "spots", 12)
    small = ("--size", "16", "--side", "32", "--crops", "1:1,0.5:2", "--samples", "2")
    model = "tests.support.spots:spotter"
    done = instaaug("tta", "fit", model, "spots", "--out", "fit", *small, "--steps", "3")
    assert done.code == 0, done.err
    rows = [f"{file.relative_to(spots)},0,0,0.5,0.5" for file in sorted(spots.glob("*/*.png"))]
    table = tmp_path / "boxes.csv"
    table.write_text("\n".join(["path,left,top,right,bottom", *rows]))
    done = instaaug("objects", "fit", "--boxes", table)
    assert done.code == 0, done.err
    assert "taught an order of views" in done.out
    assert numbers(tmp_path / "fit" / "objects")["n_without_box"] == 0


def test_mistakes_are_told_in_a_sentence(
    instaaug: CommandLine, shop: Path, boxes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There is no run in 'nowhere'" in instaaug.error("objects", "nowhere")
    assert "brings no boxes along" in instaaug.error("objects", shop / "run")
    assert "'gone.csv'" in instaaug.error("objects", shop / "run", "--boxes", "gone.csv")
    header, first, *_ = boxes.read_text().splitlines()
    boxes.write_text(f"{header}\n{first.replace('cat', 'cow')}")
    assert "none of" in instaaug.error("objects", shop / "run", "--boxes", boxes)
    monkeypatch.setenv("INSTAAUG_CACHE", str(shop / "cache"))
    assert instaaug("train", shop / "pets", "--method", "none", "--out", "none", *QUICK).code == 0
    assert "must have learned a distribution" in instaaug.error("objects", "none")
