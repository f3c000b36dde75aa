"""One step trains the model and the augmenter: what moves when, and by how much."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from math import cos, pi, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import Augmenter
from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.methods import NoAugmentation, RandomAugmentation
from instaaug.tasks import BatchLoader, Optimization, SupervisedTask
from instaaug.tasks.task import EpochMeans
from tests.support.tiny_training import (
    SIDE,
    EachStep,
    Recording,
    TwoHeads,
    classifier,
    fit,
    labeled_halves,
    parameters_of,
    supervised,
)

DATA = labeled_halves(32)
PHI_RATE = Optimization("adam", 1e-2)


def rotation() -> InstaAug:
    torch.manual_seed(0)
    return InstaAug(T.Rotation(0.5))


def crops() -> InstaAug:
    torch.manual_seed(0)
    return InstaAug(T.Crop(levels=((1.0, 1), (0.5, 2))), baseline="value")


METHODS: dict[str, Callable[[], Augmenter]] = {
    "none": NoAugmentation,
    "random": lambda: RandomAugmentation(T.Rotation(0.5)),
    "rotation": rotation,
    "crops": crops,
}
ALL_METHODS = pytest.mark.parametrize("method", METHODS)


def loader(batch_size: int = 8, *, seed: int = 0) -> BatchLoader:
    return BatchLoader(DATA, batch_size, seed=seed)


def batches(n_epochs: int, batch_size: int = 8) -> list[tuple[Tensor, Tensor]]:
    """What the loader will give."""
    again = loader(batch_size)
    return [batch for _ in range(n_epochs) for batch in again]


# --- learning -----------------------------------------------------------------------------------


@ALL_METHODS
def test_the_loss_falls_whatever_the_method(method: str) -> None:
    task = supervised(METHODS[method]())
    fit(task, loader(), epochs=4)
    losses = [row["train/loss"] for row in task.history]
    assert losses[-1] < 0.6 * losses[0]


@ALL_METHODS
def test_two_runs_with_one_seed_are_bit_identical(method: str) -> None:
    ends = []
    for _ in range(2):
        task = supervised(METHODS[method](), flip=True, seed=3)
        fit(task, loader(), epochs=2)
        ends.append(parameters_of(task))
    assert torch.equal(*ends)


@pytest.mark.parametrize("method", ["random", "rotation", "crops"])
def test_another_seed_draws_something_else(method: str) -> None:
    ends = []
    for seed in (0, 1):
        task = supervised(METHODS[method](), seed=seed)
        fit(task, loader())
        ends.append(parameters_of(task.model))
    assert not torch.equal(*ends)


def test_draws_do_not_touch_the_global_randomness() -> None:
    task = supervised(rotation(), flip=True)
    before = torch.get_rng_state()
    fit(task, loader())
    assert torch.equal(before, torch.get_rng_state())


def test_without_augmentation_a_step_is_a_step_of_plain_gradient_descent() -> None:
    task = supervised()
    reference = classifier()
    fit(task, loader(), epochs=2)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    for x, labels in batches(2):
        optimizer.zero_grad()
        F.cross_entropy(reference(x / 255), labels).backward()
        optimizer.step()
    torch.testing.assert_close(parameters_of(task.model), parameters_of(reference))


def test_label_smoothing_is_that_of_the_formula() -> None:
    task = SupervisedTask(classifier(), NoAugmentation(), num_classes=2, label_smoothing=0.2)
    logits, labels = torch.tensor([[2.0, -1.0]]), torch.tensor([0])
    log_p = logits.log_softmax(dim=1)[0]
    torch.testing.assert_close(
        task.losses(logits, labels), -(0.9 * log_p[0] + 0.1 * log_p[1])[None]
    )


# --- what the model sees ------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [(0.0,), (0.2, 0.4, 0.6)])
def test_bytes_and_floats_are_prepared_alike(mean: tuple[float, ...]) -> None:
    pixels = torch.randint(256, (4, 3, 6, 5), dtype=torch.uint8)
    task = supervised(mean=mean, std=(0.5,) * len(mean))
    by_hand = (pixels.double() / 255 - torch.tensor(mean).view(1, -1, 1, 1)) / 0.5
    torch.testing.assert_close(task.normalize(pixels), by_hand.float())
    assert torch.equal(task.normalize(pixels), task.normalize(pixels.float() / 255))


def test_preparing_leaves_the_images_as_they_are() -> None:
    pixels = torch.randint(256, (4, 3, 6, 5), dtype=torch.uint8)
    floats = pixels / 255
    task = supervised(mean=(0.5,), std=(0.5,))
    for x in (pixels, floats):
        before = x.clone()
        task.normalize(x)
        assert torch.equal(x, before)


@pytest.mark.parametrize("n_samples", [2, 3])
def test_several_samples_make_a_batch_several_times_as_large(n_samples: int) -> None:
    model = Recording(classifier())
    task = supervised(rotation(), model=model, n_samples=n_samples)
    fit(task, loader())
    assert [len(x) for x in model.seen] == [8 * n_samples] * 4
    first, second = model.seen[0][:8], model.seen[0][8:16]
    assert not torch.equal(first, second)


def test_about_half_of_the_images_are_mirrored() -> None:
    """Of 256 images 128 ± 40, five standard deviations: wrong with probability 6e-7."""
    model = Recording(classifier())
    fit(supervised(model=model, flip=True), loader(), epochs=8)
    count = 0
    for seen, (x, _) in zip(model.seen, batches(8), strict=True):
        plain = x / 255
        mirrored = [torch.equal(s, p.flip(2)) for s, p in zip(seen, plain, strict=True)]
        kept = [torch.equal(s, p) for s, p in zip(seen, plain, strict=True)]
        assert all(m != k for m, k in zip(mirrored, kept, strict=True))
        count += sum(mirrored)
    assert abs(count - 128) <= 5 * sqrt(256 / 4)


def test_every_method_sees_images_that_vary_and_predictions_are_of_images_as_they_are() -> None:
    """Brightness within a factor of the square root of 2, drawn anew in every epoch."""
    vary = RandomAugmentation("brightness", strength={"brightness": 0.5})
    model = Recording(classifier())
    task = supervised(model=model, vary=vary)
    fit(task, loader(), epochs=2)
    factors = [
        (seen.mean(dim=(1, 2, 3)) / (x / 255).mean(dim=(1, 2, 3)))
        for seen, (x, _) in zip(model.seen, batches(2), strict=True)
    ]
    assert torch.cat(factors).min() > 0.7
    assert torch.cat(factors).max() < 1.42
    assert torch.cat(factors).std() > 0.1
    assert not torch.allclose(torch.cat(factors[:4]), torch.cat(factors[4:]), atol=0.05)
    x = batches(1)[0][0]
    torch.testing.assert_close(task.eval()(x), model(x / 255))


# --- φ learns when it should --------------------------------------------------------------------


def run_with_stages(**stages: int) -> tuple[list[Tensor], list[bool]]:
    """φ after each epoch of two steps, and whether the images of the epoch were augmented."""
    model = Recording(classifier())
    aug = rotation()
    start = parameters_of(aug)
    look = EachStep(lambda task: parameters_of(task.augmenter))
    task = supervised(aug, model=model, phi_optimization=PHI_RATE, **stages)
    fit(task, loader(16), epochs=4, callbacks=[look])
    changed = [
        not torch.equal(seen, x / 255)
        for seen, (x, _) in zip(model.seen, batches(4, 16), strict=True)
    ]
    return [start, *look.seen[1::2]], changed[1::2]


@pytest.mark.parametrize(("pretrain", "rest"), [(0, 0), (0, 2), (1, 0), (1, 1)])
def test_phi_rests_in_the_first_epochs_and_augments_before_it_learns(
    pretrain: int, rest: int
) -> None:
    phi, augmented = run_with_stages(pretrain_epochs=pretrain, phi_rest_epochs=rest)
    moved = [not torch.equal(a, b) for a, b in pairwise(phi)]
    assert moved == [epoch >= pretrain + rest for epoch in range(4)]
    assert augmented == [epoch >= pretrain for epoch in range(4)]


def test_the_schedule_of_phi_stands_still_in_the_last_epochs() -> None:
    task = supervised(
        rotation(),
        phi_optimization=Optimization("adam", 0.1, schedule="cosine"),
        finetune_epochs=2,
    )
    fit(task, loader(), epochs=4)
    rates = [row["phi_learning_rate"] for row in task.history]
    assert rates[0] > rates[1] == rates[2] == rates[3]


def test_in_the_last_epochs_images_are_whole_and_phi_rests() -> None:
    phi, augmented = run_with_stages(finetune_epochs=3)
    assert [not torch.equal(a, b) for a, b in pairwise(phi)] == [True, False, False, False]
    assert augmented == [True, False, False, False]


@pytest.mark.parametrize("rest", [0, 2])
def test_the_schedule_of_phi_begins_when_it_learns(rest: int) -> None:
    task = supervised(
        rotation(),
        phi_optimization=Optimization("adam", 0.1, schedule="cosine"),
        phi_rest_epochs=rest,
    )
    fit(task, loader(), epochs=4)
    halves = [0.5 * (1 + cos(pi * i / (4 - rest))) for i in range(1, 5 - rest)]
    rates = [row["phi_learning_rate"] for row in task.history]
    assert rates == pytest.approx([0.1] * rest + [0.1 * h for h in halves], abs=1e-9)


def test_each_learning_rate_reaches_its_own_parameters() -> None:
    """Adam's first step moves every parameter with a gradient by its learning rate."""
    aug = rotation()
    task = supervised(
        aug, optimization=Optimization("adam", 1e-2), phi_optimization=Optimization("adam", 1e-4)
    )
    before = parameters_of(task.model), parameters_of(aug)
    fit(task, loader(32))
    moved = [
        (parameters_of(m) - b).abs().max().item()
        for m, b in zip((task.model, aug), before, strict=True)
    ]
    assert moved == pytest.approx([1e-2, 1e-4], rel=1e-2)


def test_every_parameter_has_exactly_one_optimizer() -> None:
    task = supervised(crops())
    trainer = fit(task, loader())
    held = [id(p) for o in trainer.optimizers for group in o.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in task.parameters())


def test_a_frozen_model_leaves_phi_to_learn_alone() -> None:
    aug, model = rotation(), classifier().requires_grad_(False)
    before = parameters_of(aug), parameters_of(model)
    fit(supervised(aug, model=model), loader())
    assert not torch.equal(parameters_of(aug), before[0])
    assert torch.equal(parameters_of(model), before[1])


# --- steps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["constant", "one_cycle"])
def test_two_batches_make_the_step_of_one_twice_as_large(schedule: Any) -> None:
    ends = []
    for batch_size, accumulate in ((16, 1), (8, 2)):
        task = supervised(
            optimization=Optimization("sgd", 0.1, schedule=schedule),
            accumulate_grad_batches=accumulate,
        )
        fit(task, loader(batch_size), epochs=3)
        ends.append(parameters_of(task.model))
    torch.testing.assert_close(*ends, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("validation", [None, BatchLoader(DATA, 16)])
@pytest.mark.parametrize("accumulate", [1, 3, 5])
def test_an_epoch_ends_with_a_step(accumulate: int, validation: BatchLoader | None) -> None:
    """No gradient is carried over to the next epoch, or lost in the validation between."""
    task = supervised(accumulate_grad_batches=accumulate)
    look = EachStep(lambda task: parameters_of(task.model))
    start = parameters_of(task.model)
    trainer = fit(task, loader(), validation, epochs=2, callbacks=[look])
    steps = [start, *look.seen]
    moved = [not torch.equal(a, b) for a, b in pairwise(steps)]
    assert moved == [i % accumulate == 0 or i == 4 for i in (1, 2, 3, 4)] * 2
    assert trainer.global_step == sum(moved)


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_last_step_is_taken_with_the_last_rate_of_the_cycle(accumulate: int) -> None:
    task = supervised(
        optimization=Optimization("sgd", 0.5, schedule="one_cycle"),
        accumulate_grad_batches=accumulate,
    )
    rates = EachStep(lambda task: task.optimizers().param_groups[0]["lr"])
    fit(task, loader(), epochs=3, callbacks=[rates])
    assert rates.seen[-2] == pytest.approx(0.5 / 25 / 1e4)  # before it moves once more


@pytest.mark.parametrize("clip", [0.0, 0.01])
def test_the_norm_of_the_gradient_is_clipped(clip: float) -> None:
    """A step of plain gradient descent with rate 1 is as long as the gradient."""
    task = supervised(gradient_clip_val=clip, optimization=Optimization("sgd", 1.0, momentum=0.0))
    look = EachStep(lambda task: parameters_of(task.model))
    start = parameters_of(task.model)
    fit(task, loader(), callbacks=[look])
    steps = torch.stack([start, *look.seen]).diff(dim=0).norm(dim=1)
    if clip:
        assert (steps <= clip * (1 + 1e-4)).all()
        torch.testing.assert_close(steps[0], torch.tensor(clip), rtol=1e-4, atol=0.0)
    else:
        assert steps[0] > 0.1


def test_clipping_leaves_phi_alone() -> None:
    ends = []
    for clip in (0.0, 1e-6):
        aug = rotation()
        fit(
            supervised(aug, gradient_clip_val=clip, phi_optimization=Optimization("sgd", 0.1)),
            loader(32),
        )
        ends.append(parameters_of(aug))
    assert torch.equal(*ends)


def test_the_rate_falls_when_validation_has_not_improved() -> None:
    """A model that is never right in validation, with a patience of one epoch."""
    wrong = labeled_halves(8)
    wrong.targets.copy_(1 - wrong.targets)
    task = supervised(
        optimization=Optimization("sgd", 0.1, schedule="plateau", factor=0.5, patience=1)
    )
    fit(task, loader(), BatchLoader(wrong, 8), epochs=4)
    assert [row["validation/top1"] for row in task.history] == [0.0] * 4
    assert [row["learning_rate"] for row in task.history] == [0.1, 0.1, 0.05, 0.025]


@pytest.mark.parametrize(
    ("scores", "n_drops"),
    [
        ({"top1": [0.5, 0.6, 0.7], "nll": [1.0, 2.0, 3.0]}, 0),  # more right, if overconfident
        ({"top1": [0.5, 0.5, 0.4], "nll": [3.0, 2.0, 1.0]}, 2),
        ({"rmse": [1.0, 2.0, 0.5]}, 1),
        ({"nll": [1.0, 2.0, 0.5]}, 1),  # without labels
        ({}, 1),
    ],
)
def test_a_plateau_is_one_of_accuracy_where_there_are_classes(
    scores: dict[str, list[float]], n_drops: int
) -> None:
    task = supervised()
    plateau = Optimization("sgd", 0.1, schedule="plateau", factor=0.5, patience=1)
    optimizer = plateau.make_optimizer(task.model.parameters())
    schedule = plateau.make_schedule(optimizer, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "lr_schedulers", lambda: schedule)
        for epoch, loss in enumerate([1.0, 1.0, 0.5]):
            row = {f"validation/{name}": values[epoch] for name, values in scores.items()}
            task._step_plateaus({"train/loss": loss, **row})
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.5**n_drops


# --- other loaders ------------------------------------------------------------------------------


class Pairs(Dataset[tuple[Tensor, int]]):
    """A data set as a user might write one: floating point, targets as Python's numbers."""

    def __len__(self) -> int:
        return len(DATA)

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x, label = DATA[index]
        return x / 255, int(label)


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Nobody knows how long."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from (DATA[i] for i in range(len(DATA)))


class Endless(IterableDataset[tuple[Tensor, Tensor]]):
    """As streams of web data are."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield from (DATA[i] for i in range(len(DATA)))


def test_a_stream_trains_for_epochs_of_a_stated_length() -> None:
    """As a data set of that length would: the schedule, too, knows it."""
    cycle = Optimization("sgd", 0.1, schedule="one_cycle")
    histories = []
    few = BatchLoader(DATA.subset(range(24)), 8)
    for loader, n_batches in ((DataLoader(Endless(), 8), 3), (few, None)):
        task = supervised(rotation(), optimization=cycle)
        fit(task, loader, epochs=2, limit_train_batches=n_batches)
        histories.append(task.history)
    assert histories[0] == histories[1]
    assert [row["step"] for row in histories[0]] == [3, 6]


def test_a_users_data_set_in_a_plain_loader_trains_as_well() -> None:
    task = supervised(rotation())
    fit(task, DataLoader(Pairs(), 8), DataLoader(Pairs(), 8), epochs=4)
    assert task.history[-1]["train/loss"] < 0.6 * task.history[0]["train/loss"]
    assert task.history[-1]["validation/top1"] == 1.0


def test_any_loader_of_the_same_images_makes_the_same_steps() -> None:
    ends = []
    for train in (BatchLoader(DATA, 8), DataLoader(Pairs(), 8)):
        task = supervised(rotation(), flip=True)
        fit(task, train)
        ends.append(parameters_of(task))
    torch.testing.assert_close(*ends, atol=1e-5, rtol=1e-5)


def test_a_stream_without_a_length_trains_at_a_constant_rate() -> None:
    task = supervised()
    fit(task, DataLoader(Stream(), 8), epochs=2)
    assert [row["step"] for row in task.history] == [4, 8]


def test_a_cycle_over_a_stream_without_a_length_is_refused() -> None:
    task = supervised(optimization=Optimization("sgd", 0.1, schedule="one_cycle"))
    with pytest.raises(ArgumentError, match="`schedule` must be constant or plateau"):
        fit(task, DataLoader(Stream(), 8))


# --- what is written down -----------------------------------------------------------------------


@ALL_METHODS
def test_the_history_has_the_means_of_every_epoch(method: str) -> None:
    task = supervised(METHODS[method]())
    look = EachStep(lambda task: {k: float(v) for k, v in task.latest.items()})
    fit(task, loader(), epochs=2, callbacks=[look])
    assert [(row["epoch"], row["step"]) for row in task.history] == [(0, 4), (1, 8)]
    for row, steps in zip(task.history, (look.seen[:4], look.seen[4:]), strict=True):
        means = {f"train/{k}": sum(s[k] for s in steps) / 4 for k in steps[0]}
        assert {k: v for k, v in row.items() if k.startswith("train/")} == pytest.approx(means)
    learned = method in ("rotation", "crops")
    assert ("phi_learning_rate" in task.history[0]) == learned
    assert any(k.startswith("train/entropy/") for k in task.history[0]) == learned


@pytest.mark.parametrize("n_sanity", [0, 2])
def test_validation_scores_are_those_of_an_evaluation_by_hand(n_sanity: int) -> None:
    task = supervised(rotation(), mean=(0.4,), std=(0.3,))
    held_out = labeled_halves(20, seed=9)
    fit(task, loader(), BatchLoader(held_out, 6), num_sanity_val_steps=n_sanity)
    x, labels = held_out.__getitems__(range(20))
    with torch.no_grad():
        logits = task.model((x / 255 - 0.4) / 0.3)
    row = task.history[0]
    assert row["validation/top1"] == (logits.argmax(dim=1) == labels).float().mean()
    assert row["validation/nll"] == pytest.approx(float(F.cross_entropy(logits, labels)), rel=1e-5)


def test_an_epoch_without_validation_has_no_scores() -> None:
    task = supervised()
    fit(
        task, loader(), BatchLoader(DATA, 8), epochs=4, check_val_every_n_epoch=2,
        num_sanity_val_steps=2,
    )  # fmt: skip
    assert ["validation/nll" in row for row in task.history] == [False, True] * 2


# --- errors -------------------------------------------------------------------------------------


class Returns(nn.Module):
    """A model with the wrong kind of output."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.linear = nn.Linear(3 * SIDE * SIDE, 3)

    @override
    def forward(self, x: Tensor) -> object:
        out = self.linear(x.flatten(1))
        return {"three": out, "row": out[:, 0], "dict": {"other": out}}[self.kind]


@pytest.mark.parametrize(
    ("kind", "got"), [("three", r"\(8, 3\)"), ("row", r"\(8,\)"), ("dict", "dict")]
)
def test_a_model_with_the_wrong_outputs_is_told_the_right_ones(kind: str, got: str) -> None:
    message = (
        rf"`model` must return one logit per class, \(8, 2\) for 8 images of 2 classes: got {got}"
        r"\. Give its last layer 2 outputs\."
    )
    with pytest.raises(ShapeError, match=message):
        fit(supervised(model=Returns(kind)), loader())


class Explodes(nn.Module):
    """Returns NaN or infinity from a certain call on."""

    def __init__(self, n_good: int, value: float) -> None:
        super().__init__()
        self.inner, self.n_good, self.value, self.calls = classifier(), n_good, value, 0

    @override
    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(x) * (1.0 if self.calls <= self.n_good else self.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("stages", [{}, {"pretrain_epochs": 9}])
def test_a_loss_that_is_no_number_names_the_step(value: float, stages: dict[str, int]) -> None:
    """Four steps an epoch: step 6, counted from 0, is in epoch 1."""
    task = supervised(rotation(), model=Explodes(6, value), **stages)
    message = r"The loss became NaN or infinite in step 6 \(epoch 1\)\. Lower `learning_rate`"
    with pytest.raises(NonFiniteError, match=message):
        fit(task, loader(), epochs=3)


@pytest.mark.parametrize("std", [(0.0,), (0.5, -0.1, 0.5)])
def test_a_standard_deviation_is_positive(std: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"`std` must be positive: got"):
        supervised(std=std)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_long_epoch_in_half_precision_has_the_right_mean(dtype: torch.dtype) -> None:
    epoch = EpochMeans()
    for _ in range(2000):
        epoch.add({"loss": torch.tensor(0.5, dtype=dtype, requires_grad=True)})
    assert epoch.means() == {"loss": 0.5}
    assert not epoch.sums["loss"].requires_grad


def test_an_epoch_without_steps_has_no_means() -> None:
    assert EpochMeans().means() == {}


def test_a_model_that_returns_a_dict_trains_as_its_logits_would() -> None:
    """As models of Hugging Face do, and models with an auxiliary head."""
    data = labeled_halves()
    plain, wrapped = (supervised(model=model) for model in (classifier(), TwoHeads()))
    for task in (plain, wrapped):
        fit(task, BatchLoader(data, 8, seed=0), BatchLoader(data, 8))
    assert parameters_of(wrapped.model).equal(parameters_of(plain.model))
    assert wrapped.history == plain.history, "validation scores among them"
