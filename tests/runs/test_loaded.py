"""A run of any kind is loaded as what it was when it ended."""

from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.errors import ArgumentError, DataError
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.loaded import load_run
from instaaug.runs.settings import TrainSettings, TtaSettings
from instaaug.runs.training import train
from instaaug.runs.tta import fit_frozen, load_fitted
from instaaug.tasks import make_predictor
from tests.support.spots import COLORS, spot_folder

TRAIN = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 1,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 2,
        "trainer.accelerator": "cpu",
    }
)


@pytest.fixture
def fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr("instaaug.runs.tta.crops_figure", lambda *_: None)
    config = TtaSettings.from_mapping(
        {
            "model": {"name": "tests.support.spots:spotter", "image_size": 16},
            "data": str(spot_folder(tmp_path / "spots", 8)),
            "crop.grid": [[1, 1], [0.5, 2]],
            "views": [2, 4],
            "phi.steps": 2,
        }
    )
    fit_frozen(config, tmp_path / "fit")
    return Run(tmp_path / "fit")


def train_run(folder: Path, **settings: Any) -> Run:
    train(TRAIN.override(settings), folder)
    return Run(folder)


def test_a_training_run_predicts_as_its_task(tmp_path: Path) -> None:
    run = train_run(tmp_path / "run")
    loaded, task = load_run(run.path), load_task(run)
    pixels = loaded.load_test_images(None).__getitems__(range(5))[0]
    for n_views, expected in ((None, 0), (0, 0), (3, 3)):  # no validation images advise views
        outputs, counts = loaded.make_predictor(n_views, None)(pixels)
        assert torch.equal(outputs, make_predictor(task, n_samples=expected)(pixels))
        assert counts.tolist() == [max(expected, 1)] * 5
    _, counts = loaded.make_predictor(4, 1e-6)(pixels)
    assert counts.tolist() == [1] * 5  # any class is as certain as that
    assert (loaded.n_views, loaded.test_views, loaded.ranks_views) == (None, 2, False)


def test_certainty_needs_classes_and_views(tmp_path: Path) -> None:
    angle = train_run(tmp_path / "angle", data="sprite-angle", task="regression")
    alone = train_run(tmp_path / "alone", method="none")
    for run in (angle, alone):
        with pytest.raises(
            ArgumentError, match="`certainty` needs a run that tells classes apart"
        ):
            load_run(run.path).make_predictor(4, 0.9)


def test_a_fit_predicts_as_its_calibrated_views(fit: Run) -> None:
    loaded, fitted = load_run(fit.path), load_fitted(fit)
    images = loaded.load_test_images(None)
    pixels = images.__getitems__(range(len(images)))[0]
    for n_views, expected in ((None, 4), (0, 1), (2, 2)):
        logits, counts = fitted.predictor(expected)(fitted.model.prepare(pixels))
        outputs, found = loaded.make_predictor(n_views, None)(pixels)
        assert torch.equal(found, counts)
        assert torch.equal(outputs, fitted.calibrate(logits, counts))
    assert (loaded.classes, loaded.n_targets) == (COLORS, 3)
    assert (loaded.n_views, loaded.test_views, loaded.ranks_views) == (5, 4, True)


def test_a_fit_without_temperatures_is_refused(fit: Run) -> None:
    fit.write_json(fit.results_file, {})
    with pytest.raises(
        DataError, match=r"results\.json' must be as the run wrote it: it has no t"
    ):
        load_fitted(fit)


def test_a_run_of_another_kind_is_named(fit: Run, tmp_path: Path) -> None:
    assert isinstance(fit.read_settings(), TtaSettings)
    with pytest.raises(ArgumentError, match=r"`run` must be a folder of `instaaug train`: .*fit`"):
        load_task(fit)
    run = Run(tmp_path / "run")
    run.start(TRAIN)
    with pytest.raises(ArgumentError, match="`run` must be the folder of `instaaug tta fit`: "):
        load_fitted(run)


def test_a_fit_goes_on_in_its_folder_and_no_other_does(fit: Run) -> None:
    config = fit.read_tta_settings()
    before = fit.augmenter_file.stat().st_mtime_ns
    assert fit_frozen(config.override({"threads": 1}), fit.path) == fit.read_results()
    assert fit.augmenter_file.stat().st_mtime_ns == before
    with pytest.raises(
        ArgumentError, match=r"has phi.steps 2 instead of 3. Choose another folder"
    ):
        fit_frozen(config.override({"phi.steps": 3}), fit.path)
    fit.results_file.unlink()
    with pytest.raises(FileNotFoundError, match=r"has not finished: there is no results.json"):
        load_fitted(fit)


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"There is no run in .*nothing"):
        load_run(tmp_path / "nothing")
