"""From settings and data to a task."""

import json
from dataclasses import asdict
from typing import Any

import pytest
import torch
from instaaug.runs.augmenters import AUGMENTERS
from instaaug.runs.named_transforms import levels_of, transforms_of
from torch import Tensor

from instaaug import InstaAug
from instaaug.data import load_data
from instaaug.errors import ArgumentError
from instaaug.methods import Augerino, AugerinoColor, NoAugmentation, RandomAugmentation
from instaaug.runs.build import build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import RegressionTask, SupervisedTask

FACTS = DataFacts(
    image_size=16,
    channels=3,
    classes=("cat", "dog"),
    n_targets=2,
    mean=(0.5, 0.4, 0.3),
    std=(0.1, 0.2, 0.3),
    split_hash="0123456789abcdef",
)


@pytest.mark.parametrize(
    ("data", "transforms", "names"),
    [
        ("sprites", "auto", ["rotation"]),
        ("sprite-angle", "auto", ["rotation"]),
        ("cifar10", "auto", ["crop"]),
        ("my/pictures", "auto", ["crop"]),
        ("sprites", "crop", ["crop"]),
        ("sprites", " crop , color,", ["crop", "hsv_jitter"]),
    ],
)
def test_the_transforms_are_those_named_or_fit_the_data(
    data: str, transforms: str, names: list[str]
) -> None:
    config = TrainSettings.from_mapping({"data": data, "transforms": transforms})
    assert [transform.name for transform in transforms_of(config)] == names


@pytest.mark.parametrize("grid", ["", "0.5", "0.5x", "x8", "0.5x8x2", "0.5*8", "0.5x2.5"])
def test_a_grid_that_cannot_be_read_is_refused(grid: str) -> None:
    with pytest.raises(ArgumentError, match=r"`grid` must be like 0\.375x16,0\.75x8,1x1"):
        levels_of(grid)


def test_facts_survive_json() -> None:
    assert DataFacts.from_dict(json.loads(json.dumps(asdict(FACTS)))) == FACTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_targets", "touch hacked"),  # what a model named os:system would be called with
        ("n_targets", 2.0),
        ("n_targets", True),
        ("image_size", None),
        ("channels", "3"),
        ("classes", "cat"),
        ("classes", ["cat", 1]),
        ("mean", [0.5, "0.4", 0.3]),
        ("std", 0.1),
        ("split_hash", 7),
    ],
)
def test_facts_of_another_type_are_refused(name: str, value: Any) -> None:
    values = json.loads(json.dumps(asdict(FACTS))) | {name: value}
    with pytest.raises(TypeError, match=f"its {name} is of another type"):
        DataFacts.from_dict(values)


def test_facts_with_an_unknown_name_are_refused() -> None:
    values = json.loads(json.dumps(asdict(FACTS))) | {"more": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'more'"):
        DataFacts.from_dict(values)


def test_facts_are_those_of_the_training_images() -> None:
    splits = load_data("sprites", size=16)
    facts = DataFacts.of(splits)
    pixels = splits.train.__getitems__(range(len(splits.train)))[0].double() / 255
    assert (facts.image_size, facts.channels, facts.n_targets) == (16, 3, 4)
    assert facts.classes == splits.test.classes
    torch.testing.assert_close(
        torch.tensor(facts.mean, dtype=torch.float64),
        pixels.mean(dim=(0, 2, 3)),
        atol=1e-6,
        rtol=0,
    )
    assert facts.split_hash == splits.hash


def test_facts_of_a_regression_count_its_numbers() -> None:
    facts = DataFacts.of(load_data("sprite-angle", size=16, task="regression"))
    assert (facts.classes, facts.n_targets) == ((), 1)


@pytest.mark.parametrize(
    ("method", "kind"),
    [("none", NoAugmentation), ("random", RandomAugmentation), ("instaaug", InstaAug)],
)
def test_a_method_has_its_augmenter(method: Any, kind: type) -> None:
    task = build_task(TrainSettings.from_mapping({"method": method}), FACTS)
    assert isinstance(task, SupervisedTask)
    assert type(task.augmenter) is kind


def test_a_regression_has_its_task() -> None:
    facts = DataFacts.from_dict({**json.loads(json.dumps(asdict(FACTS))), "classes": []})
    task = build_task(
        TrainSettings.from_mapping({"task": "regression", "loss.regression": "absolute"}), facts
    )
    assert isinstance(task, RegressionTask)
    assert (task.n_targets, task.loss) == (2, "absolute")


@pytest.mark.parametrize(
    ("settings", "baseline"),
    [
        ({}, "value"),
        ({"baseline": "critic"}, "critic"),
        ({"baseline": "rloo", "conditioning": "none", "n_samples": 2}, "rloo"),
        ({"conditioning": "none"}, "batch"),  # nothing to predict the loss from
        ({"conditioning": "class"}, "batch"),
        ({"task": "contrastive", "conditioning": "none"}, "none"),  # the task centers losses
    ],
)
def test_the_baseline_is_chosen_by_what_can_be_predicted(
    settings: dict[str, Any], baseline: str
) -> None:
    task = build_task(TrainSettings.from_mapping({"transforms": "crop", **settings}), FACTS)
    assert isinstance(task.augmenter, InstaAug)
    assert task.augmenter.settings.baseline == baseline


def weights(seed: int, method: str) -> Tensor:
    kind: Any = "contrastive" if method == "unmix" else "classification"
    task = build_task(
        TrainSettings.from_mapping({"seed": seed, "method": method, "task": kind}), FACTS
    )  # type: ignore[arg-type]
    return torch.cat([p.flatten() for p in task.parameters()])


@pytest.mark.parametrize("method", sorted(AUGMENTERS))
def test_the_seed_alone_decides_the_first_weights(method: str) -> None:
    torch.manual_seed(1)
    first = weights(0, method)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert torch.equal(weights(0, method), first)
    assert not torch.equal(weights(1, method), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_policy_that_reads_the_model_begins_with_another_head_for_another_seed() -> None:
    for method in ("adaaug", "adacrops", "metaaugment"):
        heads = [
            torch.cat([p.flatten() for p in task.augmenter.parameters()])
            for seed in (0, 1)
            for task in [
                build_task(TrainSettings.from_mapping({"seed": seed, "method": method}), FACTS)
            ]
        ]
        assert not torch.equal(*heads)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "instaaug", "options": "alpha=3"}, "`options` must be empty for instaaug"),
        ({"method": "augerino", "transforms": "rotation"}, "`transforms` must be affine"),
        ({"method": "none", "options": "alpha=3"}, "`options` must be empty for NoAugmentation"),
    ],
)
def test_settings_that_a_method_does_not_have_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        build_task(TrainSettings.from_mapping({**settings}), FACTS)


def test_augerino_is_affine_or_of_colors() -> None:
    made = {
        words: build_task(
            TrainSettings.from_mapping({"method": "augerino", "transforms": words}), FACTS
        ).augmenter
        for words in ("auto", "affine", "color", "brightness,contrast")
    }
    assert [type(aug) for aug in made.values()] == [Augerino] * 2 + [AugerinoColor] * 2
