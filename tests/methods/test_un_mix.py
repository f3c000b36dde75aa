"""Un-Mix mixes a batch with itself in reverse, to a share that it tells exactly."""

from math import sqrt

import pytest
import torch
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.methods.random_resized_crop import RandomResizedCrop
from instaaug.methods.un_mix import UnMix
from tests.support.goodness_of_fit import ERROR_PROBABILITY, uniform_p
from tests.support.models import images

KINDS = pytest.mark.parametrize("mixup", [1.0, 0.0], ids=["blended", "pasted"])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def black_and_white(side: int = 8) -> Tensor:
    return torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 1, side, side)


def shares_and_means(aug: UnMix, n: int) -> tuple[Tensor, Tensor, list[bool]]:
    """Over n batches: the share that is told, the one measured, and whether pixels are blended."""
    random, x = seeded(), black_and_white()
    told, measured, blended = [], [], []
    for _ in range(n):
        mixed, share = aug.mix(x, random)
        told.append(share)
        measured.append(mixed[1].mean())
        blended.append(len(mixed[1].unique()) == 1 and 0 < float(mixed[1].mean()) < 1)
    return torch.stack(told), torch.stack(measured), blended


# --- the mixture --------------------------------------------------------------------------------


def test_a_blend_is_the_weighted_mean_of_a_loop() -> None:
    x = images(5).double()
    mixed, share = UnMix(mixup=1.0).mix(x, seeded())
    assert 0 < share < 1
    for i in range(5):
        expected = float(share) * x[i] + (1 - float(share)) * x[4 - i]
        torch.testing.assert_close(mixed[i], expected)


@pytest.mark.parametrize("seed", range(4))
def test_a_pasted_box_is_one_rectangle_of_the_partner(seed: int) -> None:
    x = images(6, height=9, width=12)
    mixed, share = UnMix(mixup=0.0).mix(x, seeded(seed))
    pasted = (mixed == x.flip(0)).all(dim=1)
    assert torch.equal(mixed, torch.where(pasted[:, None], x.flip(0), x))
    assert (pasted == pasted[:1]).all()  # one box for all
    rows, columns = pasted[0].any(dim=1), pasted[0].any(dim=0)
    assert torch.equal(pasted[0], rows[:, None] & columns)
    assert float(share) == pytest.approx(1 - float(pasted[0].double().mean()), abs=1e-6)


@KINDS
@pytest.mark.parametrize("batch", [6, 7])
def test_the_reversed_mixture_has_the_other_share_exactly(mixup: float, batch: int) -> None:
    """Reversed, it is the mixture of the reversed images to λ: of the others to 1 - λ."""
    aug, x = UnMix(mixup=mixup), images(batch)
    for seed in range(5):
        mixed, share = aug.mix(x, seeded(seed))
        other, same_share = aug.mix(x.flip(0), seeded(seed))
        assert torch.equal(mixed.flip(0), other)
        assert torch.equal(share, same_share)


@KINDS
def test_shares_are_those_of_the_pixels_in_both_orders(mixup: float) -> None:
    aug, x = UnMix(mixup=mixup), black_and_white()
    for seed in range(10):
        mixed, share = aug.mix(x, seeded(seed))
        values = mixed[:, 0, 0, 0] if mixup else mixed.mean(dim=(1, 2, 3))
        assert torch.equal(values, torch.stack([1 - share, share]))
        assert torch.equal(values.flip(0), torch.stack([share, 1 - share]))


def test_an_image_in_the_middle_is_its_own_partner() -> None:
    x = images(3)
    mixed, _ = UnMix(mixup=1.0).mix(x, seeded())
    assert torch.equal(mixed[1], x[1])
    assert not torch.equal(mixed[0], x[0])


@KINDS
def test_views_are_left_alone_and_receive_their_gradient(mixup: float) -> None:
    x = images(4).requires_grad_()
    before = x.detach().clone()
    mixed, share = UnMix(mixup=mixup).mix(x, seeded())
    mixed.sum().backward()
    assert torch.equal(x.detach(), before)
    # Every pixel is shown to the share λ in its own place and to 1 - λ in its partner's.
    torch.testing.assert_close(x.grad, torch.ones_like(x))
    assert share.ndim == 0
    assert not share.requires_grad


# --- the law ------------------------------------------------------------------------------------


def test_the_share_of_a_blend_is_uniform() -> None:
    """Beta(1, 1), by Kolmogorov-Smirnov; a right sampler fails with ERROR_PROBABILITY."""
    told, _, _ = shares_and_means(UnMix(mixup=1.0), 400)
    assert uniform_p(told) > ERROR_PROBABILITY


def test_alpha_narrows_the_law_of_the_share() -> None:
    """Beta(8, 8) has the variance 1 / 68; that of 400 draws is within 40 % (5 standard errors)."""
    told, _, _ = shares_and_means(UnMix(alpha=8.0, mixup=1.0), 400)
    assert float(told.double().var()) == pytest.approx(1 / 68, rel=0.4)


def test_half_of_the_batches_are_blended_and_the_others_pasted() -> None:
    """Within five standard errors; a right coin fails with 6e-7."""
    n, p = 400, 0.5
    told, measured, blended = shares_and_means(UnMix(), n)
    torch.testing.assert_close(told, measured)
    assert abs(sum(blended) / n - p) < 5 * sqrt(p * (1 - p) / n)


def test_a_seed_decides_the_mixture() -> None:
    aug, x = UnMix(), images(4)
    first, share = aug.mix(x, seeded(3))
    again, same = aug.mix(x, seeded(3))
    assert torch.equal(first, again)
    assert torch.equal(share, same)
    assert len({float(aug.mix(x, seeded(seed))[1]) for seed in range(6)}) > 3


# --- the crops ----------------------------------------------------------------------------------


def test_what_is_drawn_are_crops_alone() -> None:
    x = images(4)
    ours = UnMix(smallest=0.3, largest=0.8, stretch=1.5)(x, 2, generator=seeded())
    crops = RandomResizedCrop(smallest=0.3, largest=0.8, stretch=1.5)(x, 2, generator=seeded())
    assert torch.equal(ours.theta, crops.theta)
    assert torch.equal(ours.inputs, crops.inputs)
    assert ours.partner_targets is None
    assert UnMix().averages_views
    assert not UnMix().state_dict()


@pytest.mark.parametrize("mixup", [-0.1, 1.1, float("nan")])
def test_a_probability_that_cannot_be_is_refused(mixup: float) -> None:
    with pytest.raises(ArgumentError, match="`mixup` must be a probability"):
        UnMix(mixup=mixup)


def test_an_alpha_that_cannot_be_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`alpha` must be a number"):
        UnMix(alpha=0.0)
