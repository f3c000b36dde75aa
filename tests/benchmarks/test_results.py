"""Every published benchmark keeps to the schema."""

import json
from pathlib import Path

import pytest

from benchmarks.record import RESULTS, problems
from benchmarks.run import PRINTING, TIMED

FILES = sorted(RESULTS.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_published_results_keep_to_the_schema(path: Path) -> None:
    assert problems(json.loads(path.read_text())) == []


def test_every_question_has_a_result() -> None:
    assert {path.stem for path in FILES} == {*TIMED, *PRINTING}


def test_the_published_rotations_keep_their_promise() -> None:
    runs = json.loads((RESULTS / "rotation.json").read_text())["findings"]["runs"]
    for source in ("sprites", "mario-iggy"):
        own = [r for r in runs if r["source"] == source and r["method"] == "instaaug"]
        overlaps = [r["iou"] for r in own]
        assert len(own) == 5
        assert sum(overlaps) / 5 >= 0.90
        assert min(overlaps) >= 0.85
        assert min(r["accuracy"] for r in own) >= 0.99
        assert max(r["cpu_seconds"] for r in own) <= 120


def test_the_published_variances_fall_below_those_without_a_baseline() -> None:
    variances = json.loads((RESULTS / "variance.json").read_text())["findings"]["variances"]
    assert max(v for name, v in variances.items() if name != "none") < variances["none"]


def test_all_budgets_were_met_twice_in_a_row() -> None:
    tables = json.loads((RESULTS / "budgets.json").read_text())["tables"]
    for run in ("first run", "second run"):
        rows = [r for title, rows in tables.items() if title.endswith(run) for r in rows]
        budgeted = [row for row in rows if row["budget"] is not None]
        assert len(budgeted) == 13
        assert [row["name"] for row in budgeted if row["verdict"] != "met"] == []


def test_over_all_sizes_no_cost_grows_faster_than_what_is_asked() -> None:
    """Single steps do, where tensors leave the caches; their verdicts say so."""
    findings = json.loads((RESULTS / "scaling.json").read_text())["findings"]
    assert max(f["slope"] for f in findings.values()) <= 1.1
    for found in findings.values():
        missed = max(found["slope"], found["slope of the last step"]) > 1.1
        assert missed == (found["verdict"] == "MORE THAN LINEAR")
