"""Blur against scipy; noise against the normal distribution."""

import numpy as np
import pytest
import torch
from scipy import ndimage, stats
from torch import Tensor

from instaaug.functional.filters import gaussian_blur, gaussian_noise_field
from tests.support.images import largest_difference, random_images

FIVE_SIGMA = 5.0  # a right generator exceeds this with probability 6e-7 per test


def blurred_by_scipy(x: Tensor, sigma: list[float], *, radius: int) -> Tensor:
    out = [
        ndimage.gaussian_filter(image, (0, s, s), mode="nearest", radius=(0, radius, radius))
        for image, s in zip(x.numpy(), sigma, strict=True)
    ]
    return torch.from_numpy(np.stack(out))


def noise(*seeds: float, size: tuple[int, int] = (64, 48)) -> Tensor:
    like = torch.zeros(len(seeds), 3, *size)
    return gaussian_noise_field(torch.tensor(seeds), like=like)


def correlation(a: Tensor, b: Tensor) -> float:
    """Correlation in units of its standard error."""
    a, b = a.double().flatten(), b.double().flatten()
    r = torch.corrcoef(torch.stack([a, b]))[0, 1]
    return float(r) * len(a) ** 0.5


@pytest.mark.parametrize("size", [(32, 32), (17, 40)], ids=str)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_blur_matches_scipy_with_a_sigma_per_image(size: tuple[int, int], channels: int) -> None:
    x = random_images(3, channels=channels, height=size[0], width=size[1], dtype=torch.float64)
    sigma = [0.4, 1.1, 2.0]
    out = gaussian_blur(x, torch.tensor(sigma, dtype=torch.float64), max_sigma=2.0)
    assert largest_difference(out, blurred_by_scipy(x, sigma, radius=6)) <= 1e-12


def test_blur_of_single_precision_matches_scipy_too() -> None:
    x = random_images(2, height=24, width=24)
    out = gaussian_blur(x, torch.tensor([0.7, 1.5]), max_sigma=1.5)
    assert largest_difference(out, blurred_by_scipy(x, [0.7, 1.5], radius=4)) <= 1e-5


def test_a_kernel_wider_than_the_image_repeats_the_edges() -> None:
    x = random_images(1, height=3, width=4, dtype=torch.float64)
    out = gaussian_blur(x, torch.tensor([5.0], dtype=torch.float64), max_sigma=5.0)
    assert largest_difference(out, blurred_by_scipy(x, [5.0], radius=15)) <= 1e-12


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_no_blur_is_exactly_no_blur(dtype: torch.dtype) -> None:
    x = random_images(2, height=13, width=22, dtype=dtype)
    assert torch.equal(gaussian_blur(x, torch.zeros(2, dtype=dtype), max_sigma=2.0), x)


def test_blur_keeps_the_mean_of_a_constant() -> None:
    x = torch.full((1, 3, 9, 11), 0.7, dtype=torch.float64)
    out = gaussian_blur(x, torch.tensor([1.3], dtype=torch.float64), max_sigma=2.0)
    assert largest_difference(out, x) <= 1e-12


@pytest.mark.parametrize("seed", [0.0, 0.25, 0.5, 1 / 3, 0.9999])
def test_noise_is_standard_normal(seed: float) -> None:
    # Kolmogorov-Smirnov: a right generator fails with probability 1e-4 per seed.
    field = noise(seed, size=(128, 128)).double().flatten()
    n = len(field)
    assert abs(field.mean()) <= FIVE_SIGMA / n**0.5
    assert abs(field.std() - 1) <= FIVE_SIGMA / (2 * n) ** 0.5
    assert stats.kstest(field.numpy(), "norm").pvalue > 1e-4


def test_noise_has_the_tails_of_a_normal() -> None:
    # Beyond three: a Poisson count; five standard deviations, probability below 1e-5.
    field = noise(*[i / 20 for i in range(20)], size=(128, 128))
    expected = field.numel() * 2 * stats.norm.sf(3)
    assert abs(int((field.abs() > 3).sum()) - expected) <= FIVE_SIGMA * expected**0.5


def test_the_same_seed_gives_the_same_noise_wherever_it_stands() -> None:
    first, second, third = noise(0.1, 0.7, 0.1)
    assert torch.equal(first, third)
    assert torch.equal(first, noise(0.1)[0])
    assert not torch.equal(first, second)


@pytest.mark.parametrize(("dy", "dx"), [(0, 1), (1, 0), (1, 1), (0, 2), (2, 1), (7, 0)])
def test_neighbors_are_uncorrelated(dy: int, dx: int) -> None:
    field = noise(0.37)
    height, width = field.shape[-2:]
    here, there = field[..., : height - dy, : width - dx], field[..., dy:, dx:]
    assert abs(correlation(here, there)) <= FIVE_SIGMA
    assert abs(correlation(here**2, there**2)) <= FIVE_SIGMA


@pytest.mark.parametrize(
    "other", [0.37 + 2**-24, 0.37 + 2**-23, 0.37 + 2**-12, 0.0, 0.74, 0.6299999]
)
def test_seeds_are_independent_however_close(other: float) -> None:
    a, b = noise(0.37, other)
    assert abs(correlation(a, b)) <= FIVE_SIGMA
    assert abs(correlation(a**2, b**2)) <= FIVE_SIGMA


@pytest.mark.parametrize(("first", "second"), [(0, 1), (0, 2), (1, 2)])
def test_channels_are_independent(first: int, second: int) -> None:
    field = noise(0.37)
    assert abs(correlation(field[:, first], field[:, second])) <= FIVE_SIGMA


@pytest.mark.parametrize("seed_step", [2604072, 7812216, 16354010, 1])
def test_no_seed_repeats_the_noise_of_another_moved_along(seed_step: int) -> None:
    # The first three, times 0x9E3779B1 modulo 2**32, are small and even: were that product merely
    # added to twice the pixel's index, the seeds would share their noise, 44 to 1373 pixels apart.
    # The largest of 2n lags exceeds seven standard errors with probability 3e-7.
    a, b = noise(0.0, seed_step / 2**24, size=(128, 128)).double().flatten(1)
    n = len(a)
    lags = torch.fft.irfft(torch.fft.rfft(a, 2 * n) * torch.fft.rfft(b, 2 * n).conj())
    assert lags.abs().max() / n**0.5 <= 7.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_noise_is_the_same_in_every_precision(dtype: torch.dtype) -> None:
    seed, like = torch.tensor([0.625]), torch.zeros(1, 3, 8, 8, dtype=torch.float64)
    double = gaussian_noise_field(seed, like=like)
    assert torch.equal(gaussian_noise_field(seed, like=like.to(dtype)), double.to(dtype))
