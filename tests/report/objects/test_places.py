"""Other places leave the sizes as they are; habit also leaves what all images choose together."""

import torch
from torch import Generator, Tensor

from instaaug.parameterizations import CropGrid
from instaaug.report.objects.places import (
    average_places,
    best_places,
    box_sizes,
    size_probs,
    uniform_places,
)

BOXES = CropGrid([(1.0, 1), (0.5, 3), (0.4, 2)], max_outside=0.0).boxes.double()
SIZES, MEMBERS = box_sizes(BOXES)
LEVELS = [MEMBERS.eq(s) for s in range(len(SIZES))]


def choices(generator: Generator, n: int = 6) -> Tensor:
    logits = 2 * torch.randn(n, len(BOXES), generator=generator, dtype=torch.float64)
    return logits.softmax(dim=1)


def test_sizes_are_told_apart() -> None:
    torch.testing.assert_close(SIZES[MEMBERS], BOXES[:, 2:])
    assert MEMBERS.bincount().tolist() == [4, 9, 1]  # the smallest first


def test_sizes_keep_their_probabilities(generator: Generator) -> None:
    probs = choices(generator)
    sizes = size_probs(probs, MEMBERS)
    naive = torch.stack([probs[:, level].sum(dim=1) for level in LEVELS], dim=1)
    torch.testing.assert_close(sizes, naive)
    scores = torch.rand(probs.shape, generator=generator, dtype=torch.float64)
    for moved in (
        average_places(probs, MEMBERS),
        uniform_places(probs, MEMBERS),
        best_places(probs, MEMBERS, scores),
    ):
        torch.testing.assert_close(size_probs(moved, MEMBERS), sizes)


def test_habit_chooses_every_box_as_often_as_all_images_together(generator: Generator) -> None:
    probs = choices(generator)
    moved = average_places(probs, MEMBERS)
    torch.testing.assert_close(moved.sum(dim=0), probs.sum(dim=0))
    for level in LEVELS:  # and given the size, all images alike
        given = moved[:, level] / moved[:, level].sum(dim=1, keepdim=True)
        torch.testing.assert_close(given, given[:1].expand_as(given))


def test_a_size_that_no_image_chooses_makes_no_trouble() -> None:
    probs = torch.zeros(2, len(BOXES), dtype=torch.float64)
    probs[:, 0] = 1.0
    torch.testing.assert_close(average_places(probs, MEMBERS), probs)


def test_uniform_places_are_alike_within_a_size(generator: Generator) -> None:
    moved = uniform_places(choices(generator), MEMBERS)
    for level in LEVELS:
        alike = moved[:, level][:, :1].expand(-1, int(level.sum()))
        torch.testing.assert_close(moved[:, level], alike)


def test_the_best_places_are_those_of_a_search(generator: Generator) -> None:
    probs = choices(generator)
    scores = torch.rand(probs.shape, generator=generator, dtype=torch.float64)
    found = (best_places(probs, MEMBERS, scores) * scores).sum(dim=1)
    for i in range(len(probs)):
        naive = sum(float(probs[i, level].sum() * scores[i, level].max()) for level in LEVELS)
        assert abs(float(found[i]) - naive) < 1e-12
