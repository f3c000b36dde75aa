"""``instaaug transfer``: a folder and a backbone to a classifier, and all that uses the run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.errors import ArgumentError, DataError
from instaaug.runs.folder import Run
from instaaug.runs.inference import evaluate_run, export_run, predict_files
from instaaug.runs.loaded import load_run
from instaaug.runs.reporting import write_report
from instaaug.runs.settings import TransferSettings
from instaaug.runs.transfer import fit_backbone, load_frozen
from tests.support.spots import COLORS, spot_folder

FILES = {
    "config.yaml", "environment.json", "data.json", "fit_images.txt", "table", "head.safetensors",
    "aug.safetensors", "transfer.json", "policy.json", "results.json", "timing.json",
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "backbone": {"name": "tests.support.spots:spotter", "image_size": 16},
    "crop": {"grid": [[1, 1], [0.5, 2]]}, "views": {"counts": [2, 4], "steps": 2},
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images, and a run that has learned from them."""
    place = tmp_path_factory.mktemp("transfer")
    spot_folder(place / "spots", 10)
    fit_backbone(settings(place), place / "run")
    return place


def settings(place: Path, **more: Any) -> TransferSettings:
    values = {**SETTINGS, "data": {"source": str(place / "spots"), "cache_dir": str(place / "c")}}
    return TransferSettings.from_mapping(values).override(more)


def test_the_run_has_all_files(place: Path) -> None:
    names = {path.name for path in (place / "run").iterdir()}
    assert names - {"crops.png", "report", "eval.json", "cost_curve.png"} == FILES
    results = Run(place / "run").read_results()
    assert [row["views"] for row in results["rows"]][:3] == [1, 2, 4]
    assert results["rows"][-1]["accuracy"] > 0.6
    assert results["transfer"]["candidates"]


def test_a_finished_run_is_not_repeated(place: Path) -> None:
    before = (place / "run" / "timing.json").read_bytes()
    assert fit_backbone(settings(place), place / "run") == Run(place / "run").read_results()
    assert (place / "run" / "timing.json").read_bytes() == before
    with pytest.raises(ArgumentError, match=r"`out` must be a new folder.*seed 0 instead of 1"):
        fit_backbone(settings(place, seed=1), place / "run")


def test_it_is_loaded_as_it_was(place: Path) -> None:
    fitted = load_frozen(Run(place / "run"))
    loaded = load_run(place / "run")
    assert loaded.classes == COLORS
    assert loaded.n_views == 5
    images = loaded.load_test_images(None)
    pixels = images.__getitems__(range(len(images)))[0]
    outputs, _ = loaded.make_predictor(4, None)(pixels)
    share = (outputs.argmax(dim=1) == images.targets).double().mean()
    rows = {row["name"]: row for row in Run(place / "run").read_results()["rows"]}
    assert float(share) == pytest.approx(rows["4 views"]["accuracy"])
    assert isinstance(fitted.config, TransferSettings)


def test_files_are_predicted_and_scored(place: Path) -> None:
    files = sorted((place / "spots").rglob("*.png"))[:3]
    rows = list(predict_files(place / "run", files))
    assert {row["label"] for row in rows} <= set(COLORS)
    with pytest.raises(ArgumentError, match=r"`calibrate` must be left out .* whose head knows"):
        evaluate_run(place / "run", calibrate=True)
    scores = evaluate_run(place / "run", baselines="grid", n_views=(1, 4))
    assert {"learned views", "uniform grid"} <= {row["name"] for row in scores["rows"]}


def test_the_views_are_exported(place: Path, tmp_path: Path) -> None:
    assert export_run(place / "run", tmp_path / "views.json") is None
    difference = export_run(place / "run", tmp_path / "phi.pt2", part="phi")
    assert difference is not None
    assert difference < 1e-4


@pytest.mark.slow
def test_the_run_has_a_page(place: Path, tmp_path: Path) -> None:
    report = write_report([place / "run"], tmp_path / "page", n_inputs=4)
    assert "Head and learned views" in report.page.read_text(encoding="utf-8")


def test_another_backbone_is_noticed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support import spots

    other = spots.spotter()
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    monkeypatch.setattr(spots, "spotter", lambda: other)
    with pytest.raises(ArgumentError, match="`backbone` must be the one that the head was fitted"):
        load_frozen(Run(place / "run"))


def test_data_in_parts_keep_their_test_set(tmp_path: Path) -> None:
    spot_folder(tmp_path / "spots" / "train", 6)
    spot_folder(tmp_path / "spots" / "test", 6, seed=1)
    results = fit_backbone(settings(tmp_path), tmp_path / "run")
    n_train = len(list((tmp_path / "spots" / "train").rglob("*.png")))
    assert results["n_fit"] == n_train
    assert results["n_test"] == n_train


def test_one_class_is_refused_and_leaves_no_run(tmp_path: Path) -> None:
    spot_folder(tmp_path / "all", 3)
    (tmp_path / "spots").mkdir()
    (tmp_path / "all" / "red").rename(tmp_path / "spots" / "red")
    with pytest.raises(DataError, match="at least two classes: got 1"):
        fit_backbone(settings(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_both_data_and_backbone_are_needed() -> None:
    with pytest.raises(ArgumentError, match=r"`data` and `backbone` must be given.*--backbone"):
        TransferSettings.from_mapping({"data": "photos"})


def test_results_are_plain_json(place: Path) -> None:
    notes = json.loads((place / "run" / "transfer.json").read_text())
    assert notes["format"] == "instaaug-transfer/1"
    assert notes["results"]["chosen"]["name"]
