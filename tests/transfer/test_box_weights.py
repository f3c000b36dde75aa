"""Weights of boxes: the closed form, one for all, per class and per image."""

from math import log

import pytest
import torch
from torch.nn import functional as F

from instaaug.transfer.box_weights import (
    class_weights,
    losses_of_boxes,
    minimize_risk,
    own_weights,
    shared_weights,
    uniform_weights,
)


def make_losses(n: int = 20, k: int = 6) -> torch.Tensor:
    return torch.rand(n, k, generator=torch.Generator().manual_seed(0)) * 3


def mean_entropy(probs: torch.Tensor) -> float:
    return float(torch.special.entr(probs).sum(dim=1).mean())


@pytest.mark.parametrize("entropy", [0.3, 1.0, 1.6, log(6)])
def test_the_entropy_is_what_was_asked_for(entropy: float) -> None:
    probs = minimize_risk(make_losses(), entropy)
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(20))
    assert mean_entropy(probs) == pytest.approx(entropy, abs=1e-3)


def test_no_other_distribution_of_this_entropy_has_a_lower_risk() -> None:
    losses = make_losses()
    probs = minimize_risk(losses, 1.2)
    risk = (probs * losses).sum(dim=1).mean()
    generator = torch.Generator().manual_seed(1)
    n_tried = 0
    for _ in range(50):
        moved = probs * (0.3 * torch.randn(20, 6, generator=generator)).exp()
        moved = moved / moved.sum(dim=1, keepdim=True)
        if mean_entropy(moved) >= mean_entropy(probs):
            n_tried += 1
            assert (moved * losses).sum(dim=1).mean() > risk - 1e-6
    assert n_tried


def test_losses_are_cross_entropies() -> None:
    generator = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(4, 3, 5, generator=generator), torch.tensor([0, 4, 2, 1])
    expected = [[F.cross_entropy(logits[i, k], targets[i]) for k in range(3)] for i in range(4)]
    torch.testing.assert_close(losses_of_boxes(logits, targets), torch.tensor(expected))


def test_weights_are_the_same_for_all_for_a_class_or_for_nobody() -> None:
    losses, targets = make_losses(), torch.arange(20) % 4
    assert len(shared_weights(losses, 1.2).unique(dim=0)) == 1
    assert len(class_weights(losses, targets, 1.2).unique(dim=0)) == 4
    assert len(own_weights(losses, 1.2).unique(dim=0)) == 20


def test_own_weights_shrink_to_those_for_all() -> None:
    losses = make_losses()
    shared = shared_weights(losses, 1.2)
    torch.testing.assert_close(own_weights(losses, 1.2, share=0.0), shared, rtol=0, atol=1e-4)
    far, near = (
        (own_weights(losses, 1.2, share=share) - shared).abs().sum() for share in (1.0, 0.2)
    )
    assert near < far


@pytest.mark.parametrize(("least", "n_used"), [(1.0, 1), (0.8, 2), (0.0, 3)])
def test_random_boxes_have_a_smallest_side(least: float, n_used: int) -> None:
    probs = uniform_weights(torch.tensor([1.0, 0.8, 0.4]), least, 2)
    assert (probs > 0).sum(dim=1).tolist() == [n_used] * 2
    torch.testing.assert_close(probs.sum(dim=1), torch.ones(2))
