"""Predictors, their scores, and the numbers that φ learned."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import LabeledImages
from instaaug.methods import RandomAugmentation
from instaaug.tasks import (
    BatchLoader,
    ClassificationTally,
    SupervisedTask,
    correlate_losses,
    evaluate,
    evaluate_groups,
    make_predictor,
    summarize_augmenter,
)
from tests.support.models import small_classifier
from tests.support.tiny_training import labeled_halves, supervised

DATA = labeled_halves(20)
CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


def task_with(*transforms: T.Transform, **settings: Any) -> SupervisedTask:
    torch.manual_seed(0)
    aug = InstaAug(list(transforms), **settings)
    for p in aug.parameters():
        nn.init.normal_(p, std=0.3)  # so that inputs differ
    return supervised(aug, model=small_classifier(2), mean=(0.4,), std=(0.3,))


def pixels() -> Tensor:
    return DATA.__getitems__(range(len(DATA)))[0]


def test_groups_are_scored_as_sets_of_their_own() -> None:
    task = task_with(CROP)
    groups = ["easy" if i % 3 else "hard" for i in range(len(DATA))]
    data = replace(DATA, groups=groups)
    predict = make_predictor(task)
    whole, parts = evaluate_groups(predict, data, 7, task.make_tally)
    assert whole == evaluate(predict, BatchLoader(data, 7), task.make_tally())
    for name, indices in data.group_indices().items():
        own = BatchLoader(DATA.subset(indices), 7)
        assert parts[name] == pytest.approx(evaluate(predict, own, task.make_tally()))
    assert evaluate_groups(predict, DATA, 7, task.make_tally) == (whole, {})


# --- predictors ---------------------------------------------------------------------------------


def test_without_samples_the_model_predicts_on_normalized_images() -> None:
    task = task_with(CROP)
    outputs = make_predictor(task)(pixels())
    torch.testing.assert_close(outputs, task.model((pixels() / 255 - 0.4) / 0.3).detach())
    assert not outputs.requires_grad
    assert not task.model.training


@pytest.mark.parametrize("merge", ["logit", "probability"])
@pytest.mark.parametrize("select", ["sample", "top"])
def test_samples_are_those_of_the_wrapped_model(merge: Any, select: Any) -> None:
    task = task_with(CROP, T.Rotation())
    predict = make_predictor(task, n_samples=3, merge=merge, select=select, seed=5)
    wrapped = task.augmenter.wrap(task.model, 3, merge=merge, select=select).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        expected = wrapped((pixels() / 255 - 0.4) / 0.3, generator)
    torch.testing.assert_close(predict(pixels()), expected)


@pytest.mark.parametrize("other", [0, 1])
def test_the_seed_alone_decides_the_samples(other: int) -> None:
    task = task_with(T.Rotation())
    one, two = (make_predictor(task, n_samples=2, seed=seed)(pixels()) for seed in (0, other))
    assert torch.equal(one, two) == (other == 0)


@pytest.mark.parametrize("batch_size", [3, 20])
def test_scores_do_not_depend_on_the_batches(batch_size: int) -> None:
    predict, tally = make_predictor(task_with(CROP)), ClassificationTally()
    whole = ClassificationTally()
    whole.add(predict(pixels()), DATA.targets)
    tally.add(torch.zeros(1, 2), torch.zeros(1))  # counted before, and to be forgotten
    scores = evaluate(predict, BatchLoader(DATA, batch_size), tally)
    assert scores == pytest.approx(whole.scores(), abs=1e-6)


# --- what φ learned -----------------------------------------------------------------------------


def test_entropy_and_weight_of_each_factor_are_told() -> None:
    task = task_with(CROP, T.Rotation(), weight=0.25)
    assert isinstance(task.augmenter, InstaAug)
    numbers = summarize_augmenter(task, BatchLoader(DATA, 6))
    with torch.no_grad():
        joint = task.augmenter.eval().distribution((pixels() / 255 - 0.4) / 0.3)
    assert list(numbers) == ["crop", "rotation"]
    assert [n["entropy"] for n in numbers.values()] == pytest.approx(
        joint.entropies().mean(dim=0).tolist(), rel=1e-5
    )
    sides = {"rotation.angle.below": 0.25, "rotation.angle.above": 0.25}
    assert [n["weight"] for n in numbers.values()] == [0.25, sides]
    low, high = joint["rotation"].ends()  # type: ignore[attr-defined]
    expected = [float(low.mean()), float(high.mean())]
    assert numbers["rotation"]["ranges"]["angle"] == pytest.approx(expected, rel=1e-4)


def test_the_mutual_information_is_that_of_a_loop() -> None:
    """Mean Kullback-Leibler divergence between an input's distribution and the average one."""
    task = task_with(CROP)
    assert isinstance(task.augmenter, InstaAug)
    told = summarize_augmenter(task, BatchLoader(DATA, 6))["crop"]["mutual_information"]
    with torch.no_grad():
        joint = task.augmenter.distribution((pixels() / 255 - 0.4) / 0.3)
    rows = joint.finite()["crop"].logits.softmax(dim=-1).double()
    average = rows.mean(dim=0)
    by_hand = sum(float((row * (row / average).log()).sum()) for row in rows) / len(rows)
    assert told == pytest.approx(by_hand, rel=1e-3, abs=1e-6)
    assert told > 1e-4


def test_one_distribution_for_all_inputs_heeds_none() -> None:
    numbers = summarize_augmenter(task_with(CROP, conditioning="none"), BatchLoader(DATA, 6))
    assert numbers["crop"]["mutual_information"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    "task",
    [
        supervised(),
        supervised(RandomAugmentation(T.Rotation())),
        task_with(CROP, conditioning="class", num_classes=2),
    ],
    ids=["none", "random", "class"],
)
def test_where_nothing_is_learned_per_input_nothing_is_told(task: SupervisedTask) -> None:
    assert summarize_augmenter(task, BatchLoader(DATA, 6)) == {}


# --- predicted and true losses ------------------------------------------------------------------


class Brightness(nn.Module):
    """Is surer of class 0, the brighter the image."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        logit = x.mean(dim=(1, 2, 3))
        return torch.stack([logit, -logit], dim=1)


def bright_corners(n: int) -> LabeledImages:
    """Class 0 all of them, with one bright quadrant each, in turns."""
    pixels = np.zeros((n, 8, 8, 3), dtype=np.uint8)
    for i in range(n):
        row, column = divmod(i % 4, 2)
        pixels[i, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 255
    return LabeledImages(pixels, torch.zeros(n, dtype=torch.long), classes=("a", "b"))


class Gray(nn.Module):
    """Hands φ the image itself, in gray."""

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        return [x.mean(dim=1, keepdim=True)]


class Knowing(nn.Module):
    """A head: how bright each quadrant is, times a factor, plus a constant of its own."""

    def __init__(self, factor: float, constant: Tensor) -> None:
        super().__init__()
        self.factor, self.constant = factor, constant

    @override
    def forward(self, maps: Any, classes: Any, batch: int) -> Tensor:
        quadrants = nn.functional.adaptive_avg_pool2d(maps[0], 2).flatten(1)
        return self.factor * quadrants + self.constant


@pytest.mark.parametrize(
    ("factor", "constant", "correlation", "own"),
    [(1.0, 0.0, 1.0, 1.0), (-1.0, 0.0, -1.0, -1.0), (0.0, 1.0, 0.0, 0.0)],
)
def test_preferences_correlate_with_losses_within_an_image(
    factor: float, constant: float, correlation: float, own: float
) -> None:
    """A brighter quadrant has a lower loss; what is the same for all images is worth nothing."""
    crop = T.Crop(levels=((0.5, 2),), max_outside=0.0)
    aug = InstaAug(crop, network=Gray(), estimator="score", baseline="batch")
    aug.phi.heads[0] = Knowing(factor, constant * torch.arange(4.0))
    task = supervised(aug, model=Brightness())
    numbers = correlate_losses(task, BatchLoader(bright_corners(8), 3))["crop"]
    assert numbers["loss_correlation"] == pytest.approx(correlation, abs=0.01)
    assert numbers["own_loss_correlation"] == pytest.approx(own, abs=0.01)


def test_other_methods_predict_no_losses() -> None:
    assert correlate_losses(supervised(RandomAugmentation([CROP])), BatchLoader(DATA, 4)) == {}
