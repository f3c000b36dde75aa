"""What is planted is found, what ignores the image gains exactly nothing, and all is exact."""

import json
from math import sqrt

import pytest
import torch
from torch import Generator, Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.boxes import box_iou
from instaaug.parameterizations import CropGrid
from instaaug.report.pictures.boxes import box_sides
from paper.objects.findings import COMPARED, PLACES, Findings, describe_findings, find_objects
from paper.objects.overlap import MEASURES, overlaps

BOXES = CropGrid([(1.0, 1), (0.6, 4), (0.3, 6)], max_outside=0.0).boxes.double()


def objects(n: int, generator: Generator) -> Tensor:
    """Squares of all sizes, anywhere inside of the image."""
    side = 0.4 + 1.4 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
    place = 2 * torch.rand(n, 2, generator=generator, dtype=torch.float64) - 1
    return torch.cat([place * (1 - side / 2), side, side], dim=1)


def planted(targets: Tensor) -> Tensor:
    """All mass on the box that overlaps the object most."""
    best = overlaps(targets, BOXES).iou.argmax(dim=1)
    return torch.nn.functional.one_hot(best, len(BOXES)).double()


def blind(n: int, generator: Generator) -> Tensor:
    row = torch.randn(len(BOXES), generator=generator, dtype=torch.float64).softmax(dim=0)
    return row.expand(n, -1)


def test_crops_that_find_the_object_are_found_out(generator: Generator) -> None:
    targets = objects(80, generator)
    found = find_objects(planted(targets), BOXES, targets)
    assert found.mean("iou", "learned") > 0.5
    assert found.mean("iou", "learned") == pytest.approx(found.mean("iou", "best"))
    for measure in MEASURES:
        for place in COMPARED:
            gain = found.gain(measure, place)
            assert gain.interval is not None
            assert gain.interval[0] > 0
            assert gain.p_value is not None
            assert gain.p_value < 1e-6
    assert found.size_correlation.value is not None
    assert found.size_correlation.value > 0.8
    words = describe_findings(found)
    assert "looking at the image gains" in words
    assert "Larger objects get larger crops" in words


def test_what_ignores_the_image_gains_exactly_nothing(generator: Generator) -> None:
    targets = objects(50, generator)
    found = find_objects(blind(50, generator), BOXES, targets)
    for measure in MEASURES:
        gain = found.gain(measure, "average")
        assert (gain.mean, gain.interval, gain.p_value) == (0.0, (0.0, 0.0), 1.0)
    assert found.size_correlation.value is None
    words = describe_findings(found)
    assert "places do not depend on the image" in words
    assert "same expected side" in words
    assert "standard deviation" not in words


def test_single_precision_is_no_gain(generator: Generator) -> None:
    """A batch may be computed another way than the next."""
    probs = blind(50, generator).float()
    noise = 1 + 1e-8 * torch.randn(probs.shape, generator=generator, dtype=torch.float64)
    found = find_objects(probs.double() * noise, BOXES, objects(50, generator))
    assert found.gain("iou", "average").mean == 0
    assert found.size_correlation.value is None


def test_crops_that_flee_the_object_are_worse(generator: Generator) -> None:
    targets = objects(80, generator)
    worst = overlaps(targets, BOXES[:16]).iou.argmin(dim=1)  # of one size
    probs = torch.nn.functional.one_hot(worst, len(BOXES)).double()
    found = find_objects(probs, BOXES, targets)
    gain = found.gain("iou", "average")
    assert gain.interval is not None
    assert gain.interval[1] < 0
    assert "looking at the image is worse" in describe_findings(found)


def test_chance_is_called_chance(generator: Generator) -> None:
    """5 % of seeds would call it something else."""
    logits = torch.randn(100, len(BOXES), generator=generator, dtype=torch.float64)
    found = find_objects(logits.softmax(dim=1), BOXES, objects(100, generator))
    p_value = found.gain("iou", "average").p_value
    assert p_value is not None
    assert p_value > 0.05
    assert "no difference beyond chance" in describe_findings(found)


def test_expectations_agree_with_drawn_crops(generator: Generator) -> None:
    """Six standard errors of 4 × 5 means: with right formulas it fails once in ten million."""
    n = 4000
    targets = objects(5, generator)
    logits = 2 * torch.randn(5, len(BOXES), generator=generator, dtype=torch.float64)
    probs = logits.softmax(dim=1)
    found = find_objects(probs, BOXES, targets)
    own = torch.multinomial(probs, n, True, generator=generator)
    size = BOXES[own, 2:]
    level = BOXES[:, 2].unique(return_inverse=True)[1]
    pooled = probs.sum(dim=0)
    place = {
        "learned": BOXES[own],
        "average": BOXES[same_size(level, own, pooled, generator)],
        "grid": BOXES[same_size(level, own, torch.ones_like(pooled), generator)],
        "anywhere": torch.cat([
            (2 - size) * (torch.rand(size.shape, generator=generator, dtype=size.dtype) - 0.5),
            size,
        ], dim=-1),
    }  # fmt: skip
    for name, crops in place.items():
        values = box_iou(crops, targets[:, None].expand_as(crops))
        error = values.std(dim=1) / sqrt(n)
        assert bool(((found.expected[name].iou - values.mean(dim=1)).abs() < 6 * error).all()), (
            name
        )
    sides = box_sides(BOXES)[own].mean(dim=1)
    torch.testing.assert_close(found.crop_side, sides, atol=0.03, rtol=0)


def same_size(level: Tensor, own: Tensor, weight: Tensor, generator: Generator) -> Tensor:
    """For each drawn box another of its size, by weight."""
    other = torch.empty_like(own)
    for s in level.unique():
        mask = level[own] == s
        chances = weight * (level == s)
        other[mask] = torch.multinomial(chances, int(mask.sum()), True, generator=generator)
    return other


def test_sides_are_roots_of_shares(generator: Generator) -> None:
    targets = torch.tensor([[0.0, 0.0, 2.0, 0.5], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
    found = find_objects(blind(3, generator), BOXES, targets)
    torch.testing.assert_close(found.object_side, torch.tensor([0.5, 0.5, 1.0]).double())


def test_all_numbers_can_be_written(generator: Generator) -> None:
    targets = objects(20, generator)
    for probs in (planted(targets), blind(20, generator)):
        content = json.loads(json.dumps(find_objects(probs, BOXES, targets).to_json()))
        assert content["n_images"] == 20
        assert set(content["overlap"]) == set(MEASURES)
        for row in content["overlap"].values():
            assert set(row) == {*PLACES, "gain_over"}
            assert set(row["gain_over"]) == set(COMPARED)
            for place, gain in row["gain_over"].items():
                assert gain["mean"] == pytest.approx(row["learned"] - row[place], abs=1e-9)
                assert gain["p_value"] > 0


def test_what_does_not_fit_is_told(generator: Generator) -> None:
    targets = objects(4, generator)
    probs = blind(4, generator)
    with pytest.raises(ShapeError, match=r"a row per object, 3 or more.*got \(4, 53\) for 5"):
        find_objects(probs, BOXES, objects(5, generator))
    with pytest.raises(ShapeError, match=r"got \(2, 53\) for 2 objects"):
        find_objects(probs[:2], BOXES, targets[:2])
    with pytest.raises(ArgumentError, match="with a sum of 1 per image: got a sum off by 1"):
        find_objects(2 * probs, BOXES, targets)
    with pytest.raises(ArgumentError, match="positive sides: row 0 has"):
        find_objects(probs, BOXES, targets * torch.tensor([1, 1, 0, 1]))


def test_findings_are_plain_data(generator: Generator) -> None:
    found = find_objects(blind(3, generator), BOXES, objects(3, generator))
    assert isinstance(found, Findings)
    assert not any(values.requires_grad for _, values in found.expected["learned"].items())


def test_images_are_tested_as_images_and_not_as_seeds() -> None:
    """The same gain on every image is evidence; the test of seeds had no p-value for it."""
    halves = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0]])
    gain = find_objects(torch.eye(2).repeat(3, 1), halves, halves.repeat(3, 1)).gain(
        "iou", "average"
    )
    assert (gain.n, gain.mean, gain.interval) == (6, 0.5, (0.5, 0.5))
    assert gain.p_value == 2 / 2**6  # six images, all in favor
