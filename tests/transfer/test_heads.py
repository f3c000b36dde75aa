"""Heads on features of boxes: the exact expectation, the axes, and the layer that comes out."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from instaaug.transfer.heads import PrincipalAxes, fit_head


def make_problem() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(30) % 3
    z = torch.randn(30, 4, 6, generator=generator)
    z[:, 0] += 2 * F.one_hot(targets, 6)
    probs = torch.rand(30, 4, generator=generator)
    return z, probs / probs.sum(dim=1, keepdim=True), targets


def test_the_head_minimizes_the_expected_loss() -> None:
    """The gradient by autograd, of a loss written down independently, is zero there."""
    z, probs, targets = make_problem()
    head = fit_head(z, probs, targets, num_classes=3, decay=0.1, max_steps=300)
    weight, bias = head.weight.double().requires_grad_(), head.bias.double().requires_grad_()
    logits = z.double() @ weight + bias
    labels = targets[:, None].expand(-1, 4)
    losses = F.cross_entropy(logits.movedim(2, 1), labels, reduction="none")
    value = (probs.double() * losses).sum(dim=1).mean() + 0.05 * weight.square().sum()
    for gradient in torch.autograd.grad(value, [weight, bias]):
        assert gradient.abs().max() < 1e-3


def test_a_start_does_not_change_where_it_ends() -> None:
    z, probs, targets = make_problem()
    one = fit_head(z, probs, targets, num_classes=3, decay=0.1, max_steps=300)
    other = fit_head(z, probs, targets, num_classes=3, decay=1.0, max_steps=5)
    again = fit_head(z, probs, targets, num_classes=3, decay=0.1, start=other, max_steps=300)
    torch.testing.assert_close(one.weight, again.weight, rtol=0, atol=5e-3)


def test_boxes_without_weight_have_no_say() -> None:
    z, _, targets = make_problem()
    probs = torch.zeros(30, 4)
    probs[:, 0] = 1.0
    worse = z.clone()
    worse[:, 1:] = 1e4
    one, other = (
        fit_head(x, probs, targets, num_classes=3, decay=0.1, max_steps=50) for x in (z, worse)
    )
    assert torch.equal(one.weight, other.weight)


def test_a_layer_on_features_gives_the_logits_of_the_head() -> None:
    generator = torch.Generator().manual_seed(0)
    features = 3 + 2 * torch.randn(50, 6, generator=generator)
    axes = PrincipalAxes.of(features, 4)
    z = axes.coordinates(features)
    assert z.shape == (50, 4)
    head = fit_head(z[:, None], torch.ones(50, 1), torch.arange(50) % 3, num_classes=3, decay=0.1)
    layer = nn.Linear(6, 3)
    head.copy_to(layer, axes)
    torch.testing.assert_close(layer(features), head.logits(z), rtol=0, atol=1e-4)


def test_axes_are_uncorrelated_and_in_the_order_of_their_variance() -> None:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(5, 5, generator=generator)
    features = torch.randn(200, 5, generator=generator) @ mixing
    z = PrincipalAxes.of(features, 5).coordinates(features)
    covariance = z.T @ z / len(z)
    variances = covariance.diagonal()
    assert (variances[:-1] >= variances[1:]).all()
    torch.testing.assert_close(covariance, variances.diag(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_classes_without_images_are_possible(n_classes: int) -> None:
    z, probs, targets = make_problem()
    head = fit_head(z, probs, targets, num_classes=n_classes, decay=0.1)
    assert head.logits(z[:, 0]).argmax(dim=1).max() < 3
