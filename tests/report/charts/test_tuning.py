"""Every trial is a bar over its band, and a point in the order of trials."""

from typing import Any

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.tuning import TunedTrial, draw_tuning
from instaaug.report.theme import BLUE, RED
from tests.support.drawn import assert_words_are_readable, dots_of, segments_of


def trial(number: int, low: float, high: float, score: float | None, **rest: Any) -> TunedTrial:
    state = rest.pop("state", "complete")
    return TunedTrial(number, {"crop": (low, high)}, state, score, **rest)


TRIALS = [
    trial(0, 0.06, 0.10, 64.0, error=1.5),
    trial(1, 0.03, 0.05, 60.0, state="pruned"),
    trial(2, 0.08, 0.16, 67.0, error=1.4),
    trial(3, 0.04, 0.06, None, state="failed"),
    trial(4, 0.10, 0.12, 66.0, error=1.4),
    trial(5, 0.02, 0.03, 11.0, state="pruned"),
]


def bars_of(axes: Any) -> dict[tuple[float, ...], Any]:
    return {tuple(line.get_xdata()): line for line in axes.lines}


def points_of(axes: Any) -> dict[float, Any]:
    """The marker of each trial, by its number."""
    return {float(dots.get_offsets()[0][0]): dots for dots in dots_of(axes)}


def test_bars_lie_over_their_bands_on_a_log_scale_at_their_scores() -> None:
    bands, _ = draw_tuning(TRIALS).axes
    heights = {ends: line.get_ydata()[0] for ends, line in bars_of(bands).items()}
    assert heights == {(0.06, 0.10): 64, (0.03, 0.05): 60, (0.08, 0.16): 67, (0.10, 0.12): 66}
    assert bands.get_xscale() == "log"
    assert "crop" in bands.get_xlabel()


def test_best_default_and_cut_short_differ_in_more_than_color() -> None:
    bars = bars_of(draw_tuning(TRIALS).axes[0])
    best, default, other, cut = (
        bars[key] for key in ((0.08, 0.16), (0.06, 0.10), (0.10, 0.12), (0.03, 0.05))
    )
    assert (best.get_color(), default.get_color()) == (BLUE, RED)
    widths = [line.get_linewidth() for line in (best, default, other, cut)]
    assert widths == sorted(set(widths), reverse=True)
    assert cut.get_linestyle() != other.get_linestyle() == "-"


def test_names_stand_at_best_and_default_with_their_bands() -> None:
    bands = draw_tuning(TRIALS).axes[0]
    assert [text.get_text() for text in bands.texts] == [
        "best: 0.08 to 0.16",
        "as it was: 0.06 to 0.1",
    ]
    alone = draw_tuning(TRIALS[:2]).axes[0]
    assert [text.get_text() for text in alone.texts] == ["as it was, and best: 0.06 to 0.1"]


def test_a_trial_without_a_range_is_in_the_course_alone() -> None:
    bands, progress = draw_tuning([*TRIALS, TunedTrial(6, {}, "complete", 70.0, 1.0)]).axes
    assert [text.get_text() for text in bands.texts] == ["as it was: 0.06 to 0.1"]
    assert 6.0 in points_of(progress)


def test_the_line_is_the_best_complete_score_so_far() -> None:
    progress: Any = draw_tuning(TRIALS).axes[1]
    (line,) = progress.lines
    assert line.get_xydata().tolist() == [[0.0, 64.0], [2.0, 67.0], [5.7, 67.0]]
    assert line.get_drawstyle() == "steps-post"


def test_points_say_how_a_trial_ended() -> None:
    progress = draw_tuning(TRIALS).axes[1]
    bottom = progress.get_ylim()[0]
    points = points_of(progress)
    heights = {number: dots.get_offsets()[0][1] for number, dots in points.items()}
    assert heights == {0: 64, 1: 60, 2: 67, 3: bottom, 4: 66, 5: bottom}
    hollow = [number for number in (0, 1, 2, 4, 5) if points[number].get_facecolor()[0].min() == 1]
    assert hollow == [1, 5]
    words = progress.get_title()
    assert words == "line: best so far, hollow: cut short, ▽: lower still, ×: failed"
    assert draw_tuning(TRIALS[:1]).axes[1].get_title() == "line: best so far"


def test_whiskers_are_standard_errors_of_complete_trials() -> None:
    progress = draw_tuning(TRIALS).axes[1]
    assert sorted(segments_of(progress)) == [
        [[0, 62.5], [0, 65.5]],
        [[2, pytest.approx(65.6)], [2, pytest.approx(68.4)]],
        [[4, pytest.approx(64.6)], [4, pytest.approx(67.4)]],
    ]


def test_of_equals_the_first_is_best() -> None:
    twins = [trial(0, 0.06, 0.10, 64.0), trial(1, 0.1, 0.2, 64.0)]
    assert draw_tuning(twins).axes[0].texts[0].get_text().startswith("as it was, and best")


def test_no_number_stands_above_the_largest_score() -> None:
    for largest, score in ((100.0, 100.0), (1.0, 1.0)):
        bands = draw_tuning([trial(0, 0.1, 0.2, score)], largest=largest).axes[0]
        assert len(bands.get_yticks()) > 1
        assert max(bands.get_yticks()) <= largest


def two_factors(number: int, score: float) -> TunedTrial:
    bands = {"crop": (0.06 + 0.01 * number, 0.2), "hsv_jitter": (0.004, 0.3)}
    return TunedTrial(number, bands, "complete", score, 1.0)


@pytest.mark.parametrize(
    "trials",
    [
        TRIALS,
        [trial(0, 0.5, 0.5, 90.0), trial(1, 0.9, 1.0, 93.0, error=1.0)],
        [trial(0, 0.02, 0.03, None, state="failed"), trial(1, 0.9, 1.0, 0.0)],
        [two_factors(0, 50.0), two_factors(1, 60.0)],
        [trial(i, 0.02 + i / 1000, 0.05 + i / 900, 60 + i % 7, error=1.0) for i in range(50)],
        [trial(0, 1e-6, 2e-6, -3.0, error=0.5), trial(1, 0.1, 1.0, 1.0, error=0.01)],
    ],
    ids=["all kinds", "point", "failed default", "two factors", "fifty", "tiny"],
)
def test_all_words_can_be_read(trials: list[TunedTrial]) -> None:
    assert_words_are_readable(draw_tuning(trials))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw_tuning([]), "`trials` must hold a complete one"),
        (lambda: draw_tuning([TRIALS[1]]), "got 0 complete of 1"),
        (lambda: draw_tuning([TRIALS[0], two_factors(1, 5.0)]), "all with the same factors"),
        (lambda: trial(0, 0.2, 0.1, 5.0), "0 < low ≤ high ≤ 1"),
        (lambda: trial(0, 0.1, 1.1, 5.0), "0 < low ≤ high ≤ 1"),
        (lambda: trial(0, 0.1, 0.2, None), "absent for a failed trial: got None and 0.0 for one"),
        (lambda: trial(0, 0.1, 0.2, 5.0, state="failed"), "for one that is failed"),
        (lambda: trial(0, 0.1, 0.2, float("nan")), "`score` must be finite"),
    ],
)
def test_bad_arguments_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
