"""What the page is told of a run is what was seen."""

from dataclasses import replace
from math import log, nan, pi

import pytest
import torch

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.page.content import WHOLE
from instaaug.report.page.runs import (
    Observations,
    class_entropies,
    curves_of,
    factors_of,
    inputs_of,
    join_observations,
)
from instaaug.spaces import Boxes, Choices, Interval, Parameter

N, VIEWS, CLASSES = 3, 2, 9
TABLE = torch.tensor([[-0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
SIGNS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
TURN = Interval((Parameter("angle", -pi, pi, period=2 * pi),))


def seen(n: int = N, first: int = 0) -> Observations:
    """Inputs ``first`` to ``first + n`` of a longer list."""
    rows = torch.arange(first, first + n).float()
    box = ObservedFactor(
        "crop", Boxes(((0.5, 2), (1.0, 1))), TABLE[[0, 1]][:, None].expand(VIEWS, n, 4),
        entropy=rows / 10, max_entropy=log(2), band=(0.1, 0.5), table=TABLE,
        probs=torch.stack([rows / 10, 1 - rows / 10], dim=1),
    )  # fmt: skip
    turn = ObservedFactor(
        "rotation", TURN, torch.full((VIEWS, n, 1), pi / 4), entropy=rows, max_entropy=log(2 * pi),
        band=(0.0, 1.0), low=torch.full((n, 1), -pi / 2), high=torch.full((n, 1), pi / 2),
    )  # fmt: skip
    flip = ObservedFactor(
        "flip", Choices(((1.0, 1.0), (-1.0, 1.0))), SIGNS[[1, 0]][:, None].expand(VIEWS, n, 2)
    )
    merged = torch.zeros(VIEWS, n, CLASSES)
    merged[0, :, 3], merged[1, :, 5], merged[1, :, 3] = 1.0, 0.75, 0.25
    plain = torch.zeros(n, CLASSES)
    plain[:, 7] = 1.0
    return Observations(
        pictures=torch.zeros(n, 2, 2, 3, dtype=torch.uint8),
        views=torch.zeros(VIEWS, n, 2, 2, 3, dtype=torch.uint8),
        factors=(box, turn, flip),
        plain=plain,
        merged=merged,
        loss=rows,
        loss_merged=2 * rows,
        disagreement=rows / 5,
    )


def test_factors_are_told_in_the_units_of_people() -> None:
    crop, turn, flip = factors_of(seen())
    assert crop["kind"] == "boxes"
    assert crop["boxes"] == TABLE.tolist()
    assert crop["band"] == [0.1, 0.5]
    assert turn["kind"] == "ranges"
    assert turn["parameters"][0] == {
        "name": "angle", "low": -180.0, "high": 180.0, "identity": 0.0, "period": 360.0,
        "unit": "°",
    }  # fmt: skip
    assert flip["kind"] == "choices"
    assert flip["choices"] == ["as it is", "mirrored"]
    assert flip["band"] is None


def test_each_input_has_its_own_numbers() -> None:
    second = inputs_of(seen(), classes=["a"] * CLASSES)[1]
    assert second["entropy"] == pytest.approx([0.1, 1.0, None])
    assert (second["loss"], second["loss_merged"], second["disagreement"]) == (1.0, 2.0, 0.2)
    assert second["probs"] == [[WHOLE // 10, 9 * WHOLE // 10], [], []]
    assert second["ranges"] == [[], [[-90.0, 90.0]], []]
    assert second["theta"] == [[TABLE[0].tolist(), [45.0], [1]], [TABLE[1].tolist(), [45.0], [0]]]


def test_the_likeliest_classes_are_shown_with_those_of_the_start() -> None:
    first = inputs_of(seen(), classes=["a"] * CLASSES)[0]
    assert first["classes"][:2] == [5, 3]
    assert 7 in first["classes"]
    assert len(first["classes"]) == 6
    column = [row[first["classes"].index(5)] for row in first["merged"]]
    assert column == [0, 3 * WHOLE // 4]
    assert first["plain"][first["classes"].index(7)] == WHOLE


def test_outlines_are_told_corner_by_corner() -> None:
    plain = seen()
    assert "outlines" not in inputs_of(plain, classes=["a"] * CLASSES)[0]
    corners = torch.arange(VIEWS * N * 8).view(VIEWS, N, 4, 2) / 100
    told = inputs_of(replace(plain, outlines=corners), classes=["a"] * CLASSES)[1]
    assert told["outlines"][1] == pytest.approx([(4 * 8 + k) / 100 for k in range(8)])
    halves = [replace(seen(n, first), outlines=corners[:, first : first + n])
              for n, first in ((2, 0), (1, 2))]  # fmt: skip
    assert torch.equal(torch.as_tensor(join_observations(halves).outlines), corners)


def test_a_regression_shows_its_outputs() -> None:
    first = inputs_of(seen(), classes=[])[0]
    assert first["classes"] == []
    assert first["merged"][1][5] == 0.75
    assert len(first["plain"]) == CLASSES


def test_a_run_without_views_says_so() -> None:
    whole = seen()
    none = Observations(
        whole.pictures, whole.views[:0], (), whole.plain, whole.merged[:0], whole.loss, whole.loss,
        whole.disagreement,
    )  # fmt: skip
    first = inputs_of(none, classes=["a"] * CLASSES)[0]
    assert not first["theta"]
    assert not first["merged"]
    assert not first["probs"]
    assert first["loss_merged"] is first["disagreement"] is None
    assert first["classes"][0] == 7


def test_what_is_not_finite_is_missing() -> None:
    broken = seen()
    broken.loss[0] = nan
    assert inputs_of(broken, classes=["a"] * CLASSES)[0]["loss"] is None


def test_entropy_by_class_is_a_mean_over_its_inputs() -> None:
    found = class_entropies(seen(), torch.tensor([1, 0, 1]), ["ant", "bee", "cow"])
    assert [row["name"] for row in found] == ["ant", "bee"]
    assert [row["n"] for row in found] == [1, 2]
    assert found[1]["entropy"] == pytest.approx([0.1, 1.0, None])


def test_batches_are_joined_in_their_order() -> None:
    parts = join_observations([seen(2), seen(1, first=2)])
    whole = seen()
    for name in ("loss", "plain", "merged", "pictures", "views", "disagreement"):
        assert torch.equal(getattr(parts, name), getattr(whole, name))
    for one, other in zip(parts.factors, whole.factors, strict=True):
        assert torch.equal(one.theta, other.theta)
    assert parts.factors[0].probs is not None
    assert torch.equal(parts.factors[0].probs, torch.as_tensor(whole.factors[0].probs))
    assert parts.factors[2].probs is None


def test_curves_are_sorted_by_what_they_show() -> None:
    history = [
        {"epoch": 0.0, "train/loss": 2.0, "train/entropy/crop": 3.0, "train/weight/crop": 0.1},
        {"epoch": 1.0, "train/loss": nan, "validation/nll": 1.5, "validation/top1": 0.5},
    ]
    curves = curves_of(history)
    assert curves["epoch"] == [1.0, 2.0]
    assert curves["loss"] == {"training": [2.0, None], "validation": [None, 1.5]}
    assert curves["score"] == {"validation top-1": [None, 0.5]}
    assert curves["entropy"] == {"crop": [3.0, None]}
    assert curves["weight"] == {"crop": [0.1, None]}
    assert curves_of([])["epoch"] == []
