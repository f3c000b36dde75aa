"""A file of measurements keeps to the schema, and cannot hide a miss."""

import json
from dataclasses import replace

from instaaug.speed import Row, as_record, problems

MISSED = Row("a", "b", 1.1, 1.0, 1.2, 20, 0.11, 0.1, budget=1.0)


def test_a_record_goes_through_json_and_has_no_problems() -> None:
    record = json.loads(json.dumps(as_record("q", {"t": [MISSED]}, settings={"seed": 0})))
    assert problems(record) == []
    assert record["tables"]["t"][0]["verdict"] == "MISSED"
    assert record["environment"]["threads"] >= 1


def test_a_record_that_hides_a_miss_is_found() -> None:
    record = as_record("q", {"t": [MISSED]})
    record["tables"]["t"][0]["verdict"] = "met"
    assert problems(record) == ["t/a: the verdict disagrees with the numbers"]


def test_too_few_rounds_and_odd_quartiles_are_found() -> None:
    few = replace(MISSED, rounds=5)
    odd = replace(MISSED, lower_quartile=1.15)
    assert problems(as_record("q", {"t": [few, odd]})) == [
        "t/a: 5 rounds, the contract asks 20",
        "t/a: quartiles out of order",
    ]


def test_what_is_missing_is_named() -> None:
    record = as_record("q", {})
    del record["findings"], record["environment"]["commit"]
    assert problems(record) == ["lacks 'findings'", "environment lacks 'commit'"]
