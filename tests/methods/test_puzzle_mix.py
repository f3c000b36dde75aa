"""Puzzle-Mix against all masks, loops over blocks, and what its authors say of it."""

from itertools import product
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.methods.puzzle_mix import PuzzleMix, choose_masks, move_blocks, transport_blocks
from tests.support.models import images, labels, small_classifier


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def saliencies(n: int, batch: int = 8, seed: int = 0) -> Tensor:
    maps = torch.rand(batch, n, n, generator=seeded(seed)) ** 3
    return maps / maps.sum(dim=(1, 2), keepdim=True)


def attached(**options: object) -> PuzzleMix:
    aug = PuzzleMix(**options)  # type: ignore[arg-type]
    aug.attach(small_classifier())
    return aug


def naive_energy(
    mask: tuple[float, ...], own: Tensor, other: Tensor, share: float, x: Tensor, partner: Tensor
) -> float:
    """Of 2 × 2 blocks of 2 × 2 pixels, term by term, with the weights of the source."""
    beta, gamma, eta, n = 1.2 / (16 * 2), 0.5, 0.2, 2
    total = 0.0
    law = {1.0: share**2, 0.5: 2 * share * (1 - share), 0.0: (1 - share) ** 2}
    for m, mine, theirs in zip(
        mask, own.flatten().tolist(), other.flatten().tolist(), strict=True
    ):
        total += m * theirs + (1 - m) * mine - eta / n**2 * log(law[m] + 1e-8)
    pictures = {1: x, 0: partner}
    # block, block, pixels of the first and of the second along the border
    borders: list[tuple[int, int, Any, Any]] = [
        (0, 1, ([0, 1], 1), ([0, 1], 2)), (2, 3, ([2, 3], 1), ([2, 3], 2)),
        (0, 2, (1, [0, 1]), (2, [0, 1])), (1, 3, (1, [2, 3]), (2, [2, 3])),
    ]  # fmt: skip
    for a, b, here, there in borders:
        gap = {
            (i, j): float((pictures[i][:, *here] - pictures[j][:, *there]).abs().mean())
            for i, j in product((0, 1), repeat=2)
        }
        m, k = mask[a], mask[b]
        linear = m * (gap[1, 0] + gap[1, 1]) + (1 - m) * (gap[0, 1] + gap[0, 0])
        linear += k * (gap[0, 1] + gap[1, 1]) + (1 - k) * (gap[1, 0] + gap[0, 0])
        curved = (m - k) ** 2 * (gap[1, 0] + gap[0, 1] - gap[1, 1] - gap[0, 0])
        total += beta * ((m - k) ** 2 + gamma * (linear + curved) / 2)
        if {m, k} <= {0.0, 1.0}:  # then it is what can be seen at the border, but for a constant
            constant = (gap[1, 0] + gap[0, 1]) / 2
            assert (linear + curved) / 2 == pytest.approx(gap[int(m), int(k)] + constant, abs=1e-5)
    return total


def test_masks_are_the_best_of_all() -> None:
    own, other = saliencies(2), saliencies(2, seed=1)
    share = torch.rand(8, generator=seeded(2))
    x, partner = images(8, height=4, width=4), images(8, height=4, width=4, seed=1)
    # blocks of two pixels are averaged before they are compared: give each one value
    x, partner = (v.repeat_interleave(1, 2) for v in (x, partner))
    pooled = [torch.nn.functional.avg_pool2d(v, 2) for v in (x, partner)]
    masks = choose_masks(own, other, share, x, partner)
    for i in range(8):
        shown = [p[i].repeat_interleave(2, 1).repeat_interleave(2, 2) for p in pooled]
        energies = {
            mask: naive_energy(mask, own[i], other[i], float(share[i]), *shown)
            for mask in product((0.0, 0.5, 1.0), repeat=4)
        }
        chosen = energies[tuple(masks[i].flatten().tolist())]
        assert chosen == pytest.approx(min(energies.values()), abs=1e-6)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_without_smoothness_and_prior_the_more_salient_image_has_the_block(n: int) -> None:
    own, other, x = saliencies(n), saliencies(n, seed=1), images(8)
    masks = choose_masks(own, other, torch.full((8,), 0.9), x, x, smoothness=0.0, prior=0.0)
    assert torch.equal(masks, (own > other).float())


def test_a_strong_prior_follows_the_share() -> None:
    own, other, x = saliencies(4), saliencies(4, seed=1), images(8)
    for share, mask in ((0.99, 1.0), (0.5, 0.5), (0.01, 0.0)):
        masks = choose_masks(own, other, torch.full((8,), share), x, x, prior=1e3)
        assert (masks == mask).all()


def test_smoothness_joins_blocks() -> None:
    own, other, x = saliencies(8), saliencies(8, seed=1), images(8)

    def n_borders(smoothness: float) -> int:
        masks = choose_masks(own, other, torch.full((8,), 0.5), x, x, smoothness=smoothness)
        return int((masks.diff(dim=1) != 0).sum() + (masks.diff(dim=2) != 0).sum())

    assert 10 * n_borders(100.0) < n_borders(1.2) < n_borders(0.0)


def test_the_share_is_the_mean_of_the_mask_whatever_is_moved() -> None:
    x = torch.tensor([0.0, 1.0, 2.0, 3.0]).view(4, 1, 1, 1).expand(4, 3, 16, 16).contiguous()
    aug = attached()
    for seed in range(8):
        batch = aug(x, 2, generator=seeded(seed), targets=labels(4))
        assert batch.shares is not None
        partner = batch.theta[..., 1].flatten()
        own = torch.arange(4.0).repeat(2)
        expected = batch.shares[0] * own + batch.shares[1] * partner
        torch.testing.assert_close(batch.inputs.mean(dim=(1, 2, 3)), expected)
        assert torch.equal(batch.partner_targets, labels(4)[partner.long()][None])


def naive_transport(saliency: Tensor, mask: Tensor, cost: float) -> list[int]:
    n = len(saliency)
    price = [
        [
            cost * ((i // n - j // n) ** 2 + (i % n - j % n) ** 2) / (n - 1) ** 2
            - float(saliency.flatten()[i]) * float(mask.flatten()[j] > 0)
            for j in range(n * n)
        ]
        for i in range(n * n)
    ]
    for _ in range(min(n, 8)):
        winner: dict[int, int] = {}
        asked = [row.index(min(row)) for row in price]
        for i, j in enumerate(asked):
            if j not in winner or price[i][j] < price[winner[j]][j]:
                winner[j] = i
        for i, j in enumerate(asked):
            price[i][j] += winner[j] != i
    return [winner.get(j, j) for j in range(n * n)]


@pytest.mark.parametrize(("n", "cost"), [(2, 0.1), (4, 0.1), (4, 0.8)])
def test_blocks_move_as_in_a_loop(n: int, cost: float) -> None:
    saliency = saliencies(n).double()
    mask = torch.randint(3, (8, n, n), generator=seeded(3)).double() / 2
    found = transport_blocks(saliency, mask, cost=cost)
    assert found.tolist() == [
        naive_transport(s, m, cost) for s, m in zip(saliency, mask, strict=True)
    ]


def test_moving_brings_more_saliency_into_the_mask() -> None:
    saliency = saliencies(8)
    mask = (torch.rand(8, 8, 8, generator=seeded(1)) < 0.3).float()

    def seen(cost: float) -> Tensor:
        moved = saliency.flatten(1).gather(1, transport_blocks(saliency, mask, cost=cost))
        return (moved * mask.flatten(1)).sum(dim=1)

    assert (seen(0.05) > seen(100.0)).all()
    torch.testing.assert_close(seen(100.0), (saliency * mask).sum(dim=(1, 2)))


def test_moved_blocks_are_those_of_the_image() -> None:
    x = images(1, height=8, width=8)
    moved = move_blocks(x, torch.tensor([[3, 1, 2, 0]]))
    assert torch.equal(moved[0, :, :4, :4], x[0, :, 4:, 4:])
    assert torch.equal(moved[0, :, 4:, :4], x[0, :, 4:, :4])


def test_the_plain_images_are_learned_too_unless_told_otherwise() -> None:
    x, y = images(4), labels(4)
    for clean in (1.0, 0.0):
        batch = attached(clean=clean)(x, targets=y)
        assert (batch.added_loss is not None) == bool(clean)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blocks": []}, r"`blocks` must be numbers from 2 on: got \[\]"),
        ({"blocks": [1]}, "from 2"),
    ],
)
def test_too_few_blocks_are_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        PuzzleMix(**options)  # type: ignore[arg-type]


def test_an_odd_side_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"divides both sides .* for 15 × 16 pixels"):
        attached()(images(2, height=15), targets=labels(2))


def test_it_asks_for_a_model_and_for_classes() -> None:
    with pytest.raises(ArgumentError, match=r"known to PuzzleMix.*Call attach\(model\) first"):
        PuzzleMix()(images(2), targets=labels(2))
    with pytest.raises(ArgumentError, match=r"`targets` must be one class .* got none"):
        attached()(images(2))
