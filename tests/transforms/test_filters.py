"""Blur against scipy, noise against its strength."""

import numpy as np
import pytest
import torch
from scipy import ndimage, stats

from instaaug.transforms import Blur, Noise
from tests.support.images import largest_difference, random_images, smooth_images


@pytest.mark.parametrize("size", [(40, 40), (32, 50), (61, 24)], ids=str)
@pytest.mark.parametrize("max_strength", [0.05, 0.1])
def test_blur_is_a_gaussian_filter_in_fractions_of_the_shorter_side(
    size: tuple[int, int], max_strength: float
) -> None:
    x = random_images(2, height=size[0], width=size[1], dtype=torch.float64)
    strength = torch.tensor([[max_strength], [max_strength / 3]], dtype=torch.float64)
    side = min(size)
    radius = round(3 * max_strength * side)
    expected = [
        ndimage.gaussian_filter(image, (0, s, s), mode="nearest", radius=(0, radius, radius))
        for image, s in zip(x.numpy(), (strength[:, 0] * side).tolist(), strict=True)
    ]
    out = Blur(max_strength).apply(x, strength)
    assert largest_difference(out, torch.from_numpy(np.stack(expected))) <= 1e-12


def test_three_standard_deviations_are_enough_of_a_kernel() -> None:
    x = random_images(1, height=48, width=48, dtype=torch.float64)
    whole = ndimage.gaussian_filter(x[0].numpy(), (0, 2.4, 2.4), mode="nearest", truncate=8.0)
    out = Blur(0.05).apply(x, torch.tensor([[0.05]], dtype=torch.float64))
    assert largest_difference(out[0], torch.from_numpy(whole)) <= 0.01


def test_more_strength_blurs_more() -> None:
    x = random_images(1, height=40, width=40).expand(4, 3, 40, 40)
    out = Blur().apply(x, torch.tensor([[0.0], [0.01], [0.03], [0.05]]))
    spread = out.std(dim=(1, 2, 3))
    assert (spread.diff() < 0).all()


def test_the_same_blur_looks_the_same_at_any_resolution() -> None:
    theta = torch.tensor([[0.05]], dtype=torch.float64)
    small, large = (
        Blur().apply(smooth_images(1, height=n, width=n) ** 3, theta) for n in (48, 96)
    )
    pooled = torch.nn.functional.avg_pool2d(large, 2)
    assert largest_difference(small, pooled) <= 0.02


@pytest.mark.parametrize("strength", [0.05, 0.2])
@pytest.mark.parametrize("channels", [1, 3])
def test_noise_has_the_asked_strength(strength: float, channels: int) -> None:
    # Five standard errors, probability 6e-7; Kolmogorov-Smirnov, probability 1e-4.
    x = random_images(1, channels=channels, height=96, width=96, dtype=torch.float64)
    theta = torch.tensor([[strength, 0.4]], dtype=torch.float64)
    added = (Noise().apply(x, theta) - x).flatten() / strength
    n = added.numel()
    assert abs(added.mean()) <= 5 / n**0.5
    assert abs(added.std() - 1) <= 5 / (2 * n) ** 0.5
    assert stats.kstest(added.numpy(), "norm").pvalue > 1e-4


def test_the_seed_says_which_noise_whatever_the_strength_or_image() -> None:
    x = random_images(3, dtype=torch.float64)
    theta = torch.tensor([[0.1, 0.4], [0.2, 0.4], [0.1, 0.6]], dtype=torch.float64)
    added = (Noise().apply(x, theta) - x) / theta[:, :1, None, None]
    assert largest_difference(added[0], added[1]) <= 1e-12
    assert largest_difference(added[0], added[2]) > 1.0


def test_noise_is_independent_from_image_to_image() -> None:
    # Sixteen images, 120 pairs: the largest exceeds six standard errors with probability 2e-7.
    x = torch.zeros(16, 3, 32, 32)
    seeds = torch.rand(16, generator=torch.Generator().manual_seed(0))
    added = Noise().apply(x, torch.stack([torch.full((16,), 0.2), seeds], dim=1)).flatten(1)
    correlations = torch.corrcoef(added) - torch.eye(16)
    assert correlations.abs().max() * added.shape[1] ** 0.5 <= 6


def test_only_the_strength_of_noise_is_learned() -> None:
    assert Noise().columns == ("strength", "seed")
    assert [p.learned for p in Noise().spaces["strength"].parameters] == [True, False]  # type: ignore[union-attr]
