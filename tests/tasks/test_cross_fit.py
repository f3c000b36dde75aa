"""φ learns from training images that are kept from the model for a while."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import LabeledImages
from instaaug.data.splits import deal_folds
from instaaug.errors import ArgumentError
from instaaug.methods import RandomAugmentation
from instaaug.tasks import BatchLoader, ContrastiveTask, Optimization
from instaaug.tasks.cross_fit import CrossFit, make_cross_fit
from tests.support.models import small_classifier
from tests.support.tiny_training import (
    EachStep,
    fit,
    labeled_halves,
    numbered,
    parameters_of,
    supervised,
)

SIDE = 16
DATA = labeled_halves(40, side=SIDE)
FEW = T.Crop(levels=((0.5, 2), (1.0, 1)), max_outside=0.0)


def half_and_half(end: int, data: LabeledImages = DATA) -> CrossFit:
    rows = np.arange(len(data))
    return CrossFit(data, (rows[: len(rows) // 2], rows[len(rows) // 2 :]), end)


def crops(**settings: Any) -> InstaAug:
    torch.manual_seed(0)
    return InstaAug(FEW, **settings)


# --- which images are kept ----------------------------------------------------------------------


def test_folds_are_disjoint_and_have_their_share_of_every_class() -> None:
    folds = deal_folds(DATA, 0.25, 4, seed=1)
    together = np.concatenate(folds)
    assert len(set(together)) == len(together) >= len(DATA) - 2
    assert [np.bincount(DATA.targets.numpy()[fold]).tolist() for fold in folds[:3]] == [[5, 5]] * 3


@pytest.mark.parametrize(("signal", "n_folds"), [("held_out", 1), ("rotating", 4)])
def test_images_are_kept_for_a_share_of_the_epochs(signal: Any, n_folds: int) -> None:
    made = make_cross_fit(DATA, signal, fraction=0.25, share=0.6, n_epochs=20)
    assert made is not None
    kept = [tuple(made.rows(epoch)) for epoch in range(20)]
    assert len(set(kept[:12])) == n_folds
    assert all(len(rows) >= 8 for rows in kept[:12])
    assert set(kept[12:]) == {()}


def test_nothing_is_kept_where_phi_learns_from_all_images() -> None:
    assert make_cross_fit(DATA, "training", fraction=0.1, share=0.6, n_epochs=9) is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fraction": 0.0, "share": 0.6}, "held_out_fraction"),
        ({"fraction": 0.1, "share": 0.2}, "signal_share"),
    ],
)
def test_settings_that_leave_nothing_to_learn_from(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make_cross_fit(DATA, "held_out", n_epochs=10, phi_starts=2, **settings)


def test_an_epoch_without_some_images_is_as_long_as_the_others() -> None:
    data = numbered(10)
    kept = half_and_half(2, data)
    loader = BatchLoader(data, 5, seed=0, left_out=kept.rows)
    epochs = [torch.cat([y for _, y in loader]).int().tolist() for _ in range(3)]
    assert [len(seen) for seen in epochs] == [10, 10, 10]
    assert sorted(set(epochs[0])) == [5, 6, 7, 8, 9]
    assert sorted(set(epochs[1])) == [0, 1, 2, 3, 4]
    assert sorted(epochs[2]) == list(range(10))


# --- who learns from which ----------------------------------------------------------------------


class Noting(nn.Module):
    """A classifier that notes the means of the images it sees, by mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_classifier(2)
        self.seen: dict[bool, list[Tensor]] = {True: [], False: []}

    @override
    def forward(self, x: Tensor) -> Tensor:
        self.seen[self.training].append(x.detach())
        return self.inner(x)


def dark_and_bright() -> LabeledImages:
    """The first half is dark, the second bright."""
    pixels = np.full((40, SIDE, SIDE, 3), 10, dtype=np.uint8)
    pixels[20:] = 200
    return LabeledImages(pixels, torch.arange(40) % 2, classes=("a", "b"))


def whole() -> InstaAug:
    return InstaAug(T.Crop(levels=((1.0, 1),)), estimator="closed_form")


def test_the_model_learns_from_some_and_phi_from_the_others_in_evaluation_mode() -> None:
    data = dark_and_bright()
    cross_fit = CrossFit(data, (np.arange(20),), end=1)
    model = Noting()
    task = supervised(whole(), model=model, cross_fit=cross_fit)
    fit(task, BatchLoader(data, 10, seed=0, left_out=cross_fit.rows))
    learned, judged = (torch.cat(model.seen[mode]) for mode in (True, False))
    assert float(learned.min()) > 0.5  # bright
    assert float(judged.max()) < 0.1  # dark
    assert len(judged) < 0.3 * len(learned)


@pytest.mark.parametrize("goal", ["loss", "usefulness"])
def test_images_that_teach_phi_vary_as_those_of_the_model_do(goal: Any) -> None:
    data = dark_and_bright()
    cross_fit = CrossFit(data, (np.arange(20),), end=1)
    model, vary = Noting(), RandomAugmentation("brightness")
    task = supervised(whole(), model=model, cross_fit=cross_fit, vary=vary, phi_goal=goal)
    fit(task, BatchLoader(data, 10, seed=0, left_out=cross_fit.rows))
    for mode in (True, False):
        means = torch.cat(model.seen[mode]).mean(dim=(1, 2, 3))
        assert float(means.max()) > 1.1 * float(means.min())


def test_phi_is_frozen_and_the_model_gets_all_images_in_the_end() -> None:
    data = dark_and_bright()
    cross_fit = CrossFit(data, (np.arange(20),), end=1)
    model, aug = Noting(), crops(estimator="closed_form")
    task = supervised(aug, model=model, cross_fit=cross_fit)
    note = EachStep(lambda _: parameters_of(aug))
    loader = BatchLoader(data, 10, seed=0, left_out=cross_fit.rows)
    fit(task, loader, epochs=3, callbacks=[note])
    start = parameters_of(crops(estimator="closed_form"))
    assert not torch.equal(note.seen[0], start)
    assert all(torch.equal(state, note.seen[4]) for state in note.seen[4:])
    later = torch.cat(model.seen[True][4:8]).mean(dim=(1, 2, 3))
    assert float(later.max()) > 0.5
    assert float(later.min()) < 0.1


class Memory(nn.Module):
    """Finds the class of memorized images, which are blue, on the right, and of others, left.

    Green says which class an image is of, and red whether a crop is from the left.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(2))

    @override
    def forward(self, x: Tensor) -> Tensor:
        red, green, blue = (x.mean(dim=(2, 3)) > 0.5).float().unbind(dim=1)
        right = 2 * ((red == 1) == (blue == 0)).float() - 1
        logit = 3 * right * (2 * green - 1)
        return torch.stack([-logit, logit], dim=1) + self.bias


def memorized_and_others() -> LabeledImages:
    """Classes change from image to image; the first 32 are blue."""
    pixels = np.zeros((64, SIDE, SIDE, 3), dtype=np.uint8)
    pixels[:, :, : SIDE // 2, 0] = 255
    pixels[1::2, :, :, 1] = 255
    pixels[:32, :, :, 2] = 255
    return LabeledImages(pixels, torch.arange(64) % 2, classes=("a", "b"))


@pytest.mark.parametrize("estimator", ["score", "closed_form"])
def test_losses_of_memorized_images_mislead_and_those_of_others_do_not(estimator: Any) -> None:
    data, left = memorized_and_others(), {}
    for name, cross_fit in {
        "training": None, "held_out": CrossFit(data, (np.arange(32, 64),), end=10)
    }.items():  # fmt: skip
        torch.manual_seed(0)
        aug = InstaAug(
            T.Crop(levels=((0.5, 2),), max_outside=0.0), conditioning="none",
            estimator=estimator, entropy=(0.8, 0.9),
        )  # fmt: skip
        task = supervised(
            aug, model=Memory(), cross_fit=cross_fit,
            optimization=Optimization("sgd", 1e-6), phi_optimization=Optimization("adam", 0.1),
        )  # fmt: skip
        shown = data.subset(range(32)) if cross_fit is None else data
        left_out = None if cross_fit is None else cross_fit.rows
        epochs = 10 if cross_fit is not None else 5
        fit(task, BatchLoader(shown, 8, seed=0, left_out=left_out), epochs=epochs)
        probs = (
            aug.eval()
            .distribution(torch.zeros(1, 3, SIDE, SIDE))
            .finite()["crop"]
            .logits[0]
            .detach()
            .exp()
        )
        left[name] = float(probs[0] + probs[2])
    assert left["training"] < 0.3
    assert left["held_out"] > 0.7


def test_phi_learns_through_the_model_where_its_gradient_is_pathwise() -> None:
    aug = InstaAug([FEW, T.Rotation()], estimator="closed_form")
    before = parameters_of(aug.phi.heads[1])
    task = supervised(aug, model=small_classifier(2), cross_fit=half_and_half(2))
    loader = BatchLoader(DATA, 20, seed=0, left_out=half_and_half(2).rows)
    fit(task, loader, epochs=1)
    assert not torch.equal(parameters_of(aug.phi.heads[1]), before)


def test_the_schedule_of_phi_ends_when_it_is_frozen() -> None:
    cosine = Optimization("adam", 1e-2, schedule="cosine")
    task = supervised(
        crops(), model=small_classifier(2), cross_fit=half_and_half(2), phi_optimization=cosine
    )
    rates = EachStep(lambda t: t.optimizers()[1].param_groups[0]["lr"])
    fit(task, BatchLoader(DATA, 5, seed=0), epochs=4, callbacks=[rates])
    assert rates.seen[0] < 1e-2
    assert rates.seen[15] == pytest.approx(0, abs=1e-9)


def test_contrastive_learning_refuses() -> None:
    with pytest.raises(ArgumentError, match="compares an image with all others"):
        ContrastiveTask(small_classifier(2), crops(), n_features=2, cross_fit=half_and_half(2))
