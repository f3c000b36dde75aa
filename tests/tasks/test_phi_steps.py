"""Augmenters that learn in steps of their own: after the model, or from held-out images."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import AugmentedBatch, HeldOutBatch, HeldOutLearner, LossesOf
from instaaug.methods import MixUp, NoAugmentation
from instaaug.shapes import Images, Rendered
from instaaug.tasks import BatchLoader, Optimization
from instaaug.tasks.task import draw_held_out
from tests.support.models import small_classifier
from tests.support.tiny_training import classifier, fit, labeled_halves, parameters_of, supervised

SIDE = 16
DATA = labeled_halves(16, side=SIDE)
RATE = 0.1
PLAIN = Optimization("sgd", RATE, momentum=0.0)


def crops() -> InstaAug:
    torch.manual_seed(0)
    return InstaAug(T.Crop(levels=((1.0, 1), (0.5, 2))), rule="fixed")


def linear() -> nn.Module:
    return classifier(side=SIDE)


def generator_of(step: int) -> Generator:
    """What the task draws from, by its documentation: seed, process, number of the step."""
    words = np.random.SeedSequence([0, 0, step]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(words[0]) >> 1)


def descend(module: nn.Module, objective: Tensor) -> None:
    learned = [p for p in module.parameters() if p.requires_grad]
    for parameter, slope in zip(learned, torch.autograd.grad(objective, learned), strict=True):
        parameter.data -= RATE * slope


def test_a_separate_step_of_phi_sees_another_draw_and_the_model_after_its_step() -> None:
    model, aug = small_classifier(2), crops()
    task = supervised(
        aug, model=model, phi_step="separate", phi_optimization=PLAIN, optimization=PLAIN
    )
    fit(task, BatchLoader(DATA, 16, seed=0))

    naive, naive_aug, generator = small_classifier(2), crops(), generator_of(0)
    ((x, y),) = BatchLoader(DATA, 16, seed=0)
    x = x.float() / 255
    with torch.no_grad():
        first = naive_aug(x, generator=generator, targets=y)
    descend(naive, F.cross_entropy(naive(first.inputs), y))
    second = naive_aug(x, generator=generator, targets=y)
    losses = F.cross_entropy(naive.eval()(second.inputs), y, reduction="none")
    descend(naive_aug, naive_aug.objective(losses, second))

    torch.testing.assert_close(parameters_of(model), parameters_of(naive))
    torch.testing.assert_close(parameters_of(aug), parameters_of(naive_aug))
    assert model[1].num_batches_tracked == 1  # type: ignore[index]  # the second pass left no mark
    assert model.training


def test_a_separate_step_is_another_step() -> None:
    joint, separate = crops(), crops()
    for aug, how in ((joint, "joint"), (separate, "separate")):
        task = supervised(aug, model=small_classifier(2), phi_step=how, phi_optimization=PLAIN)
        fit(task, BatchLoader(DATA, 16, seed=0))
    assert not torch.equal(parameters_of(joint), parameters_of(separate))


class Judged(HeldOutLearner):
    """One number, which held-out images pull up by 1 a step and the training loss down by 100."""

    def __init__(self, search_every: int = 1) -> None:
        super().__init__()
        self.search_every = search_every
        self.number = nn.Parameter(torch.zeros(()))
        self.inner = NoAugmentation()
        self.held_out: list[HeldOutBatch] = []
        self.model_then: list[Tensor] = []

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        return self.inner(x, n_samples, generator, targets)

    @override
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        return losses.mean() + 100 * self.number

    @override
    def draw(self, x: Images, n_samples: int, **settings: object) -> Tensor:
        return self.inner.draw(x, n_samples)

    @override
    def render(self, x: Images, theta: Tensor) -> Rendered:
        return x

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        return {}

    @override
    def search_objective(
        self,
        model: nn.Module,
        batch: AugmentedBatch,
        held_out: HeldOutBatch,
        losses_of: LossesOf,
        generator: Generator | None = None,
    ) -> Tensor:
        self.held_out.append(held_out)
        self.model_then.append(parameters_of(model))
        assert losses_of(model(held_out.inputs), held_out.targets).shape == held_out.targets.shape
        return -self.number / RATE


@pytest.mark.parametrize(("every", "accumulate"), [(1, 1), (2, 1), (1, 2)])
def test_held_out_images_alone_teach_whoever_learns_from_them(every: int, accumulate: int) -> None:
    aug = Judged(every)
    task = supervised(
        aug,
        held_out=DATA,
        phi_optimization=PLAIN,
        accumulate_grad_batches=accumulate,
        model=linear(),
    )
    fit(task, BatchLoader(DATA, 4, seed=0))  # four steps
    assert aug.number.item() == pytest.approx(4 / every)
    assert all(len(seen.inputs) == 4 for seen in aug.held_out)
    assert aug.held_out[0].inputs.max() <= 1  # prepared as the model takes them


def test_a_search_comes_before_the_step_and_takes_nothing_from_it() -> None:
    def trained(aug: Judged | NoAugmentation, accumulate: int) -> nn.Module:
        model = linear()
        task = supervised(aug, model=model, held_out=DATA, accumulate_grad_batches=accumulate)
        fit(task, BatchLoader(DATA, 4, seed=0))
        return model

    for accumulate in (1, 2):
        aug = Judged()
        searched, plain = trained(aug, accumulate), trained(NoAugmentation(), accumulate)
        torch.testing.assert_close(parameters_of(searched), parameters_of(plain), rtol=0, atol=0)
        steps = [not torch.equal(a, b) for a, b in zip(aug.model_then, aug.model_then[1:])]  # noqa: B905
        assert steps == ([True] * 3 if accumulate == 1 else [False, True, False])


def test_no_search_while_phi_rests() -> None:
    aug = Judged()
    task = supervised(
        aug, held_out=DATA, phi_rest_epochs=1, phi_optimization=PLAIN, model=linear()
    )
    fit(task, BatchLoader(DATA, 8, seed=0), epochs=2)
    assert len(aug.held_out) == 2


def test_a_drawn_batch_has_no_image_twice_and_depends_on_the_seed() -> None:
    def drawn(seed: int, n: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return draw_held_out(DATA, n, generator, torch.device("cpu"))[0].flatten(1)

    assert len(drawn(0, 12).unique(dim=0)) == 12
    assert len(drawn(0, 99)) == len(DATA)
    assert torch.equal(drawn(0, 5), drawn(0, 5))
    assert not torch.equal(drawn(0, 5), drawn(1, 5))


def test_a_mixture_is_trained_on_both_targets() -> None:
    """One step on mixtures is the step on their soft labels."""
    model = linear()
    naive = linear()
    fit(supervised(MixUp(), model=model, optimization=PLAIN), BatchLoader(DATA, 16, seed=0))

    ((x, y),) = BatchLoader(DATA, 16, seed=0)
    batch = MixUp()(x.float() / 255, generator=generator_of(0), targets=y)
    assert batch.own_share is not None
    assert batch.partner_targets is not None
    one_hot = torch.eye(2)
    share = batch.own_share[:, None]
    soft = share * one_hot[y] + (1 - share) * one_hot[batch.partner_targets[0]]
    descend(naive, F.cross_entropy(naive(batch.inputs), soft))
    torch.testing.assert_close(parameters_of(model), parameters_of(naive))
