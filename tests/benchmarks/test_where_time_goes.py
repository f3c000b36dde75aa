"""All time of a step is accounted for, and that of backward operators in the right place."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.where_time_goes import (
    BACKWARD_OF,
    PARTS,
    PHASES,
    MissingPartError,
    Profile,
    learned_step,
    phase,
    profiled,
    short,
    watched,
)
from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.parameterizations import InvarianceModule

NAP = 0.02  # seconds, far more than all the rest of a toy step takes


class Drowsy(torch.autograd.Function):
    """The identity, with a slow backward."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        time.sleep(NAP)
        return gradient


class Differentiating(torch.autograd.Function):
    """The square, whose backward runs a phase and the engine within itself, on something slow."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        with torch.enable_grad(), phase("model forward"):
            again = x.detach().requires_grad_()
            value = Drowsy.apply(again).square().sum()  # type: ignore[no-untyped-call]
            return torch.autograd.grad(value, again)[0] * gradient


def toy(slow: Callable[[Tensor], Tensor], slow_phase: str) -> Profile:
    weights = {name: torch.ones(3, requires_grad=True) for name in BACKWARD_OF}

    def step() -> None:
        x = torch.ones(3)
        for name, weight in weights.items():
            with phase(name):
                x = slow(x * weight) if name == slow_phase else x * weight
                _ = weight.detach() + 1  # has the number of the next node and does not make it
        x.sum().backward()

    return profiled(step, steps=3, warm_up=1)


def assert_nap_is_in(found: Profile, name: str) -> None:
    assert [p for p, ms in found.phases.items() if ms >= NAP * 1e3] == [name]


@pytest.mark.parametrize(("forward", "backward"), BACKWARD_OF.items())
def test_a_slow_backward_lands_in_the_phase_of_its_forward(forward: str, backward: str) -> None:
    assert_nap_is_in(toy(Drowsy.apply, forward), backward)


def test_autograd_within_a_backward_stays_with_it() -> None:
    assert_nap_is_in(toy(Differentiating.apply, "color"), "backward of warp and color")


def test_a_slow_forward_lands_in_its_own_phase() -> None:
    def slow(x: Tensor) -> Tensor:
        time.sleep(NAP)
        return x

    assert_nap_is_in(toy(slow, "sampling"), "sampling")


def test_storing_a_gradient_belongs_to_what_made_it() -> None:
    def slow(x: Tensor) -> Tensor:
        weight = torch.ones(3, requires_grad=True)
        weight.register_post_accumulate_grad_hook(lambda _: time.sleep(NAP))
        return x * weight

    assert_nap_is_in(toy(slow, "warp"), "backward of warp and color")


def test_what_no_phase_claims_is_other() -> None:
    assert_nap_is_in(profiled(lambda: time.sleep(NAP), steps=2, warm_up=0), "other")


def test_the_innermost_phase_counts() -> None:
    def step() -> None:
        with phase("color"), phase("warp"):
            time.sleep(NAP)

    assert_nap_is_in(profiled(step, steps=2, warm_up=0), "warp")


def test_shares_are_of_the_whole_and_the_tree_has_the_medians() -> None:
    found = toy(Drowsy.apply, "warp")
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.tree.ms == pytest.approx(sum(found.phases.values()))
    for part in found.tree.children:
        assert part.ms == pytest.approx(found.phases[part.name])
        assert sum(operator.ms for operator in part.children) <= part.ms * (1 + 1e-9)
    (slow,) = (p for p in found.tree.children if p.name == "backward of warp and color")
    assert slow.children[0].name == "drowsy_backward"


def test_the_table_names_operators_shortly() -> None:
    table = toy(Drowsy.apply, "warp").operators
    assert "drowsy_backward" in table
    assert not any(word in table for word in ("aten::", "evaluate_function", "phase: "))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("aten::conv2d", "conv2d"),
        ("aten::mkldnn_convolution", "convolution"),
        ("aten::_softmax", "softmax"),
        ("autograd::engine::evaluate_function: NativeBatchNormBackward0", "batch_norm_backward"),
        (
            "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
            "accumulate_grad",
        ),
        ("GridSampler2DBackward0", "grid_sampler2d_backward"),
        ("Optimizer.step#SGD.step", "sgd.step"),
    ],
)
def test_names_are_said_shortly(name: str, said: str) -> None:
    assert short(name) == said


def small_setting() -> tuple[torch.nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    return torch.nn.Sequential(*layers), torch.rand(4, 3, 32, 32), torch.randint(4, (4,))


@pytest.mark.parametrize(
    ("transforms", "idle"),
    [
        ([T.Crop(), T.Rotation(), T.HSVJitter()], set()),
        (T.Crop(), {"color", "backward of warp and color"}),  # no gradient reaches a drawn box
        (T.Rotation(), {"color"}),
        (T.HSVJitter(), {"warp"}),
    ],
    ids=["all", "crop", "rotation", "color"],
)
def test_a_training_step_is_idle_in_what_it_does_not_do(transforms: Any, idle: set[str]) -> None:
    step = learned_step(transforms, *small_setting())
    with watched(PARTS):
        found = profiled(step, steps=2, warm_up=1)
    assert {name for name, ms in found.phases.items() if ms == 0} == idle
    assert set(found.phases) == set(PHASES)


def test_the_backward_of_each_part_is_found_in_a_real_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmarks.where_time_goes.SLIVER", 0.0)
    monkeypatch.setattr("benchmarks.where_time_goes.WRAPPER", 2.0)  # every name is kept
    step = learned_step([T.Rotation(), T.HSVJitter()], *small_setting())
    with watched(PARTS):
        found = profiled(step, steps=2, warm_up=1)
    names = {part.name: str(part.to_json()) for part in found.tree.children}
    assert "convolution_backward" in names["backward of φ"]
    assert "convolution_backward" in names["backward of the model"]
    assert "grid_sampler" in names["backward of warp and color"]
    assert "convolution_backward" not in names["backward of warp and color"]


def test_watching_leaves_no_trace() -> None:
    before = InvarianceModule.decode, InstaAug.canonical
    with watched(PARTS):
        assert InvarianceModule.decode is not before[0]
    assert (InvarianceModule.decode, InstaAug.canonical) == before


@pytest.mark.parametrize(
    "place", ["no_such_module:Thing.call", "distributions.joint:Joint.gone", "registry:Gone.call"]
)
def test_a_part_that_is_gone_is_named(place: str) -> None:
    before = InvarianceModule.decode
    parts = {"parameterizations.invariance:InvarianceModule.decode": "φ forward", place: "warp"}
    with pytest.raises(MissingPartError, match=f"`PARTS` names '{place}', which is not in"):
        watched(parts).__enter__()
    assert InvarianceModule.decode is before
