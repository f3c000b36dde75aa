"""Contrastive learning: what is compared, what learns, and what needs labels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import Augmenter
from instaaug.errors import ArgumentError, NonFiniteError, ShapeError
from instaaug.methods import (
    AdaAugment,
    Distortions,
    MixUp,
    NoAugmentation,
    RandomResizedCrop,
    UnMix,
    Viewmaker,
)
from instaaug.scores import ContrastTally
from instaaug.tasks import BatchLoader, ContrastiveTask, Optimization
from instaaug.tasks.contrastive import gather_views
from tests.support.contrast_worker import compare_own, compared, inputs, weight
from tests.support.forked import exit_codes
from tests.support.tiny_training import (
    SIDE,
    EachStep,
    Recording,
    fit,
    labeled_halves,
    parameters_of,
)

DATA = labeled_halves(32)
N_FEATURES = 6
NOTHING: dict[str, Any] = {"strength": 0.0, "jitter": 0.0, "gray": 0.0, "blur": 0.0, "flip": 0.0}


def encoder() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, N_FEATURES))


def crops(**settings: Any) -> InstaAug:
    torch.manual_seed(0)
    settings = {"baseline": "value", **settings}
    return InstaAug(T.Crop(levels=((1.0, 1), (0.5, 2))), **settings)


def contrastive(augmenter: Augmenter, **settings: Any) -> ContrastiveTask:
    settings.setdefault("optimization", Optimization("sgd", 0.1, momentum=0.0))
    torch.manual_seed(1)
    return ContrastiveTask(
        encoder(), augmenter, n_features=N_FEATURES, hidden=8, n_projected=4, **settings
    )


def loader() -> BatchLoader:
    return BatchLoader(DATA, 8, seed=0)


METHODS: dict[str, Callable[[], Augmenter]] = {
    "none": NoAugmentation,
    "random crop": RandomResizedCrop,
    "crops": crops,
    "shared crops": lambda: crops(conditioning="none", baseline="none"),
    "rotation": lambda: InstaAug(T.Rotation(0.5)),
    "un-mix": UnMix,
    "viewmaker": lambda: Viewmaker(width=0.1),
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_the_encoder_and_what_it_learns_itself(method: str) -> None:
    task = contrastive(METHODS[method]())
    encoder_before = parameters_of(task.model.encoder)
    learned = [p.detach().clone() for p in task.augmenter.parameters()]
    fit(task, loader(), epochs=2)
    assert not torch.equal(encoder_before, parameters_of(task.model.encoder))
    now = list(task.augmenter.parameters())
    assert not learned or any(not torch.equal(a, b) for a, b in zip(learned, now, strict=True))
    assert task.history[-1]["train/loss"] > 0
    assert 0 <= task.history[-1]["train/found"] <= 1


def test_targets_are_not_looked_at() -> None:
    ends = []
    for classes in (DATA.targets, torch.zeros_like(DATA.targets)):
        data = labeled_halves(32)
        data.targets.copy_(classes)
        task = contrastive(crops())
        fit(task, BatchLoader(data, 8, seed=0))
        ends.append(parameters_of(task))
    assert torch.equal(*ends)


def naive_step(z: Tensor, temperature: float) -> Tensor:
    rows = F.normalize(z, dim=-1)
    logits = rows @ rows.T / temperature
    logits.fill_diagonal_(-torch.inf)
    return F.cross_entropy(logits, torch.arange(len(z)).roll(len(z) // 2))


def test_a_step_is_that_of_simclr() -> None:
    task = contrastive(NoAugmentation(), temperature=0.3, distortions=Distortions(**NOTHING))
    seen: list[float] = []
    x = DATA.__getitems__(range(8))[0]
    with torch.no_grad():
        task.train()
        z = task.model(task.normalize(x).repeat(2, 1, 1, 1))
        expected = float(naive_step(z, 0.3))
    task = contrastive(NoAugmentation(), temperature=0.3, distortions=Distortions(**NOTHING))
    watch = EachStep(lambda module: seen.append(float(module.latest["loss"])))
    fit(task, BatchLoader(DATA.subset(range(8)), 8), callbacks=[watch])
    assert seen == pytest.approx([expected], rel=1e-5)


def test_two_views_of_an_image_are_drawn_independently() -> None:
    model = Recording(encoder())
    torch.manual_seed(0)
    task = ContrastiveTask(model, RandomResizedCrop(), n_features=N_FEATURES, hidden=8)
    fit(task, loader())
    views = model.seen[0]
    assert len(views) == 16
    assert not any(torch.equal(a, b) for a, b in zip(views[:8], views[8:], strict=True))


def test_un_mix_sees_half_as_much_again() -> None:
    model = Recording(encoder())
    task = ContrastiveTask(model, UnMix(), n_features=N_FEATURES, hidden=8)
    fit(task, loader())
    assert [len(x) for x in model.seen[:4]] == [16, 8, 16, 8]


def test_first_epochs_may_be_without_crops_and_phi_may_rest() -> None:
    task = contrastive(crops(), pretrain_epochs=1, phi_rest_epochs=1)
    before = parameters_of(task.augmenter)
    after: list[Tensor] = []
    watch = EachStep(lambda module: after.append(parameters_of(module.augmenter)))
    fit(task, loader(), epochs=3, callbacks=[watch])
    moved = [not torch.equal(before, now) for now in after]
    assert moved == [False] * 8 + [True] * 4
    assert "train/found" not in task.history[0]
    assert "train/entropy/crop" in task.history[1]


def test_validation_sees_the_same_views_every_time() -> None:
    task = contrastive(crops(), optimization=Optimization("sgd", 1e-12))
    task.phi_optimization = Optimization("sgd", 1e-12)
    fit(task, loader(), BatchLoader(DATA, 8), epochs=2)
    first, second = (row["validation/nll"] for row in task.history)
    assert first == pytest.approx(second, abs=1e-2)  # BatchNorm's averages moved on
    tallies = [ContrastTally(), ContrastTally()]
    for tally in tallies:
        task.eval().compare_views(DATA.__getitems__(range(8))[0], 0, tally)
    assert tallies[0].scores() == tallies[1].scores()
    assert tallies[0].scores()["n"] == 16


def test_learning_makes_views_find_one_another() -> None:
    task = contrastive(
        RandomResizedCrop(smallest=0.9),
        optimization=Optimization("adam", 1e-2),
        temperature=0.2,
        distortions=Distortions(**NOTHING),
    )
    fit(task, loader(), BatchLoader(DATA, 32), epochs=1)
    start = task.history[0]["train/loss"]
    fit(task, loader(), BatchLoader(DATA, 32), epochs=15)
    assert task.history[-1]["train/loss"] < start - 0.3
    assert task.history[-1]["validation/found"] > 0.3  # by chance 1 in 63


def test_phi_prefers_crops_that_can_be_recognized() -> None:
    """Where only the whole image tells images apart, φ learns to take it, against λ = 0."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 255, (64, SIDE, SIDE, 3), generator=generator, dtype=torch.uint8)
    pixels[:, : SIDE // 2] = 0  # three of four halves are black,
    pixels[:, :, : SIDE // 2] = 0  # and a crop of one of them could be of any image
    data = DATA.subset([0] * 64)
    data = type(data)(pixels.numpy(), torch.zeros(64, dtype=torch.long), classes=("a", "b"))
    aug = crops(rule="fixed", weight=0.0)
    task = contrastive(
        aug,
        optimization=Optimization("adam", 3e-3),
        phi_optimization=Optimization("adam", 1e-2),
        temperature=0.2,
        distortions=Distortions(**NOTHING),
    )
    fit(task, BatchLoader(data, 16, seed=0), epochs=25)
    x = task.normalize(data.__getitems__(range(16))[0])
    probs = aug.distribution(x).finite()["crop"].logits.softmax(dim=-1).mean(dim=0)
    whole, top_left, top_right, bottom_left, bottom_right = probs.tolist()
    assert whole + bottom_right > 0.9
    assert max(top_left, top_right, bottom_left) < 0.05


def test_predictions_need_a_probe() -> None:
    with pytest.raises(ArgumentError, match="Nothing has learned classes yet"):
        contrastive(crops()).predictor  # noqa: B018


@pytest.mark.parametrize(
    ("augmenter", "words"),
    [
        (MixUp, "must do without labels"),
        (AdaAugment, "must do without labels"),
        (lambda: crops(conditioning="class", num_classes=2, baseline="none"), "needs labels"),
        (lambda: crops(estimator="exact", baseline="none"), "every box"),
        (lambda: crops(baseline="rloo"), "two samples whose loss is one"),
    ],
)
def test_what_cannot_be_contrasted_is_refused(
    augmenter: Callable[[], Augmenter], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        contrastive(augmenter())


def test_separate_steps_are_refused() -> None:
    with pytest.raises(ArgumentError, match="`phi_step`"):
        contrastive(crops(), phi_step="separate")


def test_an_encoder_of_another_shape_is_named() -> None:
    task = ContrastiveTask(encoder(), NoAugmentation(), n_features=7)
    with pytest.raises(ShapeError, match=r"`encoder` must return one vector per image, \(16, 7\)"):
        fit(task, loader())


def test_a_loss_that_is_no_number_stops_training() -> None:
    task = contrastive(NoAugmentation(), optimization=Optimization("sgd", 1e30))
    with pytest.raises(NonFiniteError):
        fit(task, loader(), epochs=3)


def in_processes(folder: Path, counts: list[int]) -> list[dict[str, Tensor]]:
    files = [folder / f"{rank}.safetensors" for rank in range(len(counts))]
    calls = [(rank, counts, folder / "meeting_point", file) for rank, file in enumerate(files)]
    assert exit_codes(compare_own, *calls) == [0] * len(counts)
    return [load_file(file) for file in files]


@pytest.mark.parametrize("counts", [[4, 4], [3, 2]])
def test_two_processes_have_the_losses_of_one_with_the_joined_batch(
    tmp_path: Path, counts: list[int]
) -> None:
    parts = in_processes(tmp_path, counts)
    projection = weight()
    found, _ = compared(inputs(sum(counts)), projection)
    for name, whole in (("losses", found.losses), ("credited", found.credits())):
        torch.testing.assert_close(torch.cat([part[name] for part in parts], dim=1), whole)
    # the mean over processes of the gradients of their means
    means = [losses.mean() for losses in found.losses.split(counts, dim=1)]
    (expected,) = torch.autograd.grad(torch.stack(means).mean(), projection)
    for part in parts:
        torch.testing.assert_close(part["gradient"], expected)


def test_a_single_process_has_its_own_views_alone() -> None:
    z = inputs(3)
    joined, own = gather_views(z)
    assert joined is z
    assert own == slice(0, 3)
