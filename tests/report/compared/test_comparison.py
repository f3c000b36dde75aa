"""Order, ranks, reference and adjusted p-values of a comparison."""

from typing import Any

import pytest

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.comparison import (
    ComparedMethod,
    MethodComparison,
    MethodScores,
    compare_scores,
    seed_difference,
)
from tests.support.compared import ROWS, runs


def by_name(comparison: MethodComparison) -> dict[str, ComparedMethod]:
    return {method.runs.name: method for method in comparison.methods}


def ranks(comparison: MethodComparison) -> dict[str, int | None]:
    return {method.runs.name: method.rank for method in comparison.methods}


def test_the_best_is_first_and_those_without_a_score_are_last() -> None:
    assert ranks(compare_scores(ROWS)) == {
        "ours": 1,
        "without input": 2,
        "random": 3,
        "mixup": None,
        "none": 4,
        "broken": None,
        "later": None,
    }
    assert list(ranks(compare_scores(ROWS))) == [
        *("ours", "without input", "random", "mixup", "none", "broken", "later")
    ]


def test_errors_are_sorted_the_other_way() -> None:
    found = compare_scores(ROWS, higher_is_better=False)
    assert list(ranks(found)) == [
        *("none", "mixup", "random", "without input", "ours", "broken", "later")
    ]
    assert found.reference == "none"


def test_equals_share_a_rank() -> None:
    rows = [runs("c", 0.3, 0.2, 0.1), runs("b", 0.1, 0.2, 0.3), runs("a", 0, 0, 0)]
    assert ranks(compare_scores(rows)) == {"b": 1, "c": 1, "a": 3}


def test_the_reference_is_the_best_baseline_that_has_finished() -> None:
    ahead = MethodScores("lucky", {0: 0.99, 1: 0.99}, n_expected=3)
    found = compare_scores([*ROWS, ahead])
    assert (found.reference, found.is_selected) == ("random", True)
    assert found.methods[0].runs.name == "lucky"


def test_without_a_finished_baseline_there_is_no_reference() -> None:
    found = compare_scores([ROWS[2], ROWS[4]])
    assert (found.reference, found.is_selected, found.n_tested) == (None, False, 0)
    assert all(method.difference is None for method in found.methods)


@pytest.mark.parametrize("reference", ["none", "ours", "mixup", "later"])
def test_any_method_can_be_named_as_the_reference(reference: str) -> None:
    found = compare_scores(ROWS, reference=reference)
    assert (found.reference, found.is_selected) == (reference, False)
    scores = by_name(found)[reference].runs.scores
    for name, method in by_name(found).items():
        wanted = None if name == reference else seed_difference(method.runs.scores, scores)
        assert method.difference == wanted


def test_all_rows_with_a_p_value_are_adjusted_for_each_other() -> None:
    methods = by_name(compare_scores(ROWS))
    p = {n: m.difference.p_value for n, m in methods.items() if m.difference and m.runs.scores}
    assert sorted(p) == ["mixup", "none", "ours", "without input"]
    smallest = min(p, key=lambda name: p[name] or 0)
    assert methods[smallest].holm == pytest.approx(4 * (p[smallest] or 0))
    untested = ("random", "broken", "later")
    assert [methods[name].holm for name in untested] == [None] * 3


def test_one_seed_has_a_mean_and_no_error() -> None:
    found = compare_scores([runs("a", 0.5, n_expected=1), runs("b", 0.7, n_expected=1)])
    assert [(m.runs.mean, m.runs.error, m.holm) for m in found.methods] == [
        (0.7, None, None),
        (0.5, None, None),
    ]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scores": {0: float("nan")}}, "`scores` must be finite: got nan for 'x' with seed 0"),
        ({"failures": {0: "x"}}, "`failures` must be of seeds without a score: got seed 0"),
        ({"n_expected": 0}, "`n_expected` must count all runs, at least one: got 0"),
        ({"failures": {1: "x"}}, "`n_expected` must count all runs, .* of which 2 have ended"),
        ({"plain": {0: float("inf")}}, "`plain` must be finite: got inf for 'x' with seed 0"),
        ({"n_views": 0}, "`n_views` must be at least 1: got 0 for 'x'"),
        ({"step_cost": 0.0}, "`step_cost` must be a finite ratio above 0: got 0.0"),
        ({"name": "\n\u200b"}, "`name` must have letters that can be seen"),
    ],
)
def test_runs_that_do_not_add_up_are_refused(settings: dict[str, Any], words: str) -> None:
    usual: dict[str, Any] = {"name": "x", "scores": {0: 0.5}, "n_expected": 1}
    with pytest.raises(ArgumentError, match=words):
        MethodScores(**usual | settings)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "`rows` must hold a method"),
        ([runs("a", 0.5), runs("a", 0.5)], "`rows` must have a name each: got 'a' for two"),
        (
            [runs("a b", 0.5), runs("a\nb", 0.5)],
            "`rows` must have a label each: got 'a b' for two",
        ),
        ([runs("a", 0.6, plain=[55.0])], r"shares in \[0, 1\]: got 55.0 for 'a' with seed 0"),
        ([runs("a", 61.5)], r"shares in \[0, 1\]: got 61.5 for 'a' with seed 0. Divide"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(rows: list[MethodScores], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        compare_scores(rows)


def test_an_unknown_reference_is_explained() -> None:
    with pytest.raises(UnknownNameError, match=r"no method called 'randm'. Did you mean 'random'"):
        compare_scores(ROWS, reference="randm")
