"""What a run found and how good it is, as plain data."""

from dataclasses import replace
from math import log, nan, pi
from pathlib import Path
from typing import Any

import pytest
import torch

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.page.content import WHOLE
from instaaug.report.page.runs import (
    Observations,
    class_entropies,
    curves_of,
    differing_settings,
    factors_of,
    facts_of,
    headline_of,
    inputs_of,
    join_observations,
    notes_of,
    result_rows,
    score_name,
    short_names,
)
from instaaug.report.records import RunRecord
from instaaug.spaces import Boxes, Choices, Interval, Parameter
from instaaug.stats import wilson_interval

N, VIEWS, CLASSES = 3, 2, 9
TABLE = torch.tensor([[-0.5, 0.0, 1.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
SIGNS = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
TURN = Interval((Parameter("angle", -pi, pi, period=2 * pi),))

CONFIG = {
    "data.source": "photos/pets", "method.name": "instaaug", "phi.conditioning": "input",
    "seed": 3, "transforms": "crop", "model.width": 0.25, "trainer.max_epochs": 1200,
}  # fmt: skip
PLAIN = {"top1": 0.5, "n": 40.0}
AUGMENTED = {"top1": 0.75, "n": 40.0, "n_samples": 20}


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
        "unit": "°", "multiplicative": False,
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


def trained(config: dict[str, Any] | None = None, **parts: Any) -> RunRecord:
    results = {"n_train": 12345, "n_test": 40, "test": parts}
    return RunRecord(Path("runs/a"), "train", {**CONFIG, **(config or {})}, results)


def fitted(scores: dict[str, Any]) -> RunRecord:
    config = {"model.name": "m:f", "data.source": "photos", "views.counts": [4, 10]}
    rows = [{"name": "the image", "views": 1.0, "n": 50, "accuracy": 0.6},
            {"name": "10 views", "views": 10.0, "n": 50, "accuracy": 0.7}]  # fmt: skip
    return RunRecord(Path("runs/fit"), "tta", config, {"n_fit": 50, "rows": rows}, scores=scores)


def test_rows_have_intervals_and_the_views_count() -> None:
    image, views = result_rows(trained(plain=PLAIN, augmented=AUGMENTED))
    assert (image["name"], views["name"]) == ("the image", "20 views")
    assert (image["is_main"], views["is_main"]) == (False, True)
    assert (views["low"], views["high"]) == wilson_interval(30, 40)


def test_without_views_the_image_counts() -> None:
    (image,) = result_rows(trained(plain=PLAIN))
    assert image["is_main"]
    assert result_rows(trained()) == []


def test_what_validation_images_refuse_does_not_count() -> None:
    record = trained(plain=PLAIN, augmented=AUGMENTED)
    record.results["validation"] = {"n_views": 1, "verdict": "Do not use views here."}
    assert [row["is_main"] for row in result_rows(record)] == [True, False]
    assert notes_of(record) == ["Do not use views here."]


def test_notes_are_what_the_results_say() -> None:
    record = trained()
    assert notes_of(record) == []
    record.results.update(validation=None, diagnostics={"words": ["Flips are rare.", 3]})
    assert notes_of(record) == ["Flips are rare."]


def test_the_headline_is_a_sentence() -> None:
    record = trained(plain=PLAIN, augmented=AUGMENTED)
    record.results["validation"] = {"n_views": 20}
    assert headline_of(record, result_rows(record)) == (
        "InstaAug on pets: top-1 accuracy 75.0\u202f% from 20 views, as validation images advised."
    )
    assert headline_of(trained(), []) == "InstaAug on pets."
    alone = trained(plain=PLAIN)
    assert headline_of(alone, result_rows(alone)).endswith(
        "top-1 accuracy 50.0\u202f% from the image alone."
    )


@pytest.mark.parametrize(
    ("task", "validation", "ending"),
    [
        ("classification", {"n_views": 1},
         "50.0\u202f% from the image alone: validation images found no gain in views."),
        ("classification", None,
         "50.0\u202f% from the image alone: there were too few validation images to say whether "
         "views help."),
        ("contrastive", None,
         "75.0\u202f% from 20 views, which no validation images have judged."),
    ],
)  # fmt: skip
def test_the_headline_uses_views_only_where_validation_images_advise_them(
    task: str, validation: Any, ending: str
) -> None:
    asked = {"task": task, "data.validation_fraction": 0.1}
    record = trained(asked, plain=PLAIN, augmented=AUGMENTED)
    record.results["validation"] = validation
    assert headline_of(record, result_rows(record)).endswith(ending)


@pytest.mark.parametrize(
    ("advice", "main"),
    [({"n_views": 1, "whole": None}, "the image"), ({"n_views": 4, "whole": None}, "4 views"),
     ({"n_views": 1, "whole": 96}, "the image at 96 px")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["tta", "transfer"])
def test_the_headline_of_a_fit_is_what_it_advises(kind: Any, advice: Any, main: str) -> None:
    names = [("the image", 1.0), ("4 views", 4.0), ("10 views", 10.0), ("the image at 96 px", 1.0)]
    rows = [{"name": n, "views": v, "n": 50, "accuracy": 0.6} for n, v in names]
    told = {"validation": advice} if kind == "tta" else {"transfer": {"views": advice}}
    record = RunRecord(Path("fit"), kind, {"data.source": "photos"}, {"rows": rows, **told})
    found = result_rows(record)
    assert [row["name"] for row in found if row["is_main"]] == [main]
    ending = {
        "the image": "from the image alone: cross-validation found no gain in views.",
        "4 views": "from 4 views, as cross-validation advised.",
    }.get(main, "from the image at 96 px, as cross-validation advised.")
    assert headline_of(record, found).endswith(ending)


def test_what_depending_on_the_input_was_worth_is_told_in_points() -> None:
    gains = {"4": {"difference": 0.012, "low": -0.003, "high": 0.027},
             "10": {"difference": 0.002, "low": -0.003, "high": 0.01}, "x": {}}  # fmt: skip
    told = {"dependence": 0.5, "worth": gains, "n_images": 320, "verdict": "Use 4 views."}
    record = RunRecord(Path("fit"), "transfer", {}, {"transfer": {"views": told}})
    assert notes_of(record) == [
        "Depending on the input was worth +1.2 points of accuracy with 4 views (95 % interval "
        "\u22120.3 to +2.7), against the same views for all, judged by 320 images that were left "
        "out.",
        "Use 4 views.",
    ]
    told["dependence"] = 0.0
    assert "was worth nothing that can be told from noise" in notes_of(record)[0]
    assert notes_of(record)[0].endswith("share the same distribution at test time.")
    undone = replace(record, config={"phi.undo": 0.5})
    assert notes_of(undone)[0].endswith(
        "share the same ranges, around what is undone, at test time."
    )
    asked = {"task": "classification", "data.validation_fraction": 0.1}
    few = trained(asked, plain=PLAIN, augmented=AUGMENTED)
    few.results["validation"] = None
    assert notes_of(few) == [
        "What depending on the input was worth is not known: there were too few validation images."
    ]


def test_a_regression_has_an_error_and_no_interval() -> None:
    record = trained(
        {"task": "regression", "loss.regression": "absolute"}, plain={"mae": 0.25, "n": 9.0}
    )
    (row,) = result_rows(record)
    assert score_name(record) == "mean absolute error"
    assert (row["value"], row["low"], row["high"]) == (0.25, None, None)
    assert headline_of(record, [row]).endswith("mean absolute error 0.25 from the image alone.")


def test_a_fit_without_evaluation_has_its_own_rows() -> None:
    image, views = result_rows(fitted({}))
    assert (image["value"], views["value"], views["name"]) == (0.6, 0.7, "10 views")
    assert views["is_main"]


def test_an_evaluation_shows_every_rival_and_the_test() -> None:
    def row(name: str, views: float, accuracy: float) -> dict[str, Any]:
        return {"name": name, "views": views, "accuracy": accuracy, "low": 0.5, "high": 0.9}

    rows = [row("learned views", 4.0, 0.74), row("learned views", 10.0, 0.72),
            row("center", 1.0, 0.6), row("ten_crop", 10.0, 0.75)]  # fmt: skip
    comparisons = [
        {"name": "learned views", "views": v, "best": "center", "difference": d, "p_value": 0.0123}
        for v, d in ((4.0, 0.1), (10.0, -0.12))
    ]
    found = result_rows(fitted({"rows": rows, "comparisons": comparisons}))
    assert [one["name"] for one in found] == [
        "learned views, 4 views", "learned views, 10 views", "center, 1 view", "ten_crop, 10 views"
    ]  # fmt: skip
    assert [one["is_main"] for one in found] == [False, True, False, False]
    assert found[0]["note"] == "+10.0 points against center, p = 0.012"
    assert found[1]["note"] == "-12.0 points against center, p = 0.012"


def test_facts_leave_out_what_does_not_matter() -> None:
    facts = dict(facts_of(trained(plain=PLAIN)))
    assert facts["training images"] == "12,345"
    assert facts["epochs"] == "1,200"
    assert facts["width"] == "0.25"
    assert facts["φ depends on"] == "input"
    none = dict(facts_of(trained({"method.name": "none"})))
    assert "transforms" not in none
    assert "φ depends on" not in none
    assert dict(facts_of(fitted({})))["images of the fit"] == "50"


def test_facts_tell_whose_receptive_fields_are_the_crops() -> None:
    config = {"crop.grid": "receptive", "phi.network": "pyramid"}
    assert dict(facts_of(trained(config)))["crops"] == "receptive fields of pyramid"
    assert "crops" not in dict(facts_of(trained({**config, "method.name": "random"})))


def test_settings_that_differ_are_told_too() -> None:
    sizes = "method.sizes"
    runs = [trained({sizes: [0.5, 1.0], "trainer.threads": 1}), trained({sizes: [0.7, 1.0]})]
    runs.append(trained({sizes: [0.7, 1.0], "crop.grid": [[1.0, 1]]}))  # which not all have
    assert differing_settings(runs) == [sizes]
    assert dict(facts_of(runs[0], also=[sizes, "data.source"]))[sizes] == "0.5, 1"
    assert [name for name, _ in facts_of(runs[0], also=["data.source"])].count("data") == 1


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["runs/a"], ["a"]),
        (["runs/a/", "runs/b"], ["a", "b"]),
        (["x/run", "y/run", "y/other"], ["x/run", "y/run", "other"]),
    ],
)
def test_names_are_short_and_unlike(paths: list[str], names: list[str]) -> None:
    assert short_names(paths) == names
