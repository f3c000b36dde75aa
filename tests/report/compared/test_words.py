"""Remarks and notes say what the numbers do not."""

import pytest

from instaaug.report.comparison import (
    MethodComparison,
    MethodScores,
    compare_scores,
    one_line,
    shorten_words,
)
from instaaug.report.tables import labeled_remarks, method_remark, table_notes
from tests.support.compared import HOSTILE, ROWS, VIEWED, runs


def remark(method: MethodScores, *others: MethodScores, reference: str | None = None) -> str:
    found = compare_scores([method, *others], reference=reference)
    return next(method_remark(m, found) for m in found.methods if m.runs is method)


def with_failures(failures: dict[int, str], n_expected: int = 4) -> MethodScores:
    return MethodScores("x", {}, n_expected=n_expected, failures=failures)


@pytest.mark.parametrize(
    ("failures", "words"),
    [
        ({}, ""),
        ({3: "Out of\n memory."}, "seed 3 failed: Out of memory"),
        ({3: " "}, "seed 3 failed"),
        ({2: "A.", 0: "A.", 1: "A"}, "seeds 0, 1 and 2 failed: A"),
        ({0: "A", 1: "B", 3: "A"}, "seeds 0 and 3 failed: A; seed 1 failed: B"),
        (dict.fromkeys(range(4), "A"), "every seed failed: A"),
    ],
)
def test_failures_are_told_once_per_reason(failures: dict[int, str], words: str) -> None:
    assert remark(with_failures(failures)) == words


def test_a_test_that_was_not_made_is_explained() -> None:
    base = runs("base", 0.5, 0.6, 0.8)
    assert remark(runs("x", 0.51, 0.61, 0.81), base, reference="base") == (
        "the same difference with every seed, so no p-value"
    )
    elsewhere = MethodScores("x", {7: 0.5}, n_expected=1)
    assert remark(elsewhere, base, reference="base") == "no seed in common with the reference"
    partly = MethodScores("x", {1: 0.5, 2: 0.9, 3: 0.4}, n_expected=3)
    assert remark(partly, base, reference="base") == "compared over 2 seeds"
    assert remark(runs("x", 0.55, 0.61, 0.81), base, reference="base") == ""
    fewer = runs("x", 0.55, 0.61)
    assert remark(fewer, base, reference="base") == "compared over 2 seeds"
    assert remark(base, fewer, reference="x") == "compared over 2 seeds"
    assert remark(runs("x", 0.51, 0.61), base, reference="base") == (
        "compared over 2 seeds; the same difference with every seed, so no p-value"
    )
    assert remark(runs("x", 0.51), base, reference="base") == "compared over 1 seed"


def test_remarks_have_labels_and_may_tell_of_missing_seeds() -> None:
    found = compare_scores(ROWS)
    failed = [
        "mixup: seed 1 failed: The loss is NaN; compared over 2 seeds",
        "broken: every seed failed: No memory",
    ]
    assert labeled_remarks(found, most=80) == failed
    assert labeled_remarks(found, most=80, with_progress=True) == [
        "mixup: 2 of 3 seeds; seed 1 failed: The loss is NaN; compared over 2 seeds",
        failed[1],
    ]
    assert labeled_remarks(found, most=15)[0] == "mixup: seed 1…"


def notes(comparison: MethodComparison) -> str:
    return " ".join(table_notes(comparison))


def test_notes_warn_of_a_reference_that_was_chosen_by_the_scores() -> None:
    chosen, named = compare_scores(ROWS), compare_scores(ROWS, reference="random")
    assert (
        "The reference, random, has the best mean among baselines with all seeds. Chosen by"
    ) in notes(chosen)
    assert "too large for a method that beats it, and too small for one that" in notes(chosen)
    assert "The reference, random, was named and not chosen by its score." in notes(named)
    assert "luck" not in notes(named)
    assert "no baseline has finished" in notes(compare_scores([ROWS[2], ROWS[4]]))


@pytest.mark.parametrize(("n", "words"), [(1, "1 run had ended"), (5, "5 runs had ended")])
def test_a_reference_that_was_named_late_is_told(n: int, words: str) -> None:
    late = notes(compare_scores(ROWS, reference="random", named_after=n))
    assert f"The reference, random, was named after {words}:" in late
    assert "not chosen by its score" not in late
    assert "named after" not in notes(compare_scores(ROWS, reference="random", named_after=0))
    assert "named after" not in notes(compare_scores(ROWS, named_after=n))


def test_variants_of_ours_alone_want_a_reference() -> None:
    words = "all methods are variants of InstaAug; name a --reference."
    assert words in notes(compare_scores([ROWS[2], ROWS[3]]))
    assert words not in notes(compare_scores([ROWS[2], ROWS[3]], reference="ours"))
    assert words not in notes(compare_scores([ROWS[2], ROWS[4]]))


def test_views_are_explained_where_there_are_several() -> None:
    found = compare_scores(VIEWED)
    assert "1 is the image as it is" in notes(found)
    assert "One view is" in notes(found)
    brief = " ".join(table_notes(found, with_one_view=False))
    assert "1 is the image as it is" in brief
    assert "One view is" not in brief
    assert "view" not in notes(compare_scores(ROWS))


def test_what_p_is_about_is_told_where_there_is_one() -> None:
    words = "P is about other seeds on these images"
    assert words in notes(compare_scores(ROWS))
    assert words not in notes(compare_scores([runs("a", 0.5), runs("b", 0.6)]))


def test_notes_tell_of_what_is_there_alone() -> None:
    everything = notes(compare_scores(ROWS))
    assert "in percent, the mean ± standard error over 3 seeds (higher is better)" in everything
    assert "Holm's p allows for all 4 tests. With 3 seeds, a large p is no evidence" in everything
    assert "time of a training step" in everything
    assert "Only methods that have finished all their seeds have a rank." in everything
    rows = [runs("a", 1.5, n_expected=1), runs("b", 2.5, n_expected=1)]
    single = compare_scores(rows, measure="RMSE", is_share=False, higher_is_better=False)
    assert table_notes(single) == [
        "RMSE is with one seed (lower is better).",
        "The reference, a, has the best mean among baselines with all seeds.",
    ]


def test_many_seeds_need_no_warning() -> None:
    rows = [runs(name, *(0.5 + 0.01 * (i * k % 7) for i in range(6)), n_expected=6)
            for k, name in enumerate("abc", 1)]  # fmt: skip
    assert "no evidence" not in notes(compare_scores(rows))


@pytest.mark.parametrize("words", HOSTILE)
def test_words_become_one_line_that_can_be_seen(words: str) -> None:
    line = one_line(words)
    assert line.isprintable()
    assert line == line.strip()
    assert one_line(line) == line


@pytest.mark.parametrize("most", [3, 8, 13, 40])
def test_shortened_words_are_no_longer_than_wanted(most: int) -> None:
    for words in ("a loss of NaN, at step 3", "unbreakableunbreakableunbreakableunbreakable"):
        short = shorten_words(words, most)
        assert len(short) <= most
        assert (short == words) == (len(words) <= most)
        assert words.startswith(short.removesuffix("…"))
