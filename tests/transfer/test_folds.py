"""Folds keep similar images together and are of one size."""

import pytest
import torch

from instaaug.transfer import similar_folds


def make_copies(
    n_objects: int, n_photos: int, n_classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Several photos of each object, and several objects of each class."""
    generator = torch.Generator().manual_seed(0)
    objects = torch.randn(n_classes * n_objects, 1, 8, generator=generator)
    noise = 0.01 * torch.randn(n_classes * n_objects, n_photos, 8, generator=generator)
    targets = torch.arange(n_classes).repeat_interleave(n_objects * n_photos)
    return (objects + noise).flatten(0, 1), targets


def test_photos_of_one_object_are_in_one_fold() -> None:
    features, targets = make_copies(4, 3, 5)
    folds = similar_folds(features, targets, 4).view(-1, 3)
    assert (folds == folds[:, :1]).all()


def test_every_fold_has_images_of_every_class() -> None:
    features, targets = make_copies(4, 3, 5)
    folds = similar_folds(features, targets, 4)
    for label in range(5):
        assert folds[targets == label].bincount().tolist() == [3] * 4
    assert folds.bincount().tolist() == [15] * 4


@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (2, 3, 9)])
def test_classes_may_have_fewer_images_than_folds(counts: tuple[int, ...]) -> None:
    targets = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    features = torch.randn(len(targets), 4, generator=torch.Generator().manual_seed(0))
    folds = similar_folds(features, targets, 4)
    assert folds.min() >= 0
    assert folds.max() < 4
    for label, count in enumerate(counts):
        if count <= 4:
            assert len(folds[targets == label].unique()) == count
