"""Every published benchmark keeps to the schema."""

import json
from pathlib import Path

import pytest

from benchmarks.record import RESULTS, compare, problems
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
        own = [r for r in runs if r["source"] == source and r["conditioning"] == "input"]
        overlaps = [r["iou"] for r in own]
        assert len(own) == 5
        assert sum(overlaps) / 5 >= 0.90
        assert min(overlaps) >= 0.85
        assert min(r["accuracy"] for r in own) >= 0.99
        assert max(r["cpu_seconds"] for r in own) <= 120


def test_the_published_variances_fall_below_those_without_a_baseline() -> None:
    variances = json.loads((RESULTS / "variance.json").read_text())["findings"]["variances"]
    assert max(v for name, v in variances.items() if name != "none") < variances["none"]


def test_a_record_that_hides_a_miss_is_found() -> None:
    row = {"name": "a", "rounds": 20, "lower_quartile": 1.0, "ratio": 1.1, "upper_quartile": 1.2}
    record = {
        "question": "q",
        "settings": {},
        "environment": {"commit": "c", "python": "3", "torch": "2", "threads": 1},
        "findings": {},
        "tables": {"t": [{**row, "budget": 1.0, "verdict": "met"}]},
    }
    assert problems(record) == ["t/a: the verdict disagrees with the numbers"]


def test_a_contender_that_does_twice_the_work_takes_longer() -> None:
    def work(n: int) -> int:
        return sum(range(n))

    contenders = {"one": lambda: work(20_000), "eight": lambda: work(160_000)}
    (row,) = compare(contenders, reference="one", budgets={"eight": 1.0}, rounds=4)
    assert row.ratio > 3  # eight times the work; the margin is for noisy machines
    assert row.verdict == "MISSED"
