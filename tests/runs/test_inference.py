"""A finished run is scored on the images it has not learned from, or on others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instaaug.errors import ArgumentError
from instaaug.runs import inference
from instaaug.runs.folder import Run
from instaaug.runs.inference import evaluate_run, export_run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from instaaug.runs.tta_evaluation import EarlyStop
from tests.runs.conftest import N_TEST, few_sprites

SMALL = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 1,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 2,
        "trainer.accelerator": "cpu",
    }
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scored") / "run"
    with pytest.MonkeyPatch.context() as patch:
        few_sprites(patch)
        train(SMALL, out)
    return out


def test_no_samples_means_no_augmentation(run: Path) -> None:
    assert set(evaluate_run(run, n_views=[0])) == {"plain", "learned"}


def test_the_number_of_samples_can_be_chosen(run: Path) -> None:
    assert evaluate_run(run, n_views=[5])["augmented"]["n_samples"] == 5


def test_other_images_are_a_test_set_where_there_is_one(run: Path) -> None:
    assert evaluate_run(run, data="sprites")["plain"]["n"] == N_TEST


@pytest.mark.parametrize(
    ("side", "channels"), [(20, 3), (16, 1)], ids=["another size", "another number of channels"]
)
def test_other_images_must_have_the_shape_that_was_trained(
    run: Path, tmp_path: Path, side: int, channels: int
) -> None:
    images = np.zeros((8, side, side, channels), dtype=np.uint8)
    classes = np.array(Run(run).read_facts().classes)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(8) % 4, classes=classes)
    words = f"`size` and `channels` must be those of 'a.npz', .* {side} pixels and {channels} ch"
    with pytest.raises(ArgumentError, match=words):
        evaluate_run(run, data=str(tmp_path / "a.npz"))


def test_scores_on_images_that_were_added_since_are_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instaaug.data.sprites.N_TEST", N_TEST + 1)
    with pytest.raises(ArgumentError, match="`data` must be the same as when the run began"):
        evaluate_run(run)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"baselines": "all"}, "compare views of a frozen model: .* is a training run. Fit views"),
        ({"stops": [EarlyStop(certainty=0.9)]}, "compare views of a frozen model"),
        ({"calibrate": True}, "compare views of a frozen model"),
        ({"n_views": [1, 4]}, r"`views` must be one number for a training run: got \[1, 4\]"),
    ],
)
def test_what_only_a_fit_of_views_can_do_is_refused(
    run: Path, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        evaluate_run(run, **asked)


def test_other_images_have_no_options_of_the_own(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"source": "my:images", "options": {"n": 3}}
    Run(tmp_path).start(SMALL.override({"data": own, "transforms": "rotation"}))
    for name in ("data.json", "model.safetensors", "aug.safetensors"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    asked = []

    def load_data(source: str, **arguments: Any) -> None:
        asked.append((source, arguments["options"]))
        raise RuntimeError("That will do.")

    monkeypatch.setattr(inference, "load_data", load_data)
    for source in ("my:images", "sprites"):
        with pytest.raises(RuntimeError, match="That will do"):
            evaluate_run(tmp_path, data=source)
    assert asked == [("my:images", {"n": 3}), ("sprites", {})]


def test_a_file_of_another_kind_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"`file` must end in \.onnx or \.pt2, or in \.json"):
        export_run(run, tmp_path / "phi.pth")
    with pytest.raises(ArgumentError, match="`run` must be the folder of `instaaug tta fit`"):
        export_run(run, tmp_path / "policy.json")
