"""Every method keeps the promises of an augmenter, so that all that trains one trains them all."""

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

import instaaug
from instaaug.augmentation import Augmenter, HeldOutLearner
from instaaug.errors import ArgumentError, ShapeError
from instaaug.methods import METHODS, FastAutoAugment
from instaaug.tasks import BatchLoader, Optimization
from tests.support.models import images, labels, small_classifier
from tests.support.tiny_training import EachStep, fit, labeled_halves, parameters_of, supervised

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
CONTEXT: dict[str, Any] = {
    "transforms": "crop",
    "levels": ((0.5, 2), (1.0, 1)),
    "max_outside": 1.0,
    "mean": MEAN,
    "std": STD,
    "padding_mode": "zeros",
    "in_channels": 3,
    "num_classes": 3,
    "image_size": 16,
}
TRANSFORMS = {
    "augerino": "affine",
    "augerino_color": "hsv_jitter",
    "augerino_crop": "uniform_crop",
}
UNDRAWN = ("none", "spatial_transformer", "mixmo")  # the last draws how features are mixed
MIXING = ("mixup", "cutmix", "puzzlemix", "comixup", "saliency_grafting", "mixmo")
TESTED_ON_VIEWS = (
    *("instaaug", "random", "augerino", "augerino_color", "augerino_crop", "adaaug", "adacrops"),
    *("random_resized_crop", "unmix", "viewmaker"),
)
ALL = pytest.mark.parametrize("method", sorted(METHODS))
HELD_OUT = pytest.mark.parametrize(
    "method", [name for name, method in METHODS.items() if method.needs_held_out]
)


def build(method: str, model: nn.Module | None = None) -> Augmenter:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transforms = TRANSFORMS.get(method, "crop")
        augmenter = METHODS[method].build(CONTEXT | {"transforms": transforms})
        augmenter.attach(small_classifier() if model is None else model)
    if isinstance(augmenter, FastAutoAugment):
        augmenter.set_policy([[("rotate", 0.9, 0.8), ("invert", 0.5, 0.0)]])
    return augmenter


def normalized(x: Tensor) -> Tensor:
    return (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


@ALL
def test_the_memory_order_of_images_is_kept(method: str) -> None:
    x = normalized(images(4)).to(memory_format=torch.channels_last)
    batch = build(method)(x, 3, generator=seeded(), targets=labels(4))
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    assert not batch.inputs.is_contiguous()


@ALL
def test_samples_lie_one_after_the_other_with_their_targets(method: str) -> None:
    batch = build(method)(normalized(images(4)), 3, generator=seeded(), targets=labels(4))
    assert batch.inputs.shape == (12, 3, 16, 16)
    assert batch.targets is not None
    assert batch.targets.tolist() == labels(4).tolist() * 3
    assert batch.theta.shape[:2] == batch.log_prob.shape == (3, 4)
    assert torch.isfinite(batch.inputs).all()
    assert torch.isfinite(batch.theta).all()


@ALL
def test_a_seed_decides_every_pixel(method: str) -> None:
    aug, x = build(method), normalized(images(4))

    def drawn(seed: int) -> Tensor:
        return aug(x, 2, generator=seeded(seed), targets=labels(4)).inputs

    torch.manual_seed(1)  # the global randomness must not matter, and stay as it is
    before = torch.get_rng_state()
    first = drawn(0)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first, drawn(0))
    assert torch.equal(first, drawn(1)) == (method in UNDRAWN)


@ALL
def test_inputs_and_the_model_stay_as_they_were(method: str) -> None:
    model = small_classifier()
    before, x = state_of(model), normalized(images(4))
    kept = x.clone()
    aug = build(method, model)
    aug(x, generator=seeded(), targets=labels(4))
    assert torch.equal(x, kept)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    of_model = {id(p) for p in model.parameters()}
    assert not any(id(p) in of_model for p in aug.parameters())


@ALL
def test_the_objective_teaches_the_model_and_a_method_that_learns_from_it(method: str) -> None:
    model = small_classifier()
    aug = build(method, model)
    model = aug.adapt(model)
    batch = aug(normalized(images(6)), generator=seeded(), targets=labels(6))
    losses = aug.losses(model, batch, lambda o, y: F.cross_entropy(o, y, reduction="none"))
    objective = aug.objective(losses, batch)
    assert objective.ndim == 0
    objective.backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters() if p.ndim > 1)
    learns = any(p.grad is not None and p.grad.any() for p in aug.parameters())
    assert learns == aug.learns_from_training_loss
    with pytest.raises(ShapeError):
        aug.objective(losses.mean(), batch)


@ALL
def test_views_average_to_one_output_per_input(method: str) -> None:
    model = small_classifier().eval()
    aug = build(method, model).eval()
    x = normalized(images(4))
    outputs = aug.wrap(model, n_samples=3)(x, seeded())
    assert outputs.shape == (4, 3)
    assert aug.averages_views == (method in TESTED_ON_VIEWS)
    if method in ("none", *MIXING):  # no single image has a partner
        torch.testing.assert_close(outputs, model(x))


@ALL
def test_what_was_learned_is_in_its_state(method: str) -> None:
    aug, x = build(method), normalized(images(4))
    for parameter in aug.parameters():
        nn.init.normal_(parameter, std=0.1, generator=seeded())
    again = build(method)
    again.load_state_dict(aug.state_dict())
    first, second = (a(x, 2, generator=seeded(), targets=labels(4)).inputs for a in (aug, again))
    assert torch.equal(first, second)


@ALL
def test_only_a_transformer_that_is_always_there_changes_what_is_not_drawn(method: str) -> None:
    aug, x = build(method), normalized(images(4))
    for parameter in aug.parameters():
        nn.init.normal_(parameter, std=0.1, generator=seeded())
    assert torch.equal(aug.canonical(x), x) == (method != "spatial_transformer")


@ALL
@pytest.mark.parametrize(
    ("settings", "precision"),
    [({}, "32-true"), ({"accumulate_grad_batches": 2, "n_samples": 2}, "bf16-mixed")],
    ids=["plain", "odd"],
)
def test_it_trains_in_a_task(method: str, settings: dict[str, Any], precision: str) -> None:
    model, data = small_classifier(2), labeled_halves(20, side=16)
    aug = build(method, model)
    task = supervised(
        aug, model=model, held_out=data, phi_optimization=Optimization("adam", 1e-2), **settings
    )
    learning = [model, aug] if aug.learns_from_training_loss or aug.needs_held_out else [model]
    before = [parameters_of(module) for module in learning]
    fit(task, BatchLoader(data, 8, seed=0), precision=precision)
    after = [parameters_of(module) for module in learning]
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert {value.dtype for value in aug.state_dict().values()} <= {torch.float32, torch.int64}
    assert task.n_steps == 3


@HELD_OUT
def test_a_policy_learns_nothing_from_what_the_model_learns_from(method: str) -> None:
    model, data = small_classifier(2), labeled_halves(16, side=16)
    aug = build(method, model)
    assert isinstance(aug, HeldOutLearner)
    aug.search_every = 1000  # the first batch alone
    task = supervised(
        aug, model=model, held_out=data, phi_optimization=Optimization("sgd", 0.1, momentum=0.0)
    )
    after_each = EachStep(lambda task: parameters_of(task.augmenter))
    fit(task, BatchLoader(data, 8, seed=0), epochs=2, callbacks=[after_each])
    assert all(torch.equal(after_each.seen[0], later) for later in after_each.seen[1:])


@HELD_OUT
def test_the_schedule_of_a_policy_has_as_many_steps_as_the_policy(method: str) -> None:
    model, data = small_classifier(2), labeled_halves(20, side=16)
    aug = build(method, model)
    assert isinstance(aug, HeldOutLearner)
    aug.search_every = 3
    task = supervised(
        aug, model=model, held_out=data, accumulate_grad_batches=2,
        phi_optimization=Optimization("sgd", 0.1, schedule="cosine"),
    )  # fmt: skip
    fit(task, BatchLoader(data, 8, seed=0), epochs=3)  # nine batches, three searches
    assert task.history[-1]["phi_learning_rate"] == pytest.approx(0.0, abs=1e-6)


@HELD_OUT
def test_methods_that_learn_from_held_out_images_ask_for_them(method: str) -> None:
    model = small_classifier(2)
    with pytest.raises(ArgumentError, match="held_out"):
        fit(
            supervised(build(method, model), model=model),
            BatchLoader(labeled_halves(8, side=16), 8, seed=0),
        )
    assert isinstance(build(method), HeldOutLearner)


@ALL
def test_a_figure_can_be_drawn_of_it(method: str) -> None:
    augmenter, x = build(method).eval(), normalized(images(2))
    figure = instaaug.plot(augmenter, x, n_samples=2, generator=seeded())
    assert figure.axes
