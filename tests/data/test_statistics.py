"""Channel statistics: against NumPy's own."""

import numpy as np
import pytest
import torch

from instaaug.data.labeled import LabeledImages
from instaaug.data.statistics import channel_statistics


def labeled(pixels: np.ndarray) -> LabeledImages:
    return LabeledImages(pixels, torch.zeros(len(pixels)))


def test_statistics_agree_with_numpy() -> None:
    pixels = np.random.default_rng(0).integers(0, 200, (600, 5, 7, 3), dtype=np.uint8)
    mean, std = channel_statistics(labeled(pixels))
    np.testing.assert_allclose(mean, (pixels / 255).mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(std, (pixels / 255).std(axis=(0, 1, 2)))


def test_a_constant_channel_can_be_divided_by() -> None:
    mean, std = channel_statistics(labeled(np.full((3, 2, 2, 1), 51, dtype=np.uint8)))
    assert mean == pytest.approx((0.2,))
    assert std == (1 / 255,)


def test_a_subset_has_its_own_statistics() -> None:
    pixels = np.repeat(np.array([0, 255], dtype=np.uint8), 4).reshape(8, 1, 1, 1)
    assert channel_statistics(labeled(pixels).subset([4, 5]))[0] == (1.0,)


def test_of_many_images_some_are_looked_at_evenly() -> None:
    pixels = (np.arange(20_000) % 256).astype(np.uint8).reshape(-1, 1, 1, 1)
    (mean,), (std,) = channel_statistics(labeled(pixels))
    assert mean == pytest.approx(0.5, abs=0.02)
    assert std == pytest.approx(12**-0.5, abs=0.02)
