"""The gradient of looking one step ahead is that of steps that are really taken."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.methods.look_ahead import Call, look_ahead_loss
from tests.support.frozen_models import Pooled, Snapshot, Transformer

N, LEARNING_RATE, WIDTH = 6, 0.3, 1e-5


class Attentive(nn.Module):
    """Calls torch's fused attention, whose fast form has no forward derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Conv2d(3, 8, 8, stride=8)
        self.head = nn.Linear(8, 5)

    @override
    def forward(self, x: Tensor) -> Tensor:
        t = self.tokens(x).flatten(2).transpose(1, 2)
        result: Tensor = self.head(F.scaled_dot_product_attention(t, t, t).mean(dim=1))
        return result


def partly_frozen() -> nn.Module:
    model = Pooled()
    model.stem.requires_grad_(False)
    return model


def smooth() -> nn.Module:
    """Finite differences want no kinks; training has BatchNorm and dropout."""
    return Pooled(activation=F.gelu)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm and dropout": smooth,
    "partly frozen": partly_frozen,
    "transformer": lambda: Transformer(class_token=True),
    "fused attention": Attentive,
}
EVERY = pytest.mark.parametrize("name", MODELS)


class Problem:
    """A model in training, and inputs of both kinds, in double precision."""

    def __init__(self, name: str) -> None:
        torch.manual_seed(0)
        self.model = MODELS[name]().double().train()
        for _ in range(3):  # so that evaluation is not like nothing was ever seen
            self.model(torch.rand(8, 3, 32, 32).double())
        self.x, self.y = torch.rand(N, 3, 32, 32).double(), torch.randint(5, (N,))
        self.held_x, self.held_y = torch.rand(4, 3, 32, 32).double(), torch.randint(5, (4,))
        self.weights = torch.rand(N).double() + 0.1

    def losses(self, call: Call) -> Tensor:
        return F.cross_entropy(call(self.x), self.y, reduction="none")

    def held_out_losses(self, call: Call) -> Tensor:
        return F.cross_entropy(call(self.held_x), self.held_y, reduction="none")

    def look_ahead(self, weights: Tensor) -> Tensor:
        return look_ahead_loss(
            self.model, weights, self.losses, self.held_out_losses, learning_rate=LEARNING_RATE
        )

    def taken(self, weights: Tensor) -> float:
        """The same with an optimizer, on a copy of the model."""
        model, state = copy.deepcopy(self.model), torch.get_rng_state()
        learned = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(learned, lr=LEARNING_RATE)
        total = torch.zeros(())
        outputs = model(self.x)
        for i in range(N):
            total = total + weights[i] * F.cross_entropy(outputs[i : i + 1], self.y[i : i + 1])
        total.backward()
        optimizer.step()
        torch.set_rng_state(state)
        for (_, buffer), (_, original) in zip(
            model.named_buffers(), self.model.named_buffers(), strict=True
        ):
            buffer.copy_(original)
        with torch.no_grad():
            return float(F.cross_entropy(model.eval()(self.held_x), self.held_y))


@EVERY
def test_value_and_gradient_are_those_of_steps_that_are_taken(name: str) -> None:
    problem = Problem(name)
    weights = problem.weights.clone().requires_grad_()
    loss = problem.look_ahead(weights)
    assert loss.item() == pytest.approx(problem.taken(problem.weights), rel=1e-12)
    (found,) = torch.autograd.grad(loss, weights)
    for i in range(N):
        nudge = WIDTH * F.one_hot(torch.tensor(i), N)
        rise = problem.taken(problem.weights + nudge) - problem.taken(problem.weights - nudge)
        assert found[i].item() == pytest.approx(rise / (2 * WIDTH), rel=1e-4, abs=1e-8)


@EVERY
def test_the_model_is_left_as_it_was(name: str) -> None:
    problem = Problem(name)
    before, state = Snapshot(problem.model), torch.get_rng_state()
    problem.look_ahead(problem.weights.requires_grad_()).backward()
    assert Snapshot(problem.model) == before
    assert torch.equal(torch.get_rng_state(), state)


def test_it_works_where_gradients_are_off() -> None:
    problem = Problem("BatchNorm and dropout")
    with torch.no_grad():
        value = problem.look_ahead(problem.weights)
    assert value.item() == pytest.approx(problem.taken(problem.weights), rel=1e-12)


def test_a_step_that_changes_no_loss_has_no_gradient() -> None:
    """The head's bias learns alone, and the training losses do not depend on it."""
    problem = Problem("partly frozen")
    problem.model.requires_grad_(False)
    head = problem.model.get_submodule("head")
    assert isinstance(head, nn.Linear)
    head.bias.requires_grad_()
    weights = problem.weights.requires_grad_()
    loss = look_ahead_loss(
        problem.model,
        weights,
        lambda call: call(problem.x).diff(dim=1).sum(dim=1) * 0 + 1,
        problem.held_out_losses,
        learning_rate=LEARNING_RATE,
    )
    assert torch.equal(torch.autograd.grad(loss, weights)[0], torch.zeros(N).double())
