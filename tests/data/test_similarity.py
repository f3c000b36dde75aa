"""What looks alike is found by its colors."""

import numpy as np
import pytest
import torch

from instaaug.data.labeled import LabeledImages
from instaaug.data.similarity import MOST_CLUSTERED, cluster, describe_colors, resemblance


def images(pixels: np.ndarray) -> LabeledImages:
    return LabeledImages(pixels.astype(np.uint8), torch.zeros(len(pixels)))


def noise(seed: int, n: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 6, 6, channels))


@pytest.mark.parametrize("channels", [1, 3])
def test_the_shares_of_colors_add_up_to_one(channels: int) -> None:
    found = describe_colors(images(noise(0, 300, channels)))  # more than one chunk
    assert found.shape == (300, 64)
    assert np.allclose((found**2).sum(axis=1), 1)


def test_colors_do_not_depend_on_where_they_are() -> None:
    pixels = noise(0, 2)
    moved = np.roll(pixels, (1, 2), axis=(1, 2))
    assert np.array_equal(describe_colors(images(pixels)), describe_colors(images(moved)))


def test_colors_are_told_apart_by_every_channel() -> None:
    corners = np.array([[r, g, b] for r in (0, 255) for g in (0, 255) for b in (0, 255)])
    found = describe_colors(images(np.broadcast_to(corners[:, None, None], (8, 6, 6, 3))))
    assert np.allclose(found @ found.T, np.eye(8))


def test_one_image_may_be_described() -> None:
    assert describe_colors(images(noise(0, 1)).subset([])).shape == (0, 64)
    assert describe_colors(images(noise(0, 1))).shape == (1, 64)


@pytest.mark.parametrize("n", [30, 3 * MOST_CLUSTERED])
def test_far_groups_are_clusters(n: int) -> None:
    generator = np.random.default_rng(0)
    groups = generator.integers(0, 3, n)
    groups[:3] = 0, 1, 2
    features = 10.0 * groups[:, None] + generator.random((n, 2))
    assert np.array_equal(cluster(features, 3), groups)


@pytest.mark.parametrize(("n", "n_clusters", "expected"), [(3, 5, 3), (3, 3, 3), (4, 1, 1)])
def test_few_rows_are_a_cluster_each_and_one_cluster_has_all(
    n: int, n_clusters: int, expected: int
) -> None:
    assert len(np.unique(cluster(np.arange(n, dtype=float)[:, None], n_clusters))) == expected


@pytest.mark.parametrize("n_clusters", [3, 9])
def test_equal_rows_stay_together(n_clusters: int) -> None:
    rows = np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 1.0], [0.0, 1.0], [2.0, 2.0]])
    assert cluster(rows, n_clusters).tolist() == [0, 1, 0, 0, 1]


def photos(seed: int, n: int = 120) -> np.ndarray:
    """Each with a color of its own, and noise around it."""
    colors = np.random.default_rng(seed + 100).integers(0, 170, (n, 1, 1, 3))
    return colors + noise(seed, n) // 3


def test_near_copies_resemble_training_images_more_than_new_ones_do() -> None:
    known, new = photos(0), photos(1)
    copies = known + np.random.default_rng(2).integers(0, 2, known.shape)
    near = resemblance(*map(images, (known, copies, new)))
    assert near is not None
    assert near < 0.7
    far = resemblance(*map(images, (known, photos(2), new)))
    assert far is not None
    assert 0.8 < far < 1.25
    assert resemblance(*map(images, (known, known[::-1], known))) == 1


def test_of_few_images_nothing_is_said() -> None:
    assert resemblance(*map(images, (photos(0), photos(1, 99), photos(2)))) is None
    assert resemblance(*map(images, (photos(0), photos(1), photos(2, 99)))) is None
