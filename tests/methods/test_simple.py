"""The base of simple methods, and what all that learn nothing have in common."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from instaaug import transforms as T
from instaaug.augmentation import Augmenter
from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.methods import (
    AutoAugment,
    FixedViews,
    LearnedLoss,
    NoAugmentation,
    RandAugment,
    RandomAugmentation,
    TrivialAugment,
)
from tests.support.models import images, labels, small_classifier

CROPS = T.Crop(levels=((1.0, 1), (0.5, 2)))
METHODS: dict[str, Callable[[], Augmenter]] = {
    "none": NoAugmentation,
    "random rotation": lambda: RandomAugmentation("rotation"),
    "random crops": lambda: RandomAugmentation(CROPS),
    "random of several": lambda: RandomAugmentation(
        [CROPS, T.Flip(), T.HSVJitter()], strength=0.5
    ),
    "ten crop": FixedViews.ten_crop,
    "auto augment": AutoAugment,
    "rand augment": RandAugment,
    "trivial augment": TrivialAugment,
    "learned loss": LearnedLoss,
}
WITHOUT_GRADIENT = ("auto augment", "rand augment", "trivial augment")  # some operations round
EVERY = pytest.mark.parametrize("name", METHODS)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@EVERY
def test_the_inputs_are_the_images_rendered_with_theta(name: str) -> None:
    aug, x = METHODS[name](), images(4)
    batch = aug(x, 2, generator=seeded())
    for j in range(2):
        torch.testing.assert_close(
            batch.inputs[4 * j : 4 * (j + 1)], aug.render(x, batch.theta[j]), rtol=0, atol=0
        )


def test_targets_of_any_shape_are_repeated() -> None:
    targets = torch.rand(4, 2)
    batch = RandomAugmentation("rotation")(images(4), 3, targets=targets)
    assert batch.targets is not None
    assert torch.equal(batch.targets, torch.cat([targets] * 3))


@pytest.mark.parametrize("shape", [(12,), (3, 4)])
def test_the_objective_is_the_mean_loss(shape: tuple[int, ...]) -> None:
    aug = RandomAugmentation("rotation")
    batch = aug(images(4), 3)
    losses = torch.arange(12.0).reshape(shape).requires_grad_()
    objective = aug.objective(losses, batch)
    objective.backward()
    assert objective.item() == 5.5
    assert losses.grad is not None
    torch.testing.assert_close(losses.grad, torch.full(shape, 1 / 12))


def test_there_is_nothing_to_watch() -> None:
    aug = RandomAugmentation("rotation")
    assert dict(aug.monitor(aug(images(2)))) == {}


@pytest.mark.parametrize("name", [name for name in METHODS if name != "learned loss"])
def test_there_is_nothing_to_learn(name: str) -> None:
    aug = METHODS[name]()
    assert list(aug.parameters()) == []
    assert aug.state_dict() == {}


@EVERY
def test_a_wrapped_model_averages_over_samples(name: str) -> None:
    aug, model, x = METHODS[name](), small_classifier().eval(), images(5)
    result = aug.wrap(model, 4, merge="logit")(x, seeded())
    theta = aug.draw(x, 4, generator=seeded())
    naive = torch.stack([model(aug.render(x, row)) for row in theta]).mean(dim=0)
    torch.testing.assert_close(result, naive, atol=1e-5, rtol=1e-5)


def test_no_augmentation_at_test_time_is_the_plain_model() -> None:
    model, x = small_classifier().eval(), images(5)
    torch.testing.assert_close(NoAugmentation().wrap(model, 3)(x), model(x))


@pytest.mark.parametrize("name", [n for n in METHODS if n not in WITHOUT_GRADIENT])
def test_the_model_and_the_images_receive_their_gradients(name: str) -> None:
    aug, model, x = METHODS[name](), nn.Conv2d(3, 1, 1), images(2).requires_grad_()
    batch = aug(x)
    aug.objective(model(batch.inputs).square().flatten(1).mean(dim=1), batch).backward()
    assert all(p.grad is not None for p in model.parameters())
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


@EVERY
def test_double_precision_stays_double(name: str) -> None:
    assert METHODS[name]()(images(2).double()).inputs.dtype == torch.float64


# --- errors -------------------------------------------------------------------------------------


def test_no_sample_is_too_few() -> None:
    with pytest.raises(ArgumentError, match=r"`n_samples` must be at least 1: got 0\."):
        RandomAugmentation("rotation")(images(2), 0)


def test_targets_of_other_inputs_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"`targets` must have one entry per input: got 3 for 2"):
        RandomAugmentation("rotation")(images(2), targets=labels(3))


@pytest.mark.parametrize(
    ("losses", "got"), [(torch.tensor(1.0), "got a scalar"), (torch.ones(3), r"got shape \(3,\)")]
)
def test_losses_are_one_per_input(losses: torch.Tensor, got: str) -> None:
    aug = RandomAugmentation("rotation")
    with pytest.raises(ShapeError, match=rf"`losses` must hold one loss per .*\(2,\): {got}"):
        aug.objective(losses, aug(images(2)))


def test_losses_are_numbers() -> None:
    aug = RandomAugmentation("rotation")
    with pytest.raises(NonFiniteError, match="`losses`"):
        aug.objective(torch.tensor([1.0, torch.nan]), aug(images(2)))
