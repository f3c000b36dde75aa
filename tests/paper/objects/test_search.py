"""``python -m paper.objects``."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from paper.objects.__main__ import main
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


def objects(*arguments: object) -> None:
    main([str(argument) for argument in arguments])


def numbers(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "objects.json").read_text(encoding="utf-8"))
    return found


def error(*arguments: object) -> str:
    with pytest.raises(SystemExit) as stop:
        objects(*arguments)
    return str(stop.value)


def test_a_run_is_compared_with_a_table_of_boxes(
    shop: Path, boxes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects(shop / "run", "--boxes", boxes, "--out", "found")
    out = capsys.readouterr().out
    assert {file.name for file in (tmp_path / "found").iterdir()} == FILES
    content = numbers(tmp_path / "found")
    assert content["n_images"] + content["n_without_box"] == content["n_test"]
    assert content["n_without_box"] > 0
    assert f"{content['n_without_box']} test images have no box" in out
    assert content["in_words"] in out
    iou = content["overlap"]["iou"]
    for place in ("learned", "average", "grid", "anywhere", "best"):
        assert 0 < iou[place] < 1
        assert f"{iou[place]:.4f}" in out
    with Image.open(tmp_path / "found" / "object_crops.png") as picture:
        assert picture.width > 1000


def test_without_matplotlib_there_are_numbers_all_the_same(
    shop: Path, boxes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the run's own folder by default; and the table fits into eighty columns."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setenv("COLUMNS", "80")
    objects(shop / "run", "--boxes", boxes, "--n-images", 3)
    assert [file.name for file in (shop / "run" / "objects").iterdir()] == ["objects.json"]
    assert numbers(shop / "run" / "objects")["n_images"] == 3
    table = capsys.readouterr().out.split("On ")[0]
    assert max(map(len, table.splitlines())) <= 80
    assert "as for the average image" in table


def test_a_fit_for_a_frozen_model_is_looked_at(
    instaaug: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    spots = spot_folder(tmp_path / "spots", 12)
    small = (
        *("--model.image_size", "16", "--data.decode_size", "32", "--views", "[2]"),
        *("--crop.grid", "[[1.0, 1], [0.5, 2]]", "--phi.steps", "3"),
    )
    model = "tests.support.spots:spotter"
    done = instaaug("tta", "fit", model, "spots", "--out", "fit", *small)
    assert done.code == 0, done.err
    rows = [f"{file.relative_to(spots)},0,0,0.5,0.5" for file in sorted(spots.glob("*/*.png"))]
    table = tmp_path / "boxes.csv"
    table.write_text("\n".join(["path,left,top,right,bottom", *rows]))
    objects("fit", "--boxes", table)
    assert "taught an order of views" in capsys.readouterr().out
    assert numbers(tmp_path / "fit" / "objects")["n_without_box"] == 0


def test_mistakes_are_told_in_a_sentence(
    instaaug: CommandLine, shop: Path, boxes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There is no run in 'nowhere'" in error("nowhere").replace(str(Path.cwd()) + "/", "")
    assert "brings no boxes along" in error(shop / "run")
    assert "'gone.csv'" in error(shop / "run", "--boxes", "gone.csv")
    header, first, *_ = boxes.read_text().splitlines()
    boxes.write_text(f"{header}\n{first.replace('cat', 'cow')}")
    assert "none of" in error(shop / "run", "--boxes", boxes)
    monkeypatch.setenv("INSTAAUG_CACHE", str(shop / "cache"))
    assert instaaug("train", shop / "pets", "--method", "none", "--out", "none", *QUICK).code == 0
    assert "must have learned a distribution" in error("none")
