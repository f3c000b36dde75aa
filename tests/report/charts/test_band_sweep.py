"""Every band is a bar over its interval, at the height of its accuracy."""

from typing import Any

import pytest
from matplotlib.colors import to_rgba

from instaaug.errors import ArgumentError
from instaaug.report.charts.band_sweep import BandBar, draw_band_sweep
from instaaug.report.theme import BLUE
from tests.support.drawn import assert_words_are_readable, dots_of, segments_of

BARS = [
    BandBar(2.0, 2.5, [64.0, 66.0]),
    BandBar(3.0, 3.5, [66.0, 68.0]),
    BandBar(2.0, 4.0, [65.5]),
]
PAPER = [
    (0.0, 0.5, 52.12), (0.5, 1.0, 61.28), (1.0, 1.5, 62.91), (1.5, 2.0, 64.39), (2.0, 2.5, 65.04),
    (2.5, 3.0, 65.05), (3.0, 3.5, 66.03), (3.5, 4.5, 65.60), (4.0, 4.5, 64.35), (4.5, 5.0, 64.17),
    (0.0, 1.0, 51.78), (1.0, 2.0, 63.96), (2.0, 3.0, 65.25), (3.0, 4.0, 65.78), (4.0, 5.0, 64.23),
]  # fmt: skip


def axes_of(bars: list[BandBar], **references: Any) -> Any:
    (axes,) = draw_band_sweep(bars, **references).axes
    return axes


def bars_of(axes: Any) -> dict[tuple[float, ...], Any]:
    """The lines that are bars, by their ends."""
    return {tuple(line.get_xdata()): line for line in axes.lines if line.get_path_effects()}


def test_bars_reach_from_end_to_end_at_their_mean() -> None:
    bars = bars_of(axes_of(BARS))
    heights = {ends: list(line.get_ydata()) for ends, line in bars.items()}
    assert heights == {(2.0, 2.5): [65, 65], (3.0, 3.5): [67, 67], (2.0, 4.0): [65.5, 65.5]}
    assert all(line.get_solid_capstyle() == "butt" for line in bars.values())


def test_the_best_is_thick_blue_and_labeled() -> None:
    axes = axes_of(BARS)
    bars = bars_of(axes)
    best = bars.pop((3.0, 3.5))
    assert best.get_color() == BLUE
    assert all(best.get_linewidth() > other.get_linewidth() for other in bars.values())
    assert all(other.get_color() != BLUE for other in bars.values())
    assert [text.get_text() for text in axes.texts] == ["3 to 3.5 nats: 67.0"]


def test_wide_bands_are_lighter_than_narrow_ones() -> None:
    bars = bars_of(axes_of(BARS))
    narrow, wide = (sum(to_rgba(bars[k].get_color())[:3]) for k in ((2.0, 2.5), (2.0, 4.0)))
    assert narrow < wide


def test_whiskers_are_standard_errors_in_the_middle() -> None:
    axes = axes_of(BARS)
    assert sorted(segments_of(axes)) == [
        [[2.25, 64.0], [2.25, 66.0]],
        [[3.25, 66.0], [3.25, 68.0]],
    ]


def test_a_band_without_width_is_a_diamond() -> None:
    axes = axes_of([BandBar(3.0, 3.0, [60.0])])
    (dot,) = dots_of(axes)
    assert dot.get_offsets().tolist() == [[3.0, 60.0]]
    assert not bars_of(axes)
    assert axes.texts[0].get_text() == "3 nats: 60.0"


def test_references_are_levels_with_names_and_different_dashes() -> None:
    axes = axes_of(BARS, references={"random crops": [64.0, 65.0], "none": [55.0]})
    assert [text.get_text() for text in axes.texts][1:] == ["random crops 64.5", "none 55.0"]
    levels = [line for line in axes.lines if list(line.get_xdata()) == [0, 1]]
    assert [line.get_ydata()[0] for line in levels] == [64.5, 55.0]
    assert levels[0].get_linestyle() != levels[1].get_linestyle()


@pytest.mark.parametrize(
    "bars",
    [
        BARS,
        [BandBar(a, b, [score]) for a, b, score in PAPER],
        [BandBar(-3.7, -3.7, [0.0])],
        [BandBar(0.0, 1e6, [99.9, 100.0])],
        [BandBar(i / 10, i / 10 + 0.5, [60.0 + i / 100]) for i in range(40)],
    ],
    ids=["three", "paper", "point", "wide", "forty"],
)
def test_all_words_can_be_read(bars: list[BandBar]) -> None:
    references = {"random crops": [64.09], "no augmentation, with quite a long name": [64.0]}
    assert_words_are_readable(draw_band_sweep(bars, references=references))


def test_the_order_of_the_bars_does_not_matter() -> None:
    assert bars_of(axes_of(BARS)).keys() == bars_of(axes_of(BARS[::-1])).keys()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw_band_sweep([]), "`bars` must hold each band once, and at least one"),
        (lambda: draw_band_sweep([BARS[0], BARS[0]]), "Give the seeds of a band as one bar"),
        (lambda: BandBar(2.0, 1.0, [50.0]), "low ≤ high: got 2.0 and 1.0 nats"),
        (lambda: BandBar(0.0, float("inf"), [50.0]), "must be finite"),
        (lambda: BandBar(0.0, 1.0, [0.5, 150.0]), "`scores` must hold"),
        (lambda: draw_band_sweep(BARS, references={"a": []}), "`references` must hold"),
    ],
)
def test_bad_arguments_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
