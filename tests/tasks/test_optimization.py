"""Optimizers and the curves of their learning rates."""

from math import cos, pi
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.tasks import Optimization
from instaaug.tasks.optimization import OptimizerName, ScheduleName
from tests.support.unhooked import unhooked

N_STEPS = 40


def layers() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))


def rates(optimization: Optimization, n_steps: int = N_STEPS) -> list[float]:
    """The learning rate that each of the steps is taken with, and the one after the last."""
    optimizer = optimization.make_optimizer(layers().parameters())
    schedule = optimization.make_schedule(optimizer, n_steps)
    assert not isinstance(schedule, ReduceLROnPlateau)
    seen = []
    for _ in range(n_steps - 1):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return [*seen, optimizer.param_groups[0]["lr"]]


# --- optimizers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), [("sgd", SGD), ("adam", Adam), ("adamw", AdamW)])
def test_the_name_chooses_the_optimizer(name: OptimizerName, kind: type[Optimizer]) -> None:
    optimizer = Optimization(name, 0.25).make_optimizer(layers().parameters())
    assert type(optimizer) is kind
    assert {group["lr"] for group in optimizer.param_groups} == {0.25}


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_weight_decay_pulls_at_the_matrices_alone(name: OptimizerName) -> None:
    """With a gradient of zero, whatever moves is pulled by the decay."""
    model = layers()
    for p in model.parameters():
        nn.init.constant_(p, 1.0)
        p.grad = torch.zeros_like(p)
    Optimization(name, 0.1, weight_decay=0.5).make_optimizer(model.parameters()).step()
    moved = {n: bool((p < 1).all()) for n, p in model.named_parameters()}
    assert moved == {n: p.ndim > 1 for n, p in model.named_parameters()}


@pytest.mark.parametrize("schedule", ["constant", "cosine", "one_cycle", "steps"])
def test_the_backbone_has_a_share_of_the_rate_in_every_step(schedule: ScheduleName) -> None:
    model: Any = layers()
    optimization = Optimization("adamw", 0.5, schedule=schedule, drops=(0.5,), backbone_rate=0.25)
    optimizer = optimization.make_optimizer(model.parameters(), model[0].parameters())
    plan = optimization.make_schedule(optimizer, N_STEPS)
    assert not isinstance(plan, ReduceLROnPlateau)
    slow = {id(p) for p in model[0].parameters()}
    for _ in range(N_STEPS - 1):
        groups = optimizer.param_groups
        fast = groups[0]["lr"]
        for group in groups:
            share = 0.25 if id(group["params"][0]) in slow else 1.0
            assert group["lr"] == pytest.approx(share * fast)
        optimizer.step()
        plan.step()
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))


def test_a_rate_below_zero_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`backbone_rate` must be at least 0: got -1"):
        Optimization(backbone_rate=-1.0)


def test_every_learned_parameter_is_in_exactly_one_group() -> None:
    model = layers()
    frozen = next(model.parameters()).requires_grad_(False)
    groups = Optimization().make_optimizer(model.parameters()).param_groups
    held = [id(p) for group in groups for p in group["params"]]
    assert sorted(held) == sorted(id(p) for p in model.parameters() if p is not frozen)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_momentum_is_that_of_nesterov(momentum: float) -> None:
    """Steps of a constant gradient g: with momentum m they are (1 + m) g, then (1 + m + m²) g."""
    p = nn.Parameter(torch.zeros(1))
    optimizer = Optimization("sgd", 1.0, momentum=momentum).make_optimizer([p])
    steps = []
    for _ in range(2):
        before = p.item()
        p.grad = torch.ones(1)
        optimizer.step()
        steps.append(before - p.item())
    assert steps == pytest.approx([1 + momentum, 1 + momentum + momentum**2])


# --- schedules ----------------------------------------------------------------------------------


def test_a_constant_rate_stays() -> None:
    assert set(rates(Optimization("sgd", 0.3))) == {0.3}


def test_the_cosine_falls_from_the_rate_to_zero() -> None:
    curve = rates(Optimization("sgd", 0.3, schedule="cosine"))
    assert curve == pytest.approx(
        [0.15 * (1 + cos(pi * i / N_STEPS)) for i in range(N_STEPS)], abs=1e-9
    )
    assert curve[-1] < 0.001


def test_one_cycle_rises_to_the_rate_and_falls_to_almost_nothing() -> None:
    """Torch's defaults: 30 % of the steps up from a twenty-fifth, then down to 4e-6 of it."""
    curve = rates(Optimization("sgd", 0.3, momentum=0.9, schedule="one_cycle"))
    top = curve.index(max(curve))
    assert max(curve) == pytest.approx(0.3)
    assert top == pytest.approx(0.3 * N_STEPS, abs=1)
    assert curve[: top + 1] == sorted(curve[: top + 1])
    assert curve[top:] == sorted(curve[top:], reverse=True)
    assert curve[0] == pytest.approx(0.3 / 25)
    assert curve[-1] == pytest.approx(0.3 / 25 / 1e4)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_one_cycle_leaves_the_weight_decay_of_biases_at_zero(name: OptimizerName) -> None:
    optimization = Optimization(name, 0.1, weight_decay=0.5, schedule="one_cycle")
    optimizer = optimization.make_optimizer(layers().parameters())
    optimization.make_schedule(optimizer, N_STEPS)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0]


@pytest.mark.parametrize("n_steps", [0, 1, 2, 3])
@pytest.mark.parametrize("schedule", ["constant", "cosine", "one_cycle", "plateau"])
def test_the_shortest_of_runs_has_a_schedule(schedule: ScheduleName, n_steps: int) -> None:
    optimization = Optimization("sgd", 0.3, schedule=schedule)
    optimizer = optimization.make_optimizer(layers().parameters())
    made = optimization.make_schedule(optimizer, n_steps)
    for _ in range(n_steps):
        optimizer.step()
        if not isinstance(made, ReduceLROnPlateau):
            made.step()
    assert 0 <= optimizer.param_groups[0]["lr"] <= 0.3


@pytest.mark.parametrize("patience", [1, 3])
def test_a_plateau_reduces_the_rate_when_patience_is_over(patience: int) -> None:
    optimization = Optimization("sgd", 0.4, schedule="plateau", factor=0.5, patience=patience)
    optimizer = optimization.make_optimizer(layers().parameters())
    schedule = optimization.make_schedule(optimizer, N_STEPS)
    assert isinstance(schedule, ReduceLROnPlateau)
    curve = []
    for watched in [3.0, 2.0, 1.0] + [1.0] * (2 * patience):
        schedule.step(watched)
        curve.append(optimizer.param_groups[0]["lr"])
    reductions = [i for i in range(1, len(curve)) if curve[i] == curve[i - 1] / 2]
    assert reductions == [2 + patience, 2 + 2 * patience]


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, -0.1, float("nan")])
def test_a_learning_rate_is_above_zero(rate: float) -> None:
    with pytest.raises(ArgumentError, match=r"`learning_rate` must be above 0: got"):
        Optimization("sgd", rate)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"optimizer": "adamm"}, "no optimizer called 'adamm'. Did you mean 'adam'?"),
        ({"schedule": "cosinus"}, "no schedule called 'cosinus'. Did you mean 'cosine'?"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(names: dict[str, str], message: str) -> None:
    with unhooked(), pytest.raises(UnknownNameError, match=message.replace("?", r"\?")):
        Optimization(**names)  # type: ignore[arg-type]
