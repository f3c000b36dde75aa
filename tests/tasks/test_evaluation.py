"""Predictors, their scores, and the numbers that φ learned."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.methods import RandomAugmentation
from instaaug.tasks import (
    BatchLoader,
    ClassificationTally,
    SupervisedTask,
    evaluate,
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
    assert [n["weight"] for n in numbers.values()] == [0.25, 0.25]


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
