"""Timing in turns, with a clock that the test turns by hand."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from instaaug.speed import Timing, as_record, compare, problems, timing
from instaaug.speed.timing import summarize

MISSED = Timing("a", "b", 1.1, 1.0, 1.2, 20, 0.11, 0.1, budget=1.0)


class Clock:
    """Stands still unless somebody works."""

    def __init__(self) -> None:
        self.now = 0.0
        self.worked: list[str] = []

    def work(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds
            self.worked.append(name)

        return run

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    return clock


def test_a_contender_that_does_eight_times_the_work_has_ratio_eight(clock: Clock) -> None:
    contenders = {"one": clock.work("one", 0.25), "eight": clock.work("eight", 2.0)}
    (row,) = compare(contenders, reference="one", budgets={"eight": 1.0}, rounds=4)
    assert (row.name, row.reference) == ("eight", "one")
    assert (row.lower_quartile, row.ratio, row.upper_quartile) == (8.0, 8.0, 8.0)
    assert (row.median_seconds, row.reference_seconds, row.rounds) == (2.0, 0.25, 4)
    assert row.verdict == "MISSED"


def test_contenders_take_turns_after_a_warm_up(clock: Clock) -> None:
    compare({"a": clock.work("a", 1.0), "b": clock.work("b", 1.0)}, reference="a", rounds=2)
    assert clock.worked == ["a", "b"] * (timing.WARM_UP + 2)


def test_what_is_quick_is_repeated_within_its_turn(clock: Clock) -> None:
    compare({"a": clock.work("a", 0.01), "b": clock.work("b", 0.5)}, reference="a", rounds=1 + 1)
    turns = "".join(clock.worked[2 * timing.WARM_UP :])
    assert turns == ("a" * 10 + "b" * 10) * 2


def test_what_disturbs_both_leaves_the_ratio_alone(clock: Clock) -> None:
    loads = iter([1.0] * 2 * timing.WARM_UP + [1.0, 1.0, 7.0, 7.0, 3.0, 3.0])

    def disturbed(seconds: float) -> Callable[[], None]:
        def run() -> None:
            clock.now += seconds * next(loads)

        return run

    (row,) = compare({"a": disturbed(1.0), "b": disturbed(2.0)}, reference="a", rounds=3)
    assert row.ratio == row.lower_quartile == row.upper_quartile == 2.0


def test_a_row_without_a_budget_has_no_verdict() -> None:
    assert summarize("a", [1.0, 1.0], "b", [1.0, 2.0]).verdict == "-"
    assert summarize("a", [1.0, 1.0], "b", [1.0, 2.0], budget=0.75).verdict == "met"


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
