"""Overlaps agree with counting pixels and a fine grid of places; other places keep the sizes."""

from math import sqrt

import pytest
import torch
from torch import Generator, Tensor

from instaaug.functional.boxes import box_iou
from instaaug.parameterizations import CropGrid
from paper.objects.overlap import (
    MEASURES,
    average_places,
    best_places,
    box_sizes,
    overlaps,
    overlaps_anywhere,
    size_probs,
    uniform_places,
)

OBJECTS = torch.tensor(
    [
        [0.0, 0.0, 2.0, 2.0],  # all of the image
        [-0.75, -0.75, 0.5, 0.5],  # a corner
        [0.3, -0.2, 0.4, 1.2],
        [0.9, 0.5, 0.2, 0.03125],  # next to nothing, at the border
    ],
    dtype=torch.float64,
)
SIZES = torch.tensor([[2.0, 2.0], [1.1, 1.1], [0.3, 1.7], [0.1, 0.1]], dtype=torch.float64)

GRID_BOXES = CropGrid([(1.0, 1), (0.5, 3), (0.4, 2)], max_outside=0.0).boxes.double()
GRID_SIZES, MEMBERS = box_sizes(GRID_BOXES)
LEVELS = [MEMBERS.eq(s) for s in range(len(GRID_SIZES))]


def random_boxes(n: int, generator: Generator) -> Tensor:
    ends = torch.rand(n, 2, 2, generator=generator, dtype=torch.float64).sort(dim=1).values
    low, high = (2 * ends[:, i] - 1 for i in (0, 1))
    return torch.cat([(low + high) / 2, high - low], dim=1)


def masks(boxes: Tensor, n: int) -> Tensor:
    """Pixels whose centers lie in each box."""
    places = (torch.arange(n, dtype=torch.float64) + 0.5) / n * 2 - 1
    inside = [
        (places - boxes[:, axis, None]).abs() < boxes[:, 2 + axis, None] / 2 for axis in (0, 1)
    ]
    return inside[1][:, :, None] & inside[0][:, None, :]


def test_overlaps_are_those_of_counted_pixels(generator: Generator) -> None:
    crops, objects = random_boxes(7, generator), random_boxes(5, generator)
    found = overlaps(objects, crops)
    in_object, in_crop = masks(objects, 400)[:, None], masks(crops, 400)[None]
    both = (in_object & in_crop).sum(dim=(2, 3))
    expected = {
        "iou": both / (in_object | in_crop).sum(dim=(2, 3)),
        "covered": both / in_object.sum(dim=(2, 3)),
        "on_object": both / in_crop.sum(dim=(2, 3)),
    }
    assert list(expected) == list(MEASURES) == [name for name, _ in found.items()]
    for name, values in found.items():
        torch.testing.assert_close(values, expected[name].double(), atol=0.01, rtol=0.03)


def test_iou_is_that_of_the_other_implementation(generator: Generator) -> None:
    crops, objects = random_boxes(6, generator), random_boxes(6, generator)
    pairs = overlaps(objects, crops).iou.diagonal()
    torch.testing.assert_close(pairs, box_iou(objects, crops))


def test_boxes_apart_share_nothing() -> None:
    left, right = torch.tensor([[-0.5, 0.0, 0.4, 1.0]]), torch.tensor([[0.5, 0.9, 0.4, 1.0]])
    assert all(float(values) == 0 for _, values in overlaps(left, right).items())


def test_random_places_agree_with_a_fine_grid_of_them() -> None:
    found = overlaps_anywhere(OBJECTS, SIZES)
    n = 400
    steps = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    for s, size in enumerate(SIZES):
        room = 2 - size
        xs, ys = (-1 + size[a] / 2 + room[a] * steps for a in (0, 1))
        centers = torch.cartesian_prod(xs, ys)
        every = overlaps(OBJECTS, torch.cat([centers, size.expand(n * n, 2)], dim=1))
        for (_, exact), (_, values) in zip(found.items(), every.items(), strict=True):
            torch.testing.assert_close(exact[:, s], values.mean(dim=1), atol=3e-5, rtol=2e-3)


def test_random_places_agree_with_drawn_ones(generator: Generator) -> None:
    """Five standard errors of 48 means: with a right formula it fails once in 30,000 seeds."""
    n = 20_000
    found = overlaps_anywhere(OBJECTS, SIZES)
    for s, size in enumerate(SIZES):
        drawn = torch.rand(n, 2, generator=generator, dtype=torch.float64)
        centers = -1 + size / 2 + (2 - size) * drawn
        every = overlaps(OBJECTS, torch.cat([centers, size.expand(n, 2)], dim=1))
        for (_, exact), (_, values) in zip(found.items(), every.items(), strict=True):
            error = values.std(dim=1) / sqrt(n)
            assert bool(((exact[:, s] - values.mean(dim=1)).abs() <= 5 * error + 1e-12).all())


def test_more_nodes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    few = overlaps_anywhere(OBJECTS, SIZES)
    monkeypatch.setattr("paper.objects.overlap.N_NODES", 20)
    torch.testing.assert_close(overlaps_anywhere(OBJECTS, SIZES).iou, few.iou, atol=1e-11, rtol=0)


def test_the_whole_image_has_one_place() -> None:
    found = overlaps_anywhere(OBJECTS, SIZES[:1])
    area = OBJECTS[:, 2:].prod(dim=1, keepdim=True) / 4
    torch.testing.assert_close(found.iou, area)
    torch.testing.assert_close(found.covered, torch.ones_like(area))
    torch.testing.assert_close(found.on_object, area)


def test_images_taken_in_parts_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = overlaps_anywhere(OBJECTS, SIZES)
    monkeypatch.setattr("paper.objects.overlap.AT_ONCE", 1)
    for (_, one), (_, other) in zip(
        whole.items(), overlaps_anywhere(OBJECTS, SIZES).items(), strict=True
    ):
        torch.testing.assert_close(one, other)


def choices(generator: Generator, n: int = 6) -> Tensor:
    logits = 2 * torch.randn(n, len(GRID_BOXES), generator=generator, dtype=torch.float64)
    return logits.softmax(dim=1)


def test_sizes_are_told_apart() -> None:
    torch.testing.assert_close(GRID_SIZES[MEMBERS], GRID_BOXES[:, 2:])
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
    probs = torch.zeros(2, len(GRID_BOXES), dtype=torch.float64)
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
