"""Training runs from beginning to end, on a handful of sprites."""

import csv
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from safetensors.torch import load_file
from typing_extensions import override

from instaaug.data import DataSplits
from instaaug.errors import ArgumentError, InstaAugError, ShapeError
from instaaug.runs import training
from instaaug.runs.build import build_task
from instaaug.runs.folder import Run
from instaaug.runs.inference import evaluate_run
from instaaug.runs.lightning import quiet_lightning
from instaaug.runs.loaded import load_run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import load_splits, resume, train
from tests.runs.conftest import N_TEST, N_TRAIN
from tests.support.picture_folders import gray_levels
from tests.support.tiny_training import labeled_halves

SMALL = TrainSettings.from_mapping(
    {
        "trainer.max_epochs": 2,
        "data.batch_size": 16,
        "data.image_size": 16,
        "views.n_views": 2,
        "trainer.accelerator": "cpu",
    }
)
SCORES = {"top1", "nll", "ece", "n"}


def same_weights(first: Path, second: Path) -> bool:
    """Whether two runs learned the same to the last bit; the order within a file is free."""
    files = [f for f in ("model.safetensors", "aug.safetensors") if (first / f).exists()]
    pairs = [(load_file(first / file), load_file(second / file)) for file in files]
    return all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a) for a, b in pairs
    )


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("method", ["none", "random", "instaaug"])
def test_every_method_trains_and_returns_its_results(method: Any, tmp_path: Path) -> None:
    results = train(SMALL.override({"method": method}), tmp_path / "run")
    assert set(results) == {
        *("data", "method", "seed", "n_train", "n_test", "skipped", "split_hash", "steps", "test"),
        *("validation", "diagnostics"),
    }
    n_validation = round(0.1 * N_TRAIN)
    assert (results["n_train"], results["n_test"]) == (N_TRAIN - n_validation, N_TEST)
    assert results["steps"] == 2 * 3  # epochs, and batches of 16 among 43 images
    assert (results["data"], results["method"], results["seed"]) == ("sprites", method, 0)
    assert results["skipped"] == []
    parts = {"none": set(), "random": {"augmented"}, "instaaug": {"augmented", "learned"}}
    assert set(results["test"]) == {"plain"} | parts[method]
    assert set(results["test"]["plain"]) == SCORES
    assert results["test"]["plain"]["n"] == N_TEST
    assert (tmp_path / "run" / "aug.safetensors").exists() == (method == "instaaug")


def test_augmented_scores_and_learned_numbers_say_what_they_are(tmp_path: Path) -> None:
    test = train(SMALL, tmp_path / "run")["test"]
    assert set(test["augmented"]) == SCORES | {"n_samples"}
    assert test["augmented"]["n_samples"] == 2
    assert set(test["learned"]) == {"rotation"}
    told = {"entropy", "band", "weight", "ranges", "spread", "edges"}
    assert set(test["learned"]["rotation"]) == told


def test_one_seed_is_bit_identical_and_another_is_not(tmp_path: Path) -> None:
    first, second, other = (
        train(SMALL.override({"seed": seed}), tmp_path / name)
        for name, seed in (("first", 0), ("second", 0), ("other", 1))
    )
    assert first == second
    assert same_weights(tmp_path / "first", tmp_path / "second")
    assert rows(tmp_path / "first") == rows(tmp_path / "second")
    pictures = [(tmp_path / run / "samples.png").read_bytes() for run in ("first", "second")]
    assert pictures[0] == pictures[1]
    assert first["split_hash"] != other["split_hash"]
    assert not same_weights(tmp_path / "first", tmp_path / "other")
    assert rows(tmp_path / "first") != rows(tmp_path / "other")


def test_the_random_state_outside_does_not_matter(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = train(SMALL.override({"trainer.max_epochs": 1}), tmp_path / "first")
    torch.manual_seed(2)
    assert train(SMALL.override({"trainer.max_epochs": 1}), tmp_path / "second") == first


class Stop(Callback):
    """Pulls the plug in the middle of the second epoch."""

    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if trainer.current_epoch == 1 and batch_idx == 1:
            raise RuntimeError("The plug was pulled.")


WITH_STATE: dict[str, dict[str, Any]] = {
    "instaaug": {},
    "instaaug in closed form": {
        "transforms": "crop",
        "phi.estimator": "closed_form",
        "phi.network": "model",
    },
    "instaaug cross-fitted": {
        "transforms": "crop",
        "phi.estimator": "closed_form",
        "phi.signal": "rotating",
        "phi.signal_share": 1.0,
    },
    "instaaug decoded": {"transforms": "uniform_crop", "phi.ranges": "latent"},
    "instaaug undone": {"transforms": "hsv_jitter", "phi.undo": 0.5},
    "augerino": {},
    "adaaug": {"method.search_every": 1},
    "puzzlemix": {},
    "comixup": {"method.group": 4, "method.n_sweeps": 2},
    "saliency_grafting": {},
    "mixmo": {"n_samples": 2},
    "metaaugment": {"method.refresh_every": 2},
    "fast_autoaugment": {
        "method.n_folds": 1,
        "method.n_trials": 3,
        "method.n_images": 8,
        "method.fold_epochs": 1,
    },
}


@pytest.mark.parametrize("method", WITH_STATE)
def test_an_interrupted_run_ends_as_if_it_had_not_been(method: Any, tmp_path: Path) -> None:
    config = SMALL.override({"method": method.split()[0], **WITH_STATE[method]})
    whole = train(config, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="The plug was pulled"):
        train(config, tmp_path / "halves", callbacks=[Stop()])
    assert not (tmp_path / "halves" / "results.json").exists()
    assert resume(tmp_path / "halves") == whole
    assert same_weights(tmp_path / "whole", tmp_path / "halves")
    assert rows(tmp_path / "whole") == rows(tmp_path / "halves")


def test_a_run_without_a_checkpoint_starts_again(tmp_path: Path) -> None:
    config = SMALL.override({"trainer.max_epochs": 1})
    whole = train(config, tmp_path / "whole")
    Run(tmp_path / "empty").start(config)
    assert resume(tmp_path / "empty") == whole


@pytest.mark.parametrize("method", ["none", "random", "instaaug", "metaaugment"])
def test_a_model_sees_views_of_the_size_it_is_made_for(method: str, tmp_path: Path) -> None:
    config = SMALL.override(
        {
            "model": "tests.support.tiny_training:linear_8",
            "method": method,
            "crop.size": 8,
            "pretrain_epochs": 1,
        }
    )
    results = train(config, tmp_path / "run")
    facts = Run(tmp_path / "run").read_facts()
    assert (facts.image_size, facts.decode_size) == (8, 16)
    assert evaluate_run(tmp_path / "run") == results["test"]
    assert evaluate_run(tmp_path / "run", data="sprites")["plain"]["n"] == N_TEST
    pixels = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
    outputs, _ = load_run(tmp_path / "run").make_predictor(None, None)(pixels)
    assert outputs.shape == (2, 4)


def test_a_regression_on_the_angle_of_a_sprite(tmp_path: Path) -> None:
    config = SMALL.override({"data": "sprite-angle", "task": "regression", "method": "random"})
    test = train(config, tmp_path / "run")["test"]
    assert set(test["plain"]) == set(test["augmented"]) - {"n_samples"}
    assert set(test["plain"]) == {"rmse", "mae", "r2", "n"}
    assert "validation/rmse" in rows(tmp_path / "run")[0]


def test_without_validation_every_image_trains(tmp_path: Path) -> None:
    config = SMALL.override({"trainer.max_epochs": 1, "data.validation_fraction": 0.0})
    assert train(config, tmp_path / "run")["n_train"] == N_TRAIN
    assert not any(name.startswith("validation") for name in rows(tmp_path / "run")[0])


def test_a_plateau_lowers_the_learning_rate_when_nothing_improves(tmp_path: Path) -> None:
    config = SMALL.override(
        {
            "trainer.max_epochs": 13,
            "method": "none",
            "optimizer": "sgd",
            "optimizer.learning_rate": 1e-12,
            "optimizer.schedule": "plateau",
        }
    )
    train(config, tmp_path / "run")
    rates = [float(row["learning_rate"]) for row in rows(tmp_path / "run")]
    assert rates[:11] == [1e-12] * 11  # the first epoch, and ten without improvement
    assert rates[-1] == pytest.approx(0.9e-12)


@pytest.mark.parametrize(
    ("settings", "factors"),
    [
        ({"transforms": ["crop", "hsv_jitter"]}, {"crop", "hsv_jitter"}),
        ({"phi.conditioning": "none"}, {"rotation"}),
        ({"phi.conditioning": "none", "transforms": "crop"}, {"crop"}),
        ({"phi.conditioning": "class"}, None),  # depends on the label, which a test image lacks
        ({"n_samples": 2, "phi.baseline": "rloo", "transforms": "crop"}, {"crop"}),
        ({"entropy.rule": "fixed", "padding_mode": "border", "data.flip": True}, {"rotation"}),
        (
            {
                "trainer.accumulate_grad_batches": 2,
                "trainer.gradient_clip_val": 0.1,
                "loss.label_smoothing": 0.1,
            },
            {"rotation"},
        ),
        ({"views.select": "top", "views.merge": "probability", "transforms": "crop"}, {"crop"}),
        ({"model": "preact_resnet18", "model.width": 0.125}, {"rotation"}),
    ],
)
def test_settings_go_all_the_way_through(
    settings: dict[str, Any], factors: set[str] | None, tmp_path: Path
) -> None:
    results = train(SMALL.override({"trainer.max_epochs": 1, **settings}), tmp_path / "run")
    assert set(results["test"].get("learned", ())) == (factors or set())
    again = evaluate_run(tmp_path / "run")
    assert again == results["test"]


def test_epochs_without_augmentation_leave_the_augmenter_as_it_was(tmp_path: Path) -> None:
    rested, awake = (
        SMALL.override({"trainer.max_epochs": 1, "phi.rest_epochs": n, "phi.schedule": "plateau"})
        for n in (1, 0)
    )
    train(rested, tmp_path / "rested")
    train(awake, tmp_path / "awake")
    first = Run(tmp_path / "rested")
    start = build_task(rested, first.read_facts()).augmenter.state_dict()
    learned = {run: load_file(tmp_path / run / "aug.safetensors") for run in ("rested", "awake")}
    chosen = ("phi.shared", "phi.dependence")  # on validation images, afterwards
    weights = [name for name in start if name.startswith("phi") and name not in chosen]
    assert weights
    assert all(torch.equal(start[name], learned["rested"][name]) for name in weights)
    assert not all(torch.equal(start[name], learned["awake"][name]) for name in weights)


def test_images_must_be_held_out_for_the_result(tmp_path: Path) -> None:
    config = SMALL.override(
        {"data": str(gray_levels(tmp_path / "a.npz")), "data.test_fraction": 0.0}
    )
    with pytest.raises(
        ArgumentError, match=r"`data.test_fraction` must be above 0 .*: got 0\.0\."
    ):
        train(config, tmp_path / "run")


def test_a_model_with_other_outputs_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "seven_outputs.py").write_text(
        "from instaaug.networks import SmallCNN\ndef make(n):\n    return SmallCNN(7)\n"
    )
    with pytest.raises(ShapeError, match=r"\(2, 4\) for 2 images of 4 classes: got \(2, 7\)"):
        train(SMALL.override({"model": "seven_outputs:make"}), tmp_path / "run")


def test_a_method_that_searches_keeps_images_from_the_model(tmp_path: Path) -> None:
    config = SMALL.override({"trainer.max_epochs": 1, "data.validation_fraction": 0.0})
    whole = train(config, tmp_path / "whole")
    results = train(
        config.override({"method": "adaaug", "data.held_out_fraction": 0.25}), tmp_path / "run"
    )
    assert results["n_train"] == round(0.75 * N_TRAIN)
    assert results["split_hash"] == whole["split_hash"]  # the same images all the same


def test_a_share_of_the_training_images_will_do_for_a_trial() -> None:
    whole, half = load_splits(SMALL), load_splits(SMALL.override({"data.train_fraction": 0.5}))
    assert len(half.train) == pytest.approx(len(whole.train) / 2, abs=1)
    assert len(half.test) == len(whole.test)
    assert half.hash != whole.hash


def test_splits_are_those_of_the_settings() -> None:
    first, again = load_splits(SMALL), load_splits(SMALL)
    assert first.hash == again.hash
    assert load_splits(SMALL.override({"data.validation_fraction": 0.5})).hash != first.hash


@pytest.mark.parametrize(
    ("transforms", "n_images", "n_phi", "n_unseen"),
    [
        ("crop", 200, 150, 50),
        ("crop", 100, 58, 42),
        ("crop", 40, 40, 40),
        ("rotation", 40, 40, 40),
    ],
)
def test_what_phi_learns_from_chooses_nothing(
    transforms: str, n_images: int, n_phi: int, n_unseen: int
) -> None:
    """φ of crops learns from validation images; that of rotations does not."""
    images = labeled_halves(n_images, side=16)
    splits = DataSplits(images, images, labeled_halves(8, side=16, seed=1))
    seen, unseen = training.share_validation(SMALL.override({"transforms": transforms}), splits)
    assert (len(seen or ()), len(unseen or ())) == (n_phi, n_unseen)
    rows = [set(part.rows) for part in (seen, unseen) if part and part.rows is not None]
    assert len(rows) == 2 * (n_unseen < n_images)
    assert not set.intersection(*rows or [set()])


@pytest.mark.parametrize(
    ("words", "kind", "told"),
    [
        (
            "[gloo/tcp/pair.cc:5] Read error: Connection reset by peer. Look elsewhere.",
            InstaAugError,
            r"Another process of this run has ended, or cannot be reached \(Read error: "
            r"Connection reset by peer\)\. Go on with `instaaug resume .*run` from the last",
        ),
        ("a bug", RuntimeError, "a bug"),
    ],
)
def test_a_process_that_is_gone_is_one_sentence(
    words: str, kind: type[Exception], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: object, **__: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr("instaaug.runs.training.Trainer.fit", fit)
    with pytest.raises(kind, match=told):
        train(SMALL, tmp_path / "run")


def test_a_thread_that_cannot_write_prints_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: printed.append(str(args.exc_value)))

    class _AsyncWriterThread(threading.Thread):
        """Named like that of TensorBoard."""

    def fail(error: Exception) -> None:
        raise error

    with quiet_lightning():
        for kind in (_AsyncWriterThread, threading.Thread):
            for error in (OSError(f"disk, {kind.__name__}"), ValueError(f"bug, {kind.__name__}")):
                thread = kind(target=fail, args=(error,))
                thread.start()
                thread.join()
    assert printed == ["bug, _AsyncWriterThread", "disk, Thread", "bug, Thread"]
