"""From settings and data to a task."""

from dataclasses import replace
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from instaaug import InstaAug
from instaaug.cli.settings import read_typed
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.methods import (
    METHODS,
    Augerino,
    AugerinoColor,
    AugerinoCrop,
    NoAugmentation,
    RandomAugmentation,
)
from instaaug.parameterizations import CropGrid, Head
from instaaug.runs.build import build_augmenter, build_task
from instaaug.runs.folder import DataFacts
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import RegressionTask, SupervisedTask
from tests.support.tiny_training import parameters_of

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
    ("source", "names", "expected"),
    [
        ("sprites", ("auto",), ["rotation"]),
        ("sprite-angle", ("auto",), ["rotation"]),
        ("cifar10", ("auto",), ["crop"]),
        ("my/pictures", ("auto",), ["crop"]),
        ("sprites", ("crop", "hsv_jitter"), ["crop", "hsv_jitter"]),
    ],
)
def test_the_transforms_are_those_named_or_fit_the_data(
    source: str, names: tuple[str, ...], expected: list[str]
) -> None:
    config = TrainSettings.from_mapping({"data": source, "transforms": names})
    augmenter = build_augmenter(config, FACTS)
    assert isinstance(augmenter, InstaAug)
    assert [transform.name for transform in augmenter.settings.transform.transforms] == expected


@pytest.mark.parametrize(
    ("method", "kind"),
    [("none", NoAugmentation), ("random", RandomAugmentation), ("instaaug", InstaAug)],
)
def test_a_method_has_its_augmenter(method: Any, kind: type) -> None:
    task = build_task(TrainSettings.from_mapping({"method": method}), FACTS)
    assert isinstance(task, SupervisedTask)
    assert type(task.augmenter) is kind


def test_a_regression_has_its_task() -> None:
    config = TrainSettings.from_mapping({"task": "regression", "loss.regression": "absolute"})
    task = build_task(config, replace(FACTS, classes=()))
    assert isinstance(task, RegressionTask)
    assert (task.n_targets, task.loss) == (2, "absolute")


@pytest.mark.parametrize(
    ("settings", "baseline"),
    [
        ({}, "rloo"),  # the closed form
        ({"phi.goal": "loss"}, "value"),
        ({"phi.goal": "loss", "phi.baseline": "critic"}, "critic"),
        ({"phi.baseline": "rloo", "phi.conditioning": "none", "n_samples": 2}, "rloo"),
        ({"phi.conditioning": "none"}, "batch"),  # nothing to predict the loss from
        ({"phi.conditioning": "class"}, "batch"),
        ({"task": "contrastive", "phi.conditioning": "none"}, "none"),  # the task centers losses
    ],
)
def test_the_baseline_is_chosen_by_what_can_be_predicted(
    settings: dict[str, Any], baseline: str
) -> None:
    task = build_task(TrainSettings.from_mapping({"transforms": "crop", **settings}), FACTS)
    assert isinstance(task.augmenter, InstaAug)
    assert task.augmenter.settings.baseline == baseline


def weights(seed: int, method: str) -> Tensor:
    task = min(METHODS[method].tasks)
    config = TrainSettings.from_mapping({"seed": seed, "method": method, "task": task})
    return parameters_of(build_task(config, FACTS))


@pytest.mark.parametrize("method", METHODS)
def test_the_seed_alone_decides_the_first_weights(method: str) -> None:
    torch.manual_seed(1)
    first = weights(0, method)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert torch.equal(weights(0, method), first)
    assert not torch.equal(weights(1, method), first)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("method", ["adaaug", "adacrops", "metaaugment"])
def test_a_policy_that_reads_the_model_begins_with_another_head_for_another_seed(
    method: str,
) -> None:
    tasks = [
        build_task(TrainSettings.from_mapping({"seed": seed, "method": method}), FACTS)
        for seed in (0, 1)
    ]
    assert not torch.equal(*(parameters_of(task.augmenter) for task in tasks))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "instaaug", "method.alpha": 3}, "no option of instaaug called 'alpha'"),
        ({"method": "augerino", "transforms": "rotation"}, "`transforms` must be affine"),
        ({"method": "none", "method.alpha": 3}, "no option of none called 'alpha'"),
        ({"method": "insta"}, "no method called 'insta'. Did you mean 'instaaug'"),
        (
            {"method": "mixup", "method.alpha": "much"},
            "`method.alpha` must be a number",
        ),
        (
            {"phi.baseline": "rloo"},
            "`phi.baseline` rloo compares samples of an image: got `n_samples` 1. Take 2",
        ),
        (
            {"phi.estimator": "exact", "n_samples": 2},
            "`phi.estimator` exact tries every box: got `n_samples` 2. Leave it at 1",
        ),
        (
            {"method": "adaaug", "trainer.precision": "16-mixed"},
            "Steps of φ alone do not work with the gradient scaling of `trainer.precision`",
        ),
        (
            {"phi.step": "separate", "trainer.precision": "16-mixed"},
            "Steps of φ alone do not work with the gradient scaling of `trainer.precision`",
        ),
        (
            {"phi.signal": "held_out", "trainer.precision": "16-mixed"},
            "Steps of φ alone do not work with the gradient scaling of `trainer.precision`",
        ),
        (
            {"phi.signal": "rotating", "task": "contrastive"},
            "`phi.signal` must be training in contrastive learning",
        ),
        (
            {"phi.signal": "held_out", "phi.estimator": "exact"},
            "`phi.signal` must be training for `phi.estimator` exact",
        ),
        (
            {"method": "mixup", "phi.step": "separate"},
            "`phi.step` separate needs a method that learns from the training loss",
        ),
        (
            {"method": "metaaugment", "phi.step": "separate"},
            "`phi.step` separate needs a method that learns from the training loss",
        ),
        (
            {"method": "adacrops", "data.held_out_fraction": 0},
            "`data.held_out_fraction` must be above 0 for adacrops",
        ),
        (
            {"method": "viewmaker", "crop.size": 8},
            "`crop.size` needs a method that can change the size of an image: got 'viewmaker'",
        ),
        (
            {"method": "fast_autoaugment", "task": "regression"},
            "`task` must be classification for the method fast_autoaugment: got 'regression'",
        ),
        (
            {"data.vary": {"flip": 1.0}},
            "`data.vary` takes transforms with ranges, such as brightness: got 'flip'",
        ),
        ({"data.vary": {"brightnes": 0.4}}, "'brightness'"),
        (
            {"data.vary": {"brightness": 1.4}},
            r"`data.vary` must be shares in \[0, 1\]: got 1.4 for 'brightness'",
        ),
        (
            {"data.vary": {"brightness": float("nan")}},
            r"`data.vary` must be shares in \[0, 1\]: got nan",
        ),
        (
            {"data.vary": {"brightness": 0.4}, "task": "contrastive"},
            "`data.vary` must be empty in contrastive learning",
        ),
    ],
)
def test_what_a_method_cannot_do_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InstaAugError, match=words):
        build_task(TrainSettings.from_mapping(settings), FACTS)


CANNOT_RESIZE = {"viewmaker"}


@pytest.mark.parametrize("method", sorted(METHODS.keys() - CANNOT_RESIZE))
def test_views_are_cut_from_larger_images(method: str) -> None:
    needed = {"task": "contrastive"} if method == "unmix" else {}
    config = TrainSettings.from_mapping({"method": method, "crop.size": 8, **needed})
    task = build_task(config, replace(FACTS, image_size=8, decode_size=16))
    x = torch.rand(4, 3, 16, 16)
    batch = task.augmenter(x, targets=torch.arange(4) % 2)
    drawn = task.augmenter.render(x, task.augmenter.draw(x, 1)[0])
    assert {y.shape for y in (batch.inputs, drawn, task.augmenter.canonical(x))} == {(4, 3, 8, 8)}


@pytest.mark.parametrize(
    ("transforms", "kind"),
    [
        ("auto", Augerino),
        ("affine", Augerino),
        ("hsv_jitter", AugerinoColor),
        (["brightness", "contrast"], AugerinoColor),
        ("uniform_crop", AugerinoCrop),
    ],
)
def test_augerino_is_affine_of_colors_or_of_crops(transforms: Any, kind: type) -> None:
    config = TrainSettings.from_mapping({"method": "augerino", "transforms": transforms})
    assert type(build_task(config, FACTS).augmenter) is kind


# --- boxes --------------------------------------------------------------------------------------

RECEPTIVE = {"transforms": "crop", "crop.grid": "receptive", "phi.network": "pyramid"}


@pytest.mark.parametrize(
    "values",
    [
        RECEPTIVE,
        yaml.safe_load("{transforms: crop, crop: {grid: receptive}, phi: {network: pyramid}}"),
        read_typed(TrainSettings, RECEPTIVE),
    ],
    ids=["python", "yaml", "shell"],
)
@pytest.mark.parametrize(
    "method",
    [{"phi.conditioning": c} for c in ("input", "none", "class")] + [{"method": "adacrops"}],
    ids=str,
)
def test_boxes_are_receptive_fields_wherever_that_is_written(
    method: dict[str, str], values: dict[str, Any]
) -> None:
    config = TrainSettings.from_mapping(values, method)
    augmenter = build_augmenter(config, replace(FACTS, image_size=32))
    grid = augmenter.phi.grids["crop"] if isinstance(augmenter, InstaAug) else augmenter.grid
    assert isinstance(grid, CropGrid)
    assert grid.description == (
        "321 boxes (16×16 of 0.344, 8×8 of 0.719, whole), receptive fields of maps 0 and 1"
    )


def test_some_maps_may_be_left_out() -> None:
    config = TrainSettings.from_mapping({**RECEPTIVE, "crop.layers": [1]})
    augmenter = build_augmenter(config, replace(FACTS, image_size=32))
    assert isinstance(augmenter, InstaAug)
    assert len(augmenter.phi.grids["crop"]) == 65


@pytest.mark.parametrize(
    ("task", "baseline"), [("classification", "rloo"), ("contrastive", "value")]
)
def test_the_closed_form_compares_samples_whose_losses_differ(task: str, baseline: str) -> None:
    values = {"transforms": "crop", "phi.estimator": "closed_form", "task": task}
    augmenter = build_augmenter(TrainSettings.from_mapping(values), FACTS)
    assert isinstance(augmenter, InstaAug)
    assert augmenter.settings.baseline == baseline


@pytest.mark.parametrize(
    ("changes", "size", "words"),
    [
        ({"phi.network": "glance"}, 128, "a part that depends on the image's size"),
        ({"phi.network": "model"}, 32, "`crop.grid` receptive needs a network of φ's own"),
        ({"phi.network": "preact_resnet18"}, 16, r"none among 4 for images of 16 × 16"),
        ({"crop.layers": [7]}, 16, "`layers` must name maps of the network: got 7"),
    ],
)
def test_boxes_that_no_unit_sees_are_refused(
    changes: dict[str, Any], size: int, words: str
) -> None:
    config = TrainSettings.from_mapping({**RECEPTIVE, **changes})
    with pytest.raises(ArgumentError, match=words):
        build_augmenter(config, replace(FACTS, image_size=size))


def test_local_transforms_have_boxes_of_their_own() -> None:
    values = {"transforms": ["local_mask", "crop"], "crop.grid": [[0.5, 2]]}
    augmenter = build_augmenter(TrainSettings.from_mapping(values), FACTS)
    assert isinstance(augmenter, InstaAug)
    local, crop = augmenter.phi.grids.values()
    assert crop.description == "4 boxes (2×2 of 0.5)"
    assert local.description == "320 boxes (16×16 of 0.25, 8×8 of 0.5)"


def test_receptive_fields_are_boxes_of_crops_and_not_of_local_transforms() -> None:
    values = {**RECEPTIVE, "transforms": ["local_mask", "crop"], "local.grid": [[0.5, 2]]}
    augmenter = build_augmenter(TrainSettings.from_mapping(values), replace(FACTS, image_size=32))
    assert isinstance(augmenter, InstaAug)
    assert [len(grid) for grid in augmenter.phi.grids.values()] == [4, 321]


def test_a_transform_without_boxes_has_no_use_for_receptive_fields() -> None:
    values = {**RECEPTIVE, "transforms": "uniform_crop", "phi.network": "preact_resnet18"}
    augmenter = build_augmenter(TrainSettings.from_mapping(values), FACTS)
    assert isinstance(augmenter, InstaAug)
    assert augmenter.phi.grids == {}


def test_maps_are_of_no_use_to_boxes_of_given_sizes() -> None:
    words = r"`crop.layers` belongs to `crop.grid` receptive: got \[1\] along with boxes of given"
    with pytest.raises(ArgumentError, match=words):
        build_task(TrainSettings.from_mapping({"crop.layers": [1]}), FACTS)


@pytest.mark.parametrize(
    ("changes", "of_all", "of_input"),
    [
        ({}, 1e-3, 1e-3),
        ({"transforms": ["hsv_jitter"]}, 1e-3, 1e-5),
        ({"transforms": ["hsv_jitter", "crop"]}, 1e-3, 1e-3),
        ({"transforms": ["hsv_jitter"], "phi.learning_rate": 0.01}, 0.01, 1e-4),
        ({"transforms": ["hsv_jitter"], "phi.input_rate": 0.5}, 1e-3, 5e-4),
    ],
)
def test_colors_that_depend_on_the_input_are_learned_slowly(
    changes: dict[str, object], of_all: float, of_input: float
) -> None:
    task = build_task(TrainSettings().override({"phi.goal": "loss", **changes}), FACTS)
    made = task.phi_optimization.make_optimizer(task.augmenter.parameters(), task._backbone)
    rates = {id(p): group["lr"] for group in made.param_groups for p in group["params"]}
    assert isinstance(task.augmenter, InstaAug)
    phi = task.augmenter.phi
    assert [rates[id(p)] for p in phi.input_parameters()] == pytest.approx(
        [of_input] * len(phi.input_parameters())
    )
    heads = [head for head in phi.heads if isinstance(head, Head)]
    assert {rates[id(head.common)] for head in heads} == {of_all}
