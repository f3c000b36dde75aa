"""Saliency grafting against loops over places."""

import pytest
import torch

from instaaug.errors import ArgumentError
from instaaug.methods.saliency import feature_saliency
from instaaug.methods.saliency_grafting import SaliencyGrafting, normalize_maps
from tests.support.models import images, labels, small_classifier


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_mixtures_and_labels_are_those_of_a_loop() -> None:
    """The model's maps have 8 × 8 places for 16 × 16 pixels."""
    model = small_classifier()
    aug = SaliencyGrafting(temperature=0.5)
    aug.attach(model)
    x, n_grafted = images(4), 0
    maps = normalize_maps(feature_saliency(model, x), temperature=0.5)
    for seed in range(4):
        batch = aug(x, 2, generator=seeded(seed), targets=labels(4))
        assert batch.shares is not None
        for row in range(8):
            own, partner = row % 4, int(batch.theta[row // 4, row % 4, 1])
            shown, left = 0.0, 0.0
            for r in range(8):
                for c in range(8):
                    place = (slice(2 * r, 2 * r + 2), slice(2 * c, 2 * c + 2))
                    seen = batch.inputs[row, :, *place]
                    is_partner = torch.equal(seen, x[partner, :, *place])
                    assert is_partner or torch.equal(seen, x[own, :, *place])
                    if is_partner and partner != own:
                        assert maps[partner, r, c] > maps[partner].mean()
                        shown += float(maps[partner, r, c])
                        n_grafted += 1
                    else:
                        left += float(maps[own, r, c])
            if partner != own:
                share = float(batch.shares[1, row])
                assert share == pytest.approx(shown / (shown + left), abs=1e-5)
    assert n_grafted


def test_a_large_temperature_makes_all_places_equal() -> None:
    maps = normalize_maps(torch.rand(2, 4, 4, generator=seeded()), temperature=1e6)
    torch.testing.assert_close(maps, torch.full((2, 4, 4), 1 / 16))


def test_maps_that_are_the_same_everywhere_graft_nothing() -> None:
    maps = normalize_maps(torch.ones(1, 4, 4), temperature=0.2)
    assert not (maps > maps.mean()).any()


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`temperature` must be above 0: got 0"):
        SaliencyGrafting(temperature=0.0)
