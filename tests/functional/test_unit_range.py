"""Normalized images come back as pixels in [0, 1], and the other way around."""

import pytest
import torch

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.color import Normalization
from tests.support.images import random_images

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def test_normalization_is_undone_and_done_again() -> None:
    x = random_images(2, dtype=torch.float64)
    normalized = torch.stack([(x[:, c] - MEAN[c]) / STD[c] for c in range(3)], dim=1)
    pixels = Normalization(MEAN, STD)
    torch.testing.assert_close(pixels.denormalize(normalized), x)
    torch.testing.assert_close(pixels.normalize(x), normalized)


def test_images_that_were_not_normalized_are_clipped_alone() -> None:
    x = torch.tensor([-0.5, 0.25, 1.5]).view(1, 1, 1, 3)
    assert Normalization().denormalize(x).flatten().tolist() == [0.0, 0.25, 1.0]
    assert Normalization().normalize(x) is x


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        ((0.5,), None, "given together"),
        (None, (0.5,), "given together"),
        (MEAN, (1.0, 0.0, 1.0), "`std`"),
    ],
    ids=str,
)
def test_statistics_that_cannot_be_are_refused(
    mean: tuple[float, ...] | None, std: tuple[float, ...] | None, words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        Normalization(mean, std)


def test_as_many_statistics_as_channels_are_asked_for() -> None:
    with pytest.raises(ShapeError, match="got 2 for 3 channels"):
        Normalization((0.5, 0.5), (1.0, 1.0)).denormalize(random_images(1))
