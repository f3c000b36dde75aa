"""The files of ``configs``: each can be read and built, and those of the paper train, shrunk."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug import InstaAug
from instaaug.compare.contenders import read_contenders
from instaaug.runs.build import build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train
from instaaug.yaml_files import read_yaml
from tests.support.data_layouts import make_rawfoot, make_tiny_imagenet

ROOT = Path(__file__).parent.parent / "configs"
METHODS = {  # files of contenders, and what they are contenders of
    "defaults/methods.yaml": "times/base.yaml",
    "groceries/training_methods.yaml": "groceries/training.yaml",
    "paper/color_methods.yaml": "paper/color.yaml",
    "paper/contrastive_methods.yaml": "paper/contrastive.yaml",
    "paper/crop_methods.yaml": "paper/crop.yaml",
    "paper/weights.yaml": "paper/crop.yaml",
    "paper/windows.yaml": "paper/crop.yaml",
    "textures/color_methods.yaml": "textures/color.yaml",
    "times/methods.yaml": "times/base.yaml",
    "tiny_imagenet/contenders.yaml": "tiny_imagenet/compare.yaml",
    "tiny_imagenet/contrastive_methods.yaml": "tiny_imagenet/contrastive.yaml",
    "tiny_imagenet/few_methods.yaml": "tiny_imagenet/training.yaml",
    "tiny_imagenet/overfitting_methods.yaml": "tiny_imagenet/training.yaml",
    "tiny_imagenet/table1.yaml": "tiny_imagenet/training.yaml",
    "tiny_imagenet/training_methods.yaml": "tiny_imagenet/training.yaml",
    "tiny_imagenet/weights.yaml": "tiny_imagenet/training.yaml",
    "tiny_imagenet/windows.yaml": "tiny_imagenet/training.yaml",
}
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.yaml"))
OTHERS = "fine_tuning/"  # a model with weights from elsewhere
RUNS = [name for name in FILES if name not in METHODS and not name.startswith(OTHERS)]
PAPER = [name for name in RUNS if name.startswith("paper/")]
NARROW = {"model.width": 0.03, "phi.width": 0.03}


def read(name: str, **changes: Any) -> TrainSettings:
    return TrainSettings.from_mapping(read_yaml(ROOT / name), changes, source=name)


CONTENDERS = [(name, str(label)) for name in METHODS for label in read_yaml(ROOT / name)]


@cache
def contenders(name: str) -> dict[str, TrainSettings]:
    """By label, all settings of the contenders in a file; read when the first test asks."""
    shared = read(METHODS[name], **NARROW)
    found = read_contenders(str(ROOT / name), shared)
    return {contender.label: contender.full_settings(shared) for contender in found}


def build(config: TrainSettings) -> Any:
    is_regression = config.task == "regression"
    facts = DataFacts(
        image_size=config.data.image_size or 64,
        channels=3,
        classes=() if is_regression else tuple(map(str, range(200))),
        n_targets=1 if is_regression else 200,
        mean=(0.5,) * 3,
        std=(0.25,) * 3,
        split_hash="0" * 16,
    )
    return build_task(config, facts)


def test_every_file_of_contenders_is_one() -> None:
    assert set(METHODS) <= set(FILES)


@pytest.mark.parametrize("name", RUNS)
def test_a_file_can_be_read_and_built(name: str) -> None:
    build(read(name, **NARROW))


@pytest.mark.parametrize(("name", "label"), CONTENDERS)
def test_every_contender_can_be_built(name: str, label: str) -> None:
    build(contenders(name)[label])


def test_the_crops_of_the_paper_are_what_units_of_its_network_see() -> None:
    aug = build(read("paper/crop.yaml", **NARROW)).augmenter
    assert isinstance(aug, InstaAug)
    assert aug.phi.grids["crop"].description == (
        "1281 boxes (32×32 of 0.297, 16×16 of 0.734, whole), receptive fields of maps 0 and 1"
    )


PINNED = {
    "entropy": ("per", "rule", "weight", "factor"),
    "phi": (
        "network",
        "estimator",
        "signal",
        "dependence",
        "optimizer",
        "learning_rate",
        "schedule",
    ),
    "optimizer": ("name", "learning_rate", "weight_decay", "schedule"),
    "views": ("n_views", "merge", "select", "replace"),
}


@pytest.mark.parametrize("name", PAPER)
def test_a_file_of_the_paper_leaves_nothing_to_defaults_that_may_change(name: str) -> None:
    written = read_yaml(ROOT / name)
    for section, settings in PINNED.items():
        assert set(settings) <= set(written[section])


SHRUNK = {
    **NARROW,
    "data.batch_size": 8,
    "views.n_views": 3,
    "pretrain_epochs": 1,
    "phi.rest_epochs": 0,
    "trainer.max_epochs": 2,
    "trainer.accelerator": "cpu",
}


FEW_PATCHES: dict[str, Any] = {
    "data.image_size": 32,
    "data.options": {"train_patches": 8, "test_patches": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_a_file_of_the_paper_trains(name: str, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    config = read(name, **SHRUNK)
    changes: dict[str, Any] = {"data.root": str(tmp_path / "data")}
    if config.data.source == "rawfoot":
        make_rawfoot(tmp_path / "data", generator)
        changes |= FEW_PATCHES
    else:
        make_tiny_imagenet(tmp_path / "data", generator)
        changes |= {"data.validation_fraction": 0.25} if config.data.validation_fraction else {}
    if config.task == "contrastive":
        changes |= {"optimizer.warmup_steps": 1, "contrastive.hidden": 8}
    results = train(config.override(changes), tmp_path / "run")
    assert results["test"]["augmented"]["n_samples"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "label"), [pair for pair in CONTENDERS if pair[0].startswith("paper/")]
)
def test_a_contender_of_the_paper_trains(name: str, label: str, tmp_path: Path) -> None:
    config = contenders(name)[label]
    generator, data = torch.Generator().manual_seed(0), tmp_path / "data"
    changes = {**SHRUNK, "data.root": str(data), "data.held_out_fraction": 0.2}
    if config.data.source == "rawfoot":
        make_rawfoot(data, generator)
        changes |= FEW_PATCHES
    else:
        make_tiny_imagenet(data, generator)
        changes |= {"data.validation_fraction": 0.25}
    if config.task == "contrastive":
        changes |= {"optimizer.warmup_steps": 1, "contrastive.hidden": 8}
    results = train(config.override(changes), tmp_path / "run")
    assert results["n_test"] == (2 * 46 if config.data.source == "rawfoot" else 8)
    assert ("groups" in results["test"]) == (config.data.source == "rawfoot")


@pytest.mark.slow
@pytest.mark.parametrize("n_lights", [1, 2, 4, 8])
def test_the_paper_draws_lights_to_train_under(n_lights: int, tmp_path: Path) -> None:
    make_rawfoot(tmp_path / "data", torch.Generator().manual_seed(0))
    lights = {"train_lights": "1-46", "n_train_lights": n_lights}
    config = read("paper/color.yaml", **SHRUNK).override(
        {
            **FEW_PATCHES,
            "data.root": str(tmp_path / "data"),
            "data.options": {**FEW_PATCHES["data.options"], **lights},
        }
    )
    results = train(config, tmp_path / "run")
    assert results["n_train"] == 2 * 8 * n_lights
    for group in ("easy", "hard"):
        assert results["test"]["groups"][group]["augmented"]["n"] == 2 * 23
