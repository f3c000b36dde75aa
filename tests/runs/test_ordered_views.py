"""Runs that learn one order of views for all images after training."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from instaaug.errors import WeightsFileError
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.inference import evaluate_run
from instaaug.runs.loaded import load_run
from instaaug.runs.observing import observe_run
from instaaug.runs.replacing import replacing
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import load_splits, train
from tests.support.bright_corners import CORNER

CORNERS = TrainSettings.from_mapping(
    {
        "data": "tests.support.bright_corners:load",
        "model": "tests.support.bright_corners:make_model",
        "method": "random",
        "transforms": "crop",
        "optimizer.learning_rate": 1e-4,
        "trainer.max_epochs": 1,
        "trainer.accelerator": "cpu",
        "views.n_views": 3,
    }
)


@pytest.fixture(autouse=True, scope="module")
def paid() -> Iterator[None]:
    """A single epoch is short: let learning an order take longer than that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instaaug.tasks.view_order.SHARE", 100.0)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("ordered") / "run"
    train(CORNERS, path)
    return Run(path)


def test_an_order_that_beats_draws_is_what_the_run_predicts_with(run: Run) -> None:
    found = run.read_results()
    order = found["validation"]["order"]
    assert order["n_images"] == 160
    assert order["is_better"]
    assert found["validation"]["verdict"].startswith("Use 3 views in one order for all: +")
    assert "cross-validated on 160 validation images" in found["validation"]["verdict"]
    top1 = {kind: found["test"][kind]["top1"] for kind in ("plain", "augmented")}
    assert top1["augmented"] > top1["plain"] + 0.2
    assert evaluate_run(run.path) == found["test"]
    views = load_task(run).wrap_views(2).augmenter.views(torch.zeros(1, 3, 20, 20), 2)
    assert views.theta[1, 0].tolist() == pytest.approx(CORNER)


def test_predictions_and_exports_take_the_same_views(run: Run) -> None:
    loaded = load_run(run.path)
    pixels, _ = loaded.load_test_images(None).__getitems__(range(8))
    predicted, counts = loaded.make_predictor(None, None)(pixels)
    assert counts.tolist() == [3] * 8
    with torch.no_grad():
        torch.testing.assert_close(
            loaded.make_module(None).eval()(loaded.prepare(pixels)), predicted
        )
    stopped, fewer = loaded.make_predictor(None, 0.5)(pixels)
    assert fewer.tolist() == [1] * 8  # the image alone is as sure as that
    torch.testing.assert_close(stopped, loaded.make_predictor(1, None)(pixels)[0])


def test_the_page_shows_the_views_that_predictions_are_from(run: Run) -> None:
    loaded = load_run(run.path)
    images = loaded.load_test_images(None)
    seen = observe_run(loaded, images.subset(range(4)), n_views=50, n_shown=2)
    assert seen.keeps_original
    assert seen.same_views
    (factor,) = seen.factors
    assert len(factor.theta) == 30  # there are no more boxes
    assert factor.theta[1, 0].tolist() == pytest.approx(CORNER)
    pixels, _ = images.__getitems__(range(4))
    final = loaded.make_predictor(3, None)(pixels)[0].softmax(dim=1)
    torch.testing.assert_close(seen.merged[2], final)


@pytest.mark.parametrize(
    "settings",
    [
        {"views.select": "sample"},
        {"views.select": "top"},
        {"views.n_views": 31},
        {"views.merge": "probability"},
        {"transforms": ["crop", "flip"]},
        {"method": "none"},
    ],
)
def test_no_order_is_learned_where_none_is_wanted_or_possible(
    settings: dict[str, object], tmp_path: Path
) -> None:
    results = train(CORNERS.override(settings), tmp_path / "run")
    assert not Run(tmp_path / "run").order_file.exists()
    assert (results["validation"] or {"order": None})["order"] is None


def test_an_order_that_is_no_better_is_told_but_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("instaaug.tasks.view_order.ViewOrder.is_better", False)
    results = train(CORNERS, tmp_path / "run")
    assert results["validation"]["order"]["is_better"] is False
    assert "order" not in results["validation"]["verdict"]
    assert not Run(tmp_path / "run").order_file.exists()


def test_few_validation_images_teach_no_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("instaaug.tasks.view_order.FEWEST", 161)
    assert train(CORNERS, tmp_path / "run")["validation"]["order"] is None


def test_a_learned_augmenter_may_be_ordered_too(tmp_path: Path) -> None:
    config = CORNERS.override({"method": "instaaug"})
    results = train(config, tmp_path / "run")
    assert results["validation"]["order"]["n_images"] == 160
    assert len(load_splits(config).validation or ()) == 160
    assert evaluate_run(tmp_path / "run") == results["test"]


def test_a_damaged_order_is_refused(run: Run, tmp_path: Path) -> None:
    copy = Run(shutil.copytree(run.path, tmp_path / "copy"))
    copy.order_file.write_bytes(b"no tensors")
    with pytest.raises(WeightsFileError, match=r"order\.safetensors"):
        load_task(copy)


def test_a_lost_order_is_noticed(run: Run, tmp_path: Path) -> None:
    copy = Run(shutil.copytree(run.path, tmp_path / "copy"))
    copy.order_file.unlink()
    with pytest.raises(FileNotFoundError, match=r"has lost its order\.safetensors"):
        load_task(copy)


@pytest.mark.parametrize("merge", ["logit", "confidence"])
def test_ordered_views_are_merged_as_was_asked(merge: str, tmp_path: Path) -> None:
    train(CORNERS.override({"views.merge": merge}), tmp_path / "run")
    ordered = load_task(Run(tmp_path / "run")).ordered
    assert ordered is not None
    assert ordered.merge == merge


def test_a_run_with_an_order_can_be_replaced(run: Run, tmp_path: Path) -> None:
    copy = Run(shutil.copytree(run.path, tmp_path / "copy"))
    with replacing(copy.path):
        train(CORNERS.override({"views.select": "sample"}), copy.path)
    assert not copy.order_file.exists()
