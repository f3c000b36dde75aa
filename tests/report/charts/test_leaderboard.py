"""Rows are sorted, and show score, interval, p-value and cost."""

from typing import Any

import pytest

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.charts.leaderboard import LeaderboardRow, draw_comparison, draw_leaderboard
from instaaug.report.comparison import compare_scores
from instaaug.report.theme import BLUE
from tests.support.compared import HOSTILE, VIEWED, runs
from tests.support.compared import ROWS as METHODS
from tests.support.drawn import assert_words_are_readable, dots_of, segments_of

ROWS = [
    LeaderboardRow("none", 55.06, 54.5, 55.6, 0.0000123, 0.93),
    LeaderboardRow("learned", 66.03, 65.6, 66.5, 0.004),
    LeaderboardRow("random", 64.09, 64.09, 64.09, None, 1.0),
]


def columns_of(rows: list[LeaderboardRow], **options: Any) -> list[Any]:
    return list(draw_leaderboard(rows, **options).axes)


def names_of(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def places(axes: Any) -> list[tuple[float, float]]:
    return [tuple(dot.get_offsets()[0]) for dot in dots_of(axes)]


@pytest.mark.parametrize(
    ("lower_is_better", "order"),
    [(False, ["learned", "random", "none"]), (True, ["none", "random", "learned"])],
)
def test_rows_are_sorted_with_the_best_on_top(lower_is_better: bool, order: list[str]) -> None:
    figure = draw_leaderboard(ROWS, lower_is_better=lower_is_better)
    axes = figure.axes[0]
    assert names_of(axes) == order
    figure.draw_without_rendering()
    heights = [label.get_window_extent().y0 for label in axes.get_yticklabels()]
    assert heights == sorted(heights, reverse=True)
    scores = {row.name: row.score for row in ROWS}
    assert [x for x, _ in places(axes)] == [scores[name] for name in order]
    assert [y for _, y in places(axes)] == list(axes.get_yticks())


def test_lines_are_the_intervals_and_no_width_is_no_line() -> None:
    axes = columns_of(ROWS)[0]
    assert [(a[0], b[0]) for a, b in segments_of(axes)] == [(65.6, 66.5), (54.5, 55.6)]
    assert axes.get_xlabel() == "accuracy (%), with 95 % interval"
    (alone, *_) = columns_of([LeaderboardRow("a", 1, 1, 1)], measure="rmse")
    assert alone.get_xlabel() == "rmse"


def test_the_best_is_bold_and_blue() -> None:
    labels = columns_of(ROWS)[0].get_yticklabels()
    assert [label.get_fontweight() == "bold" for label in labels] == [True, False, False]
    assert [label.get_color() == BLUE for label in labels] == [True, False, False]


def test_scores_and_p_values_stand_in_their_rows() -> None:
    axes = columns_of(ROWS)[0]
    rows: dict[float, list[str]] = {}
    for text in axes.texts:
        rows.setdefault(text.xy[1], []).append(text.get_text())
    assert [rows[y] for y in axes.get_yticks()] == [
        ["66.0", "p = 0.004"],
        ["64.1"],
        ["55.1", "p < 0.001"],
    ]


def test_costs_have_a_column_if_there_are_any() -> None:
    scores, costs = columns_of(ROWS)
    assert [text.get_text() for text in costs.texts] == ["1×", "0.93×", "cost of a step"]
    assert [end for _, end in segments_of(costs)] == [
        [1.0, scores.get_yticks()[1]],
        [0.93, scores.get_yticks()[2]],
    ]
    assert costs.get_ylim() == scores.get_ylim()
    assert len(columns_of(ROWS[1:2])) == 1


def test_the_baseline_runs_through_all_rows() -> None:
    axes = columns_of(ROWS, baseline="random")[0]
    (line,) = axes.lines
    assert list(line.get_xdata()) == [64.09, 64.09]
    assert "baseline" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([66.03, 5.0], ["66.0", "\N{FIGURE SPACE}5.0"]),
        ([0.0512, 0.04], ["0.0512", "0.0400"]),
        ([0.0], ["0.00"]),
        ([1234567.0, 1.0], ["1.23e+06", "1.00e+00"]),
        ([1e-7], ["1.00e-07"]),
    ],
)
def test_numbers_have_the_same_decimals(scores: list[float], words: list[str]) -> None:
    rows = [LeaderboardRow(str(i), score, score, score) for i, score in enumerate(scores)]
    assert [text.get_text() for text in columns_of(rows)[0].texts] == words


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [LeaderboardRow("one", 0, 0, 0)],
        [LeaderboardRow(f"method {i}", 60 + i / 9, 58, 75, 0.5, 1e5) for i in range(60)],
        [
            LeaderboardRow("x" * 90, 1.2e9, 1e9, 2e9, 0.04, 12345.0),
            LeaderboardRow("words " * 20, 3e8, 1e8, 5e8, 0.2),
        ],
        [LeaderboardRow("tiny", 1e-6, 9e-7, 1.2e-6), LeaderboardRow("a", 2e-6, 2e-6, 2e-6)],
    ],
    ids=["three", "one", "sixty", "long", "tiny"],
)
def test_all_words_can_be_read(rows: list[LeaderboardRow]) -> None:
    assert_words_are_readable(draw_leaderboard(rows, baseline=rows[-1].name))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw_leaderboard([]), "`rows` must be 1 to 60.*got 0 rows"),
        (lambda: draw_leaderboard([ROWS[0]] * 2), "got 2 rows with 1 names"),
        (lambda: LeaderboardRow("a", 3, 4, 5), r"got 3 in \[4, 5\] for 'a'"),
        (lambda: LeaderboardRow("a", float("nan"), 0, 1), "`score` must be finite"),
        (lambda: LeaderboardRow("a", 1, 0, float("inf")), "`score` must be finite"),
        (lambda: LeaderboardRow("a", 1, 1, 1, 1.1), r"`p_value` must lie in \[0, 1\]: got 1.1"),
        (lambda: LeaderboardRow("a", 1, 1, 1, None, 0.0), "`cost` must be a finite ratio above 0"),
    ],
)
def test_bad_arguments_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no row called 'randm'. Did you mean 'random'"):
        draw_leaderboard(ROWS, baseline="randm")


def test_dots_are_means_and_lines_are_standard_errors() -> None:
    found = compare_scores(METHODS)
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
