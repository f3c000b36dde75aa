"""Images are mixed as far as the model knows training images better than others."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import LabeledImages
from instaaug.tasks import BatchLoader, Optimization, SupervisedTask, mixing
from instaaug.tasks import task as task_module
from instaaug.tasks.cross_fit import CrossFit
from instaaug.tasks.mixing import FEWEST, MOST, describe_mixing, mixes, mixing_share
from tests.support.tiny_training import EachStep, fit, labeled_halves, parameters_of, supervised

FEW = T.Crop(levels=((0.5, 2), (1.0, 1)), max_outside=0.0)
N_EPOCHS = 8


def row(known: float, unseen: float | None) -> dict[str, float]:
    return {"train/known/seen": known} | ({} if unseen is None else {"train/known/unseen": unseen})


@pytest.mark.parametrize(
    ("history", "share"),
    [
        ([], 0.0),
        ([row(0.9, None)], 0.0),  # nobody unseen was asked
        ([row(0.3, 0.5)], 0.0),  # a model that unseen images are easier for
        ([row(0.54, 0.5)], 0.0),  # no more than is tolerated
        ([row(0.5, 0.5), row(0.6, 0.44)], 0.15),  # of the mean of both
        ([row(0.5, 0.5)] * 9 + [row(0.6, 0.5)] * 5, 0.25),  # of the last five
        ([row(0.6, 0.5), row(1.0, None)], 0.25),  # the others are gone, the share stays
        ([row(1.0, 0.0)], MOST),
    ],
)
def test_the_share_follows_what_the_model_knows_too_well(
    history: list[dict[str, float]], share: float
) -> None:
    assert mixing_share(history) == pytest.approx(share)


def test_so_many_steps_are_mixed() -> None:
    n = 2000
    drawn = sum(mixes(0.3, seed=1, step=step) for step in range(n))
    assert abs(drawn / n - 0.3) < 4.5 * (0.3 * 0.7 / n) ** 0.5  # wrong once in 150,000 seeds
    assert not any(mixes(0.0, seed=1, step=step) for step in range(n))


def test_words_say_nothing_where_nothing_was_mixed() -> None:
    assert describe_mixing([]) == describe_mixing([{"train/mixed": 0.0}]) == ""
    assert describe_mixing([{"train/mixed": 0.0}] * 499 + [{"train/mixed": 0.5}]) == ""


def test_epochs_on_whole_images_count_as_not_mixed() -> None:
    words = describe_mixing([{"train/mixed": 0.5}, {"train/loss": 1.0}])
    assert words.startswith("Images were mixed in 25% of the steps, in 0% at the end")


def test_few_unseen_images_are_not_asked() -> None:
    task, _ = train(noise(2 * (FEWEST - 1)), mix=True)
    assert max(mixed(task)) == 0.0
    assert "train/known/unseen" not in task.history[-1]


def test_label_smoothing_does_not_hide_what_is_known() -> None:
    task, _ = train(noise(), mix=True, label_smoothing=0.4)
    assert max(mixed(task)) >= 0.3
    known = max(float(row["train/known/seen"]) for row in task.history)
    assert known > 0.62  # the loss is at least 0.5, and exp(-0.5) is 0.61


def noise(n: int = 400) -> LabeledImages:
    """Images that say nothing of their labels: what a model knows of them, it knows by heart."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return LabeledImages(pixels, torch.from_numpy(random.integers(2, size=n)), classes=("a", "b"))


def train(data: LabeledImages, **settings: Any) -> tuple[SupervisedTask, EachStep]:
    """A task after some epochs, and φ's parameters after each step."""
    torch.manual_seed(0)
    half = len(data) // 2
    others = data.subset(np.arange(half, len(data)))
    cross_fit = CrossFit(others, (np.arange(half),), end=N_EPOCHS, is_apart=True)
    aug = InstaAug(FEW, estimator="closed_form", mean=(0.5,) * 3, std=(0.3,) * 3)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 2))
    task = supervised(
        aug, model=model, mean=(0.5,) * 3, std=(0.3,) * 3, cross_fit=cross_fit,
        phi_goal="usefulness", optimization=Optimization("adam", 1e-2), **settings,
    )  # fmt: skip
    note = EachStep(lambda _: parameters_of(aug))
    loader = BatchLoader(data.subset(np.arange(half)), 20, seed=0)
    fit(task, loader, epochs=N_EPOCHS, callbacks=[note])
    return task, note


def mixed(task: SupervisedTask) -> list[float]:
    return [float(epoch["train/mixed"]) for epoch in task.history]


def test_a_model_that_learns_by_heart_gets_mixed_images_and_knows_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, _ = train(noise(), mix=True)
    shares = mixed(task)
    assert shares[0] == 0.0  # nothing is known yet
    assert max(shares) >= 0.3
    assert "Images were mixed in" in describe_mixing(task.history)
    monkeypatch.setattr(mixing, "MOST", 0.0)
    without, _ = train(noise(), mix=True)
    assert max(mixed(without)) == 0.0
    known = [float(t.history[-1]["train/known/seen"]) for t in (without, task)]
    assert known[0] > known[1] + 0.02


def test_a_model_that_knows_unseen_images_as_well_gets_none() -> None:
    task, _ = train(labeled_halves(400), mix=True)
    assert max(mixed(task)) == 0.0
    gap = task.history[-1]["train/known/seen"] - task.history[-1]["train/known/unseen"]
    assert gap < 0.05


def test_phi_rests_while_images_are_mixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "mixes", lambda _share, *, seed, step: step % 2 == 1)  # noqa: ARG005
    _, note = train(noise(), mix=True)
    states = note.seen
    assert all(torch.equal(states[k], states[k - 1]) for k in range(1, len(states), 2))
    assert not any(torch.equal(states[k], states[k - 1]) for k in range(2, len(states), 2))


def test_nothing_is_reported_where_nothing_may_be_mixed() -> None:
    task, _ = train(labeled_halves(120))
    assert not {"train/known/seen", "train/known/unseen", "train/mixed"} & task.history[-1].keys()
