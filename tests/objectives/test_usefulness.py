"""Usefulness is what a step on a view does to the loss of others, to first order."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug.objectives import Usefulness

N_CLASSES, N_FEATURES, N_OTHERS = 3, 5, 40


def gradient_parts(layer: nn.Linear, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    outputs = layer(h)
    losses = F.cross_entropy(outputs, y, reduction="none")
    return torch.autograd.grad(losses.sum(), outputs)[0], h


def problem(n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(n, N_FEATURES, generator=generator)
    return h, torch.randint(N_CLASSES, (n,), generator=generator)


def test_it_is_what_a_small_step_takes_from_the_loss_of_others() -> None:
    """An independent truth: take the step, and look at the others' loss."""
    torch.manual_seed(0)
    layer = nn.Linear(N_FEATURES, N_CLASSES)
    others, views = problem(N_OTHERS, 1), problem(8, 2)
    useful = Usefulness(N_CLASSES, N_FEATURES).eval()
    useful.update(*gradient_parts(layer, *others))
    useful.scale.fill_(1.0)
    predicted = useful(*gradient_parts(layer, *views))
    before, rate, taken = F.cross_entropy(layer(others[0]), others[1]), 1e-3, []
    for h, y in zip(*views, strict=True):
        loss = F.cross_entropy(layer(h[None]), y[None])
        weight, bias = torch.autograd.grad(loss, [layer.weight, layer.bias])
        logits = F.linear(others[0], layer.weight - rate * weight, layer.bias - rate * bias)
        taken.append((before - F.cross_entropy(logits, others[1])) / rate)
    torch.testing.assert_close(predicted, torch.stack(taken), rtol=0.02, atol=2e-3)


def test_easy_views_are_worth_nothing_and_wrong_labels_less() -> None:
    others = torch.tensor([[-0.5, 0.5], [0.5, -0.5]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    useful = Usefulness(2, 2)
    useful.update(*others)  # feature 0 should speak for class 0, feature 1 for class 1
    residuals = torch.tensor([[-0.9, 0.9], [0.0, 0.0], [0.9, -0.9]])  # hard, easy, mislabeled
    hard, easy, wrong = useful(residuals, torch.tensor([[1.0, 0.0]]).expand(3, 2))
    assert hard > 0
    assert easy == 0
    assert wrong < 0


def test_it_is_in_units_of_its_usual_size() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(N_FEATURES, N_CLASSES)
    residuals, features = gradient_parts(layer, *problem(N_OTHERS, 1))
    useful = Usefulness(N_CLASSES, N_FEATURES)
    useful.update(residuals, features)
    first = useful(residuals, features)
    assert float(first.square().mean()) == pytest.approx(1.0)
    for _ in range(1000):
        small = useful(residuals / 100, features)
    assert float(small.square().mean()) == pytest.approx(1.0, rel=0.05)
    evaluated = useful.eval()(residuals, features)
    assert torch.equal(evaluated, useful(residuals, features))  # nothing moves


def test_its_state_stays_in_float32() -> None:
    useful = Usefulness(2, 3).to(torch.bfloat16)
    assert useful.direction.dtype == useful.scale.dtype == torch.float32


def test_it_is_the_same_in_mixed_precision() -> None:
    """Autocast makes bfloat16 of every product; the average would not take one in."""
    torch.manual_seed(0)
    parts = gradient_parts(nn.Linear(N_FEATURES, N_CLASSES), *problem(N_OTHERS, 1))
    found = []
    for mixed in (False, True):
        useful = Usefulness(N_CLASSES, N_FEATURES)
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            useful.update(*parts)
            useful.update(*parts)
            found.append(useful(*parts))
    assert torch.equal(*found)
