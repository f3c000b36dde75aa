"""A frozen model is afterwards what it was, to the last byte, whatever happens in between."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instaaug import fit_tta
from instaaug import transforms as T
from instaaug.errors import ArgumentError
from tests.support.frozen_models import Snapshot, built
from tests.support.frozen_tables import CROP, data

DATA = data()
pytestmark = pytest.mark.usefixtures("_small_batches")

TRANSFORMS: dict[str, Any] = {"crop": CROP, "rotation": T.Rotation(), "both": [CROP, "rotation"]}


def disordered(name: str = "functional ReLU") -> nn.Module:
    """In training mode but for a part, frozen but for a part, with hooks and gradients."""
    model = built(name).train()
    for i, (part, parameter) in enumerate(zip(model.children(), model.parameters(), strict=False)):
        part.train(i % 2 == 0)
        parameter.requires_grad_(i % 2 == 1)
    model.register_forward_pre_hook(lambda *_: None)
    some = next(p for p in model.parameters() if p.requires_grad)
    some.grad = torch.ones_like(some)
    return model


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["functional ReLU", "in-place module", "class token"])
def test_a_fit_leaves_the_model_as_it_was(name: str, transform: str) -> None:
    model = disordered(name)
    before = Snapshot(model)
    fit_tta(model, DATA, TRANSFORMS[transform], steps=2, batch_size=8)
    assert Snapshot(model) == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize(
    ("transform", "where"),
    [("crop", "on_progress"), ("crop", "model"), ("crop", "loss"), ("crop", "on_step"),
     ("rotation", "model"), ("rotation", "loss"), ("both", "on_step")],
)  # fmt: skip
def test_an_interrupted_fit_leaves_the_model_as_it_was(
    transform: str, where: str, error: type[BaseException]
) -> None:
    model = disordered()
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error("in the middle")

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        count()
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    options: dict[str, Any] = {where: loss if where == "loss" else lambda *_: count()}
    if where == "model":
        model.register_forward_hook(options.pop("model"))
    before, state = Snapshot(model), torch.get_rng_state()
    with pytest.raises((error, ArgumentError), match="in the middle"):
        fit_tta(model, DATA, TRANSFORMS[transform], steps=2, batch_size=8, **options)
    assert Snapshot(model) == before
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("merge", ["logit", "weighted"])
def test_prediction_leaves_the_model_as_it_was(merge: Any) -> None:
    model = built("functional ReLU")
    predictor = fit_tta(model, DATA, CROP, steps=2).wrap(model, 4, merge=merge).eval()
    before = Snapshot(model)
    predictor(DATA[0])
    assert Snapshot(model) == before


def test_a_change_would_be_noticed() -> None:
    """The snapshot that all of this rests on."""
    model = disordered()
    norm, head = model.get_submodule("norm"), model.get_submodule("head")
    first = next(model.parameters())
    assert isinstance(norm, nn.BatchNorm2d)
    assert norm.running_mean is not None
    changes: list[Callable[[], Any]] = [
        partial(norm.running_mean.add_, 1e-7),
        partial(head.train, not head.training),
        partial(first.requires_grad_, not first.requires_grad),
        partial(norm.register_forward_hook, lambda *_: None),
        model.zero_grad,
    ]
    for change in changes:
        before = Snapshot(model)
        assert Snapshot(model) == before
        change()
        assert Snapshot(model) != before
