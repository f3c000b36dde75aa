"""The chart shows the numbers of the comparison."""

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.leaderboard import draw_comparison
from instaaug.report.comparison import compare_scores
from tests.support.compared import HOSTILE, ROWS, VIEWED, runs
from tests.support.drawn import assert_words_are_readable, dots_of, segments_of


def test_dots_are_means_and_lines_are_standard_errors() -> None:
    found = compare_scores(ROWS)
    axes = draw_comparison(found).axes[0]
    shown = [method.runs for method in found.methods if method.runs.scores]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["ours", "without input", "random", "mixup (2 of 3 seeds)", "none"]
    middles = [dot.get_offsets()[0][0] for dot in dots_of(axes)]
    assert middles == pytest.approx([100 * (x.mean or 0) for x in shown])
    halves = [(b[0] - a[0]) / 2 for a, b in segments_of(axes)]
    assert halves[: len(shown)] == pytest.approx([100 * (x.error or 0) for x in shown])
    words = [text.get_text() for text in axes.texts]
    assert f"p = {found.methods[0].holm:.2g}" in words
    assert "baseline" in words
    assert axes.get_xlabel().endswith("with standard error; p of the difference, by Holm")


def test_names_tell_of_several_views() -> None:
    part = runs("part", 0.3, n_views=4)
    axes = draw_comparison(compare_scores([*VIEWED, part])).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        *("ours (16 views)", "random (16 views)", "none", "part (4 views, 1 of 3 seeds)")
    ]


def test_errors_are_drawn_the_other_way_and_not_in_percent() -> None:
    rows = [runs("a", 3.1, 3.3, 3.5), runs("b", 2.9, 3.2, 3.3)]
    found = compare_scores(rows, measure="RMSE", is_share=False, higher_is_better=False)
    axes = draw_comparison(found).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"]
    assert axes.get_xlabel().startswith("RMSE, with")


def test_hostile_names_are_drawn_as_they_are() -> None:
    names = [name for name in HOSTILE if "＝" not in name]  # which the font does not have
    figure = draw_comparison(compare_scores([runs(name, 0.5, 0.6, 0.7) for name in names]))
    figure.draw_without_rendering()
    assert_words_are_readable(figure)


def test_nothing_cannot_be_drawn() -> None:
    with pytest.raises(ArgumentError, match="`comparison` must have a score to draw: got none"):
        draw_comparison(compare_scores([runs("a")]))
