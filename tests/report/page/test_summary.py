"""The head of the page says what the files say."""

from pathlib import Path
from typing import Any

import pytest

from instaaug.report.page.runs import (
    differing_settings,
    facts_of,
    headline_of,
    result_rows,
    score_name,
    short_names,
)
from instaaug.report.records import RunRecord
from instaaug.stats import wilson_interval

CONFIG = {
    "data.source": "photos/pets", "method.name": "instaaug", "phi.conditioning": "input",
    "seed": 3, "transforms": "crop", "model.width": 0.25, "trainer.max_epochs": 1200,
}  # fmt: skip
PLAIN = {"top1": 0.5, "n": 40.0}
AUGMENTED = {"top1": 0.75, "n": 40.0, "n_samples": 20}


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


def test_the_headline_is_a_sentence() -> None:
    record = trained(plain=PLAIN, augmented=AUGMENTED)
    words = headline_of(record, result_rows(record))
    assert words == "InstaAug on pets: top-1 accuracy 75.0\u202f% from 20 views."
    assert headline_of(trained(), []) == "InstaAug on pets."


def test_a_regression_has_an_error_and_no_interval() -> None:
    record = trained(
        {"task": "regression", "loss.regression": "absolute"}, plain={"mae": 0.25, "n": 9.0}
    )
    (row,) = result_rows(record)
    assert score_name(record) == "mean absolute error"
    assert (row["value"], row["low"], row["high"]) == (0.25, None, None)
    assert headline_of(record, [row]).endswith("mean absolute error 0.25 from the image.")


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
