"""Fine-tuning of published weights: what they expect, how fast they learn, and that runs last."""

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.inference import evaluate_run
from instaaug.runs.pretrained import (
    backbone_of,
    backbone_rate,
    describe_pretrained,
    settle_pretrained,
)
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import resume, train
from tests.support import fake_timm
from tests.support.fake_timm import MEAN, SIZE, STD, WEIGHT, FakeModel
from tests.support.picture_folders import plain_folder


@pytest.fixture(autouse=True)
def _timm(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_timm.install(monkeypatch)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return plain_folder(tmp_path / "photos")


def settings(photos: Path | str, **more: Any) -> TrainSettings:
    return TrainSettings.from_mapping(
        {
            "data": str(photos), "model": "timm:tiny", "model.pretrained": True,
            "trainer.max_epochs": 2, "data.batch_size": 8, "views.n_views": 2,
            "trainer.accelerator": "cpu", "data.validation_fraction": 0.25, **more,
        }
    )  # fmt: skip


# What is settled beforehand


def test_size_channels_and_normalization_are_those_of_the_weights(photos: Path) -> None:
    config = settle_pretrained(settings(photos))
    assert (config.data.image_size, config.data.channels) == (SIZE, 3)
    assert (config.model.mean, config.model.std) == (MEAN, STD)
    assert settle_pretrained(config) == config


def test_what_was_given_stays(photos: Path) -> None:
    given = {"data.image_size": 24, "model.mean": [0.0], "model.std": [1.0]}
    config = settle_pretrained(settings(photos, **given))
    assert config.data.image_size == 24
    assert (config.model.mean, config.model.std) == ((0.0,), (1.0,))
    assert config.data.channels == 3


def test_gray_images_are_normalized_with_the_mean_over_the_channels(photos: Path) -> None:
    config = settle_pretrained(settings(photos, **{"data.channels": 1}))
    assert config.model.mean == pytest.approx((0.4,))
    assert config.data.channels == 1


def test_images_that_come_as_they_are_keep_their_size() -> None:
    config = settle_pretrained(settings("sprites"))
    assert (config.data.image_size, config.data.channels) == (None, None)
    assert config.model.mean == MEAN


def test_other_models_are_not_asked() -> None:
    config = TrainSettings()
    assert settle_pretrained(config) is config


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("auto", r"`model.pretrained` is for timm:NAME, .* got the model 'auto'. Name one of"),
        ("tests.support.spots:spotter", r"returns its model with the weights that it has: leave"),
    ],
)
def test_models_without_published_weights_are_refused(model: str, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        settle_pretrained(settings("sprites", model=model))
    given = {"model.mean": [0.0], "model.std": [1.0]}
    with pytest.raises(ArgumentError, match=words):
        settle_pretrained(settings("sprites", model=model, **given))


def test_what_was_settled_is_said(photos: Path) -> None:
    said = describe_pretrained(settle_pretrained(settings(photos)))
    assert said == (
        "timm:tiny begins with its published weights, its last layer made for these classes. "
        "Images have 16 × 16 pixels, in color, normalized with mean 0.5, 0.4, 0.3 and standard "
        "deviation 0.2, 0.2, 0.25; all layers but the last learn at 0.1 of the rate."
    )


# Rates


@pytest.mark.parametrize(
    ("given", "rate"),
    [({}, 0.1), ({"optimizer.backbone_rate": 0.5}, 0.5), ({"model.pretrained": False}, 1.0)],
)
def test_a_tenth_is_the_rate_of_weights_that_were_trained(
    given: dict[str, Any], rate: float
) -> None:
    assert backbone_rate(settings("sprites", **given)) == rate


def test_all_but_the_classifier_is_slower() -> None:
    model = FakeModel("tiny", 2, 3)
    slow = {id(p) for p in backbone_of(model, settings("sprites"))}
    names = [name for name, p in model.named_parameters() if id(p) not in slow]
    assert names == ["fc.weight", "fc.bias"]
    assert backbone_of(model, settings("sprites", **{"optimizer.backbone_rate": 1})) == []


def test_a_rate_of_zero_leaves_the_published_weights_alone(photos: Path, tmp_path: Path) -> None:
    train(settings(photos, **{"optimizer.backbone_rate": 0}), tmp_path / "run")
    model: Any = load_task(Run(tmp_path / "run")).model
    assert torch.equal(model.mix.weight, torch.full((4, 4), WEIGHT))
    assert not torch.equal(model.fc.weight, torch.full((3, 4), WEIGHT))


# Runs


class Stop(Callback):
    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if trainer.current_epoch == 1:
            raise RuntimeError("The plug was pulled")


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_run_resumes_and_is_used_without_the_published_weights(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, whole, half = settings(photos), tmp_path / "whole", tmp_path / "half"
    train(config, whole)
    with pytest.raises(RuntimeError, match="The plug was pulled"):
        train(config, half, callbacks=[Stop()])
    asked: list[bool] = []

    def create_model(name: str, *, pretrained: bool = False, **more: Any) -> nn.Module:
        asked.append(pretrained)
        return fake_timm.create_model(name, **more)

    monkeypatch.setattr("timm.create_model", create_model)
    resume(half)
    evaluate_run(half)
    assert asked
    assert not any(asked)
    first, second = (load_task(Run(path)).model for path in (whole, half))
    assert isinstance(first, nn.Module)
    assert isinstance(second, nn.Module)
    assert torch.equal(weights(first), weights(second))
    facts = Run(half).read_facts()
    assert (facts.image_size, facts.mean, facts.std) == (SIZE, MEAN, STD)


def test_weights_that_cannot_be_had_are_answered_and_leave_no_folder(
    photos: Path, tmp_path: Path
) -> None:
    words = r"'timm:offline' cannot load its weights: We cannot find .* timm:local-dir:FOLDER\."
    with pytest.raises(ArgumentError, match=words):
        train(settings(photos, model="timm:offline"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["classification", "contrastive"])
@pytest.mark.parametrize("option", ["data.image_size", "crop.size"])
def test_a_size_that_the_model_cannot_take_is_answered(
    task: str, option: str, photos: Path, tmp_path: Path
) -> None:
    words = (
        rf"`{option}` must be a size that the model takes: 'timm:fixed' is made for 16 × 16 "
        rf"pixels, got 8 × 8 .* Give --{option} 16\."
    )
    with pytest.raises(ArgumentError, match=words):
        train(
            settings(photos, model="timm:fixed", task=task, **{option: 8}),
            tmp_path / "run",
        )


def test_a_model_that_does_not_say_what_it_takes_is_answered_too(tmp_path: Path) -> None:
    config = TrainSettings.from_mapping(
        {"model": "tests.support.tiny_training:linear_8", "data.image_size": 16}
    )
    with pytest.raises(ArgumentError, match=r"cannot take images of 16 × 16 pixels: .* Choose"):
        train(config, tmp_path / "run")
