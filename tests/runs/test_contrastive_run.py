"""Contrastive runs from beginning to end, on a handful of sprites and on files without classes."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from instaaug.errors import ArgumentError, WeightsFileError
from instaaug.runs.build import build_task, check_method, load_task
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.inference import evaluate_run, predict_files
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import load_splits, resume, train
from instaaug.tasks import ContrastiveTask, make_predictor
from instaaug.tasks.representation import Representation
from tests.runs.conftest import N_TEST, few_sprites
from tests.runs.test_training import Stop, rows, same_weights
from tests.support.picture_folders import noise, plain_folder

SMALL = TrainSettings.from_mapping(
    {
        "task": "contrastive",
        "trainer.max_epochs": 2,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 3,
        "trainer.accelerator": "cpu",
        "model.width": 0.25,
        "contrastive.hidden": 8,
        "contrastive.n_projected": 4,
    }
)
CROPS = SMALL.override({"transforms": "crop", "crop.grid": [[0.5, 3], [1.0, 1]]})
SCORES = {"top1", "nll", "ece", "n", "knn", "probe_decay", "probe_validation"}
METHODS: dict[str, dict[str, Any]] = {
    "none": {},
    "instaaug": {"transforms": "crop", "crop.grid": [[0.5, 3], [1, 1]]},
    "unmix": {},
    "randaugment": {},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing has happened to."""
    out = tmp_path_factory.mktemp("contrastive") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        few_sprites(patch)
        train(CROPS, out)
    return out


@pytest.mark.parametrize("method", METHODS)
def test_methods_of_every_kind_train_and_their_features_are_probed(
    method: Any, tmp_path: Path
) -> None:
    config = SMALL.override({"trainer.max_epochs": 1, "method": method, **METHODS[method]})
    results = train(config, tmp_path / "run")
    averages = method not in ("none", "randaugment")
    learned = {"learned"} if method == "instaaug" else set()
    augmented = {"augmented"} if averages else set()
    assert set(results["test"]) == {"views", "plain"} | augmented | learned
    assert set(results["test"]["plain"]) == SCORES
    assert results["test"]["plain"]["n"] == N_TEST
    assert results["test"]["views"]["n"] == 2 * N_TEST
    if averages:
        assert results["test"]["augmented"]["n_samples"] == 3
    assert evaluate_run(tmp_path / "run") == results["test"]  # from the files alone


def test_an_interrupted_run_ends_as_if_it_had_not_been(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="The plug was pulled"):
        train(CROPS, tmp_path / "halves", callbacks=[Stop()])
    resume(tmp_path / "halves")
    results = [(run / "results.json").read_bytes() for run in (whole, tmp_path / "halves")]
    assert results[0] == results[1]
    assert same_weights(whole, tmp_path / "halves")
    assert rows(whole) == rows(tmp_path / "halves")


def test_averaged_features_are_what_predictions_come_from(whole: Path) -> None:
    """Logits of a linear probe, averaged over views, are the logits of averaged features."""
    task = load_task(Run(whole))
    assert isinstance(task, ContrastiveTask)
    x = load_splits(CROPS).test.__getitems__(range(8))[0]
    encode = make_predictor(task, n_samples=3, model=task.model.encoder, merge="logit")
    assert task.averaged is not None
    logits = task.averaged.probe(encode(x))
    torch.testing.assert_close(make_predictor(task, n_samples=3)(x), logits)


@pytest.mark.parametrize(
    ("validations", "kept"),
    [((0.1, 0.2, 0.3), "ordered"), ((0.1, 0.3, 0.2), "augmented")],
)
def test_the_probe_decides_whether_all_images_have_the_same_views(
    validations: tuple[float, ...], kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, fit = iter(validations), Representation.fit
    monkeypatch.setattr(
        Representation,
        "fit",
        lambda *args, **options: replace(fit(*args, **options), validation=next(given)),
    )
    results = train(CROPS.override({"trainer.max_epochs": 1}), tmp_path / "run")
    names = ("plain", "augmented", "ordered")
    assert results["probes"] == dict(zip(names, validations, strict=True))
    task = load_task(Run(tmp_path / "run"))
    assert isinstance(task, ContrastiveTask)
    assert set(task.representations) == {"plain", kept}
    x = load_splits(CROPS).test.__getitems__(range(8))[0]
    outputs = [make_predictor(task, n_samples=3, seed=seed)(x) for seed in (0, 1)]
    assert torch.equal(*outputs) == (kept == "ordered")  # draws differ
    assert evaluate_run(tmp_path / "run") == results["test"]
    if kept == "ordered":
        (tmp_path / "run" / "order.safetensors").unlink()
        with pytest.raises(FileNotFoundError, match=r"has lost its order\.safetensors"):
            load_task(Run(tmp_path / "run"))


@pytest.mark.parametrize("changes", [{"views.select": "sample"}, {"transforms": "rotation"}])
def test_views_are_drawn_where_that_is_asked_for_or_there_are_no_boxes(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    results = train(
        CROPS.override({"trainer.max_epochs": 1, "crop.grid": SMALL.crop.grid, **changes}),
        tmp_path / "run",
    )
    assert set(results["probes"]) == {"plain", "augmented"}
    assert not (tmp_path / "run" / "order.safetensors").exists()


def test_files_are_predicted_by_the_probe(tmp_path: Path) -> None:
    folder = plain_folder(tmp_path / "pictures")
    config = CROPS.override({"data": str(folder), "trainer.max_epochs": 4})
    results = train(config, tmp_path / "run")
    assert results["test"]["augmented"]["top1"] == 1.0  # they differ in brightness
    predicted = list(predict_files(tmp_path / "run", [folder / "dog"]))
    right = [row["label"] == "dog" for row in predicted]
    assert sum(right) > 0.8 * len(right)


def test_a_folder_without_classes_is_enough(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(40):
        Image.fromarray(noise(50 + 3 * number, number)).save(folder / f"{number}.png")
    results = train(
        CROPS.override({"data": str(folder), "trainer.max_epochs": 1}), tmp_path / "run"
    )
    assert set(results["test"]) == {"views", "learned"}
    assert not (tmp_path / "run" / "probe.safetensors").exists()
    assert evaluate_run(tmp_path / "run") == results["test"]
    with pytest.raises(ArgumentError, match="Nothing has learned classes yet"):
        list(predict_files(tmp_path / "run", [folder]))


def test_a_damaged_probe_is_named(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    path = tmp_path / "run" / "probe.safetensors"
    tensors = load_file(path)
    save_file({k: v for k, v in tensors.items() if k != "plain.probe.weight"}, path)
    with pytest.raises(WeightsFileError, match=r"probe\.safetensors' is not as the run wrote it"):
        load_task(Run(tmp_path / "run"))
    path.write_bytes(b"nothing")
    with pytest.raises(WeightsFileError, match=r"probe\.safetensors' is not as the run wrote it"):
        load_task(Run(tmp_path / "run"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "mixup"}, "`task` must be .* for the method mixup: got 'contrastive'"),
        ({"method": "adaaug"}, "`task` must be .* for the method adaaug: got 'contrastive'"),
        ({"phi.conditioning": "class"}, "`phi.conditioning` must do without labels"),
        ({"n_samples": 2}, "two samples of each image"),
        ({"phi.step": "separate"}, "two samples of each image"),
        ({"task": "classification", "method": "unmix"}, "`task` must be contrastive for the"),
    ],
)
def test_what_cannot_be_is_refused_before_training(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        check_method(SMALL.override(settings))


def test_settings_reach_the_task() -> None:
    config = SMALL.override({"contrastive.hidden": 5, "contrastive.n_projected": 3})
    task = build_task(config, DataFacts.of(load_splits(config)))
    assert isinstance(task, ContrastiveTask)
    assert tuple(task.model.state_dict()["projection.3.weight"].shape) == (3, 5)


def test_the_rate_drops_in_steps(tmp_path: Path) -> None:
    config = SMALL.override(
        {
            "trainer.max_epochs": 10,
            "method": "none",
            "optimizer.schedule": "steps",
            "optimizer.drops": [0.5, 0.8],
            "optimizer.drop_factor": 0.1,
            "optimizer.learning_rate": 1e-3,
            "optimizer.warmup_steps": 3,
        }
    )
    train(config, tmp_path / "run")
    rates = [float(row["learning_rate"]) for row in rows(tmp_path / "run")]
    assert rates[0] == pytest.approx(1e-3)
    assert rates[4] == pytest.approx(1e-4)  # what the next step has
    assert rates[8] == pytest.approx(1e-5)
