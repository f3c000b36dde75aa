"""A training step tells an accelerator what to do and never waits for an answer."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.augmentation import Augmenter, HeldOutBatch, HeldOutLearner
from instaaug.methods import METHODS, NoAugmentation
from instaaug.methods.distortions import Distortions
from instaaug.methods.operations import Operations
from instaaug.methods.un_mix import UnMix
from tests.contracts.test_augmenter_contract import MEAN, STD, build
from tests.support.fake_device import DEVICE, DeviceGenerator, host_never_waits
from tests.support.models import small_classifier

N_CLASSES = 3
TRANSFORMS: Mapping[str, list[T.Transform]] = {
    "crop": [T.Crop()],
    "rotation": [T.Rotation()],
    "color": [T.HSVJitter()],
    "all": [
        T.LocalNoise(levels=((0.5, 4),)), T.Crop(), T.Flip(), T.Rotation(), T.Shear(),
        T.HSVJitter(), T.Brightness(),
    ],
}  # fmt: skip
FEW_BOXES = T.Crop(levels=((0.5, 2), (1.0, 1)))

ONE_OPERATION = "of 14 operations or more, only the one drawn for an image is computed"
OPERATIONS = ("autoaugment", "fast_autoaugment", "randaugment", "trivialaugment")
WAITING = {
    **dict.fromkeys([*OPERATIONS, "adaaug", "metaaugment"], (ONE_OPERATION, "nonzero")),
    "augerino": ("torch chooses the degree of a matrix exponential by its norm", "matrix_exp"),
}
"""By method, why it makes the host wait, and the operator at which it does."""


def losses_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def take_step(
    augmenter: Augmenter, model: nn.Module, device: torch.device, *, n_samples: int
) -> None:
    x = torch.rand(6, 3, 16, 20, device=device)
    targets = torch.zeros(6, dtype=torch.long, device=device)
    batch = augmenter(x, n_samples, targets=targets)
    losses = augmenter.losses(model, batch, losses_of)
    augmenter.objective(losses, batch).backward()
    if isinstance(augmenter, HeldOutLearner):
        held_out = HeldOutBatch(x, targets)
        augmenter.search_objective(model, batch, held_out, losses_of).backward()
    augmenter.monitor(batch)


def take_step_on_device(
    augmenter: Augmenter,
    model: nn.Module | None = None,
    *,
    n_samples: int = 1,
    copies: bool = True,
) -> None:
    model = small_classifier(N_CLASSES) if model is None else model
    augmenter.to(DEVICE)
    model.to(DEVICE)
    with host_never_waits(copies=copies):
        take_step(augmenter, model, DEVICE, n_samples=n_samples)


def take_later_step_on_device(method: str) -> None:
    """The first step, on the host, may look at whatever is looked at once."""
    model = small_classifier(N_CLASSES)
    augmenter = build(method, model)
    model = augmenter.adapt(model)
    take_step(augmenter, model, torch.device("cpu"), n_samples=2)
    copies = method not in WAITING  # those copy their tables of operations as well
    take_step_on_device(augmenter, model, n_samples=2, copies=copies)


# --- all methods --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(WAITING)))
def test_a_step_of_a_method_does_not_wait(method: str) -> None:
    take_later_step_on_device(method)


@pytest.mark.parametrize("method", sorted(WAITING))
def test_methods_that_are_known_to_wait_still_do(method: str) -> None:
    _, operator = WAITING[method]
    with pytest.raises(RuntimeError, match=operator):
        take_later_step_on_device(method)


@pytest.fixture
def _without_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    def replaced(self: Operations, x: Tensor, theta: Tensor, **settings: Any) -> Tensor:
        return x * theta.mean(dim=1)[:, None, None, None]

    monkeypatch.setattr(Operations, "apply", replaced)


@pytest.mark.usefixtures("_without_operations")
@pytest.mark.parametrize("method", [*OPERATIONS, "adaaug"])
def test_policies_wait_for_nothing_but_their_operations(method: str) -> None:
    take_later_step_on_device(method)


@pytest.mark.usefixtures("_without_operations")
def test_metaaugment_also_waits_for_the_number_of_batches_that_its_sampler_has_seen() -> None:
    with pytest.raises(RuntimeError, match="item"):
        take_later_step_on_device("metaaugment")


# --- InstaAug -----------------------------------------------------------------------------------


@pytest.mark.parametrize("transforms", sorted(TRANSFORMS))
@pytest.mark.parametrize("conditioning", ["input", "none"])
def test_a_step_of_instaaug_does_not_wait(transforms: str, conditioning: Any) -> None:
    take_step_on_device(
        InstaAug(TRANSFORMS[transforms], conditioning=conditioning, mean=MEAN, std=STD)
    )


def test_a_step_of_decoded_crops_does_not_wait() -> None:
    take_step_on_device(InstaAug(T.UniformCrop(), ranges="latent"))


def test_to_resize_makes_nobody_wait() -> None:
    take_step_on_device(InstaAug(T.Crop(), size=(24, 16)))


@pytest.mark.parametrize("baseline", ["none", "value", "rloo", "critic"])
def test_no_baseline_waits(baseline: Any) -> None:
    take_step_on_device(InstaAug([T.Crop(), T.Flip()], baseline=baseline), n_samples=2)


@pytest.mark.parametrize(
    ("transform", "estimator"),
    [
        (T.Crop(), "score"),
        (T.Rotation(), "pathwise"),
        (FEW_BOXES, "exact"),
        (T.Crop(), "closed_form"),
    ],
    ids=["score", "pathwise", "exact", "closed_form"],
)
def test_no_estimator_waits(transform: T.Transform, estimator: Any) -> None:
    take_step_on_device(InstaAug(transform, estimator=estimator))


@pytest.mark.parametrize("rule", ["multiplicative", "fixed"])
def test_no_rule_of_the_entropy_band_waits(rule: Any) -> None:
    take_step_on_device(InstaAug(T.Rotation(), rule=rule))


def test_labels_of_classes_are_checked_without_waiting() -> None:
    take_step_on_device(InstaAug(T.Crop(), conditioning="class", num_classes=N_CLASSES))


def test_boxes_that_move_make_nobody_wait() -> None:
    take_step_on_device(InstaAug(T.Crop(jitter=True)))


# --- without labels -----------------------------------------------------------------------------


@pytest.mark.parametrize("generator", [None, DeviceGenerator()], ids=["global", "own"])
def test_distortions_do_not_wait(generator: DeviceGenerator | None) -> None:
    views = torch.rand(6, 3, 16, 20, device=DEVICE, requires_grad=True)
    distortions = Distortions(gray=0.2, blur=0.5, mean=MEAN, std=STD)
    with host_never_waits():
        distortions(views, generator).sum().backward()


@pytest.mark.parametrize("generator", [None, DeviceGenerator()], ids=["global", "own"])
def test_mixtures_of_views_do_not_wait(generator: DeviceGenerator | None) -> None:
    views = torch.rand(6, 3, 16, 20, device=DEVICE, requires_grad=True)
    with host_never_waits():
        mixed, share = UnMix().mix(views, generator)
        (mixed.sum() + share).backward()


# --- the test itself ----------------------------------------------------------------------------


def nothing(value: Tensor) -> None:
    pass


def condition(value: Tensor) -> None:
    if value.mean() > 0:
        nothing(value)


def assign_to_mask(value: Tensor) -> None:
    value.clone()[value > 0] = value.new_ones(7)


READS: Mapping[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "condition": condition,
    "tolist": lambda x: x.tolist(),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "assignment to a mask": assign_to_mask,
    "index": lambda x: x[x.argmax() // x.numel()],
    "unique": lambda x: x.unique(),
    "repeat": lambda x: x.repeat_interleave(x[:, 0, 0, 0].long(), dim=0),
    "equal": lambda x: torch.equal(x, x),
    "copy": lambda x: x.cpu(),
    "copy of a list": lambda x: x.new_tensor([1.0, 2.0]),
    "copy of a tensor": lambda x: torch.zeros(3).to(x.device),
    "copy in place": lambda x: x.clone().copy_(torch.zeros(())),
    "inverse": lambda x: torch.linalg.inv(x[..., :16]),
}


class Reader(NoAugmentation):
    """Does nothing to its inputs but read something of them."""

    def __init__(self, read: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.read = read

    @override
    def render(self, x: Tensor, theta: Tensor) -> Tensor:
        self.read(x)
        return x


def test_an_augmenter_that_reads_nothing_passes() -> None:
    take_step_on_device(Reader(nothing))


@pytest.mark.parametrize("read", READS)
def test_an_augmenter_that_reads_is_caught(read: str) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)meta|wait"):
        take_step_on_device(Reader(READS[read]))
