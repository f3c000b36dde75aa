"""Runs that belong together are put together; bars and points stand where they should."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_rgba

from instaaug.errors import ArgumentError
from instaaug.report.records import RunRecord
from instaaug.report.theme import BLUE
from paper.sweeps import (
    BandBar,
    WeightPoint,
    band_sweep_bars,
    check_percents,
    describe_seeds,
    draw_band_sweep,
    draw_sweeps,
    draw_weight_sweep,
    percent_scores,
    reference_scores,
    tuned_scores,
    weight_sweep_points,
    width_beside,
)
from tests.support.drawn import assert_words_are_readable, dots_of, segments_of
from tests.support.run_folders import SETTINGS, full_settings

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

SEEDS = [
    WeightPoint(1.0, [58.0, 60.0]),
    WeightPoint(0.1, [60.0, 62.0, 64.0]),
    WeightPoint(0.3, [65.0]),
]


def band_axes(bars: list[BandBar], **references: Any) -> Any:
    (axes,) = draw_band_sweep(bars, **references).axes
    return axes


def bars_of(axes: Any) -> dict[tuple[float, ...], Any]:
    """The lines that are bars, by their ends."""
    return {tuple(line.get_xdata()): line for line in axes.lines if line.get_path_effects()}


def test_bars_reach_from_end_to_end_at_their_mean() -> None:
    bars = bars_of(band_axes(BARS))
    heights = {ends: list(line.get_ydata()) for ends, line in bars.items()}
    assert heights == {(2.0, 2.5): [65, 65], (3.0, 3.5): [67, 67], (2.0, 4.0): [65.5, 65.5]}
    assert all(line.get_solid_capstyle() == "butt" for line in bars.values())


def test_the_best_is_thick_blue_and_labeled() -> None:
    axes = band_axes(BARS)
    bars = bars_of(axes)
    best = bars.pop((3.0, 3.5))
    assert best.get_color() == BLUE
    assert all(best.get_linewidth() > other.get_linewidth() for other in bars.values())
    assert all(other.get_color() != BLUE for other in bars.values())
    assert [text.get_text() for text in axes.texts] == ["3 to 3.5 nats: 67.0"]


def test_wide_bands_are_lighter_than_narrow_ones() -> None:
    bars = bars_of(band_axes(BARS))
    narrow, wide = (sum(to_rgba(bars[k].get_color())[:3]) for k in ((2.0, 2.5), (2.0, 4.0)))
    assert narrow < wide


def test_whiskers_are_standard_errors_in_the_middle() -> None:
    axes = band_axes(BARS)
    assert sorted(segments_of(axes)) == [
        [[2.25, 64.0], [2.25, 66.0]],
        [[3.25, 66.0], [3.25, 68.0]],
    ]


def test_a_band_without_width_is_a_diamond() -> None:
    axes = band_axes([BandBar(3.0, 3.0, [60.0])])
    (dot,) = dots_of(axes)
    assert dot.get_offsets().tolist() == [[3.0, 60.0]]
    assert not bars_of(axes)
    assert axes.texts[0].get_text() == "3 nats: 60.0"


def test_references_are_levels_with_names_and_different_dashes() -> None:
    axes = band_axes(BARS, references={"random crops": [64.0, 65.0], "none": [55.0]})
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
    assert bars_of(band_axes(BARS)).keys() == bars_of(band_axes(BARS[::-1])).keys()


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


def weight_axes(points: list[WeightPoint], **levels: Any) -> Any:
    (axes,) = draw_weight_sweep(points, **levels).axes
    return axes


def dots(axes: Any) -> list[list[list[float]]]:
    return [dot.get_offsets().tolist() for dot in dots_of(axes)]


def test_means_are_joined_in_the_order_of_lambda() -> None:
    axes = weight_axes(SEEDS)
    assert axes.get_xscale() == "log"
    assert list(axes.lines[0].get_xdata()) == [0.1, 0.3, 1.0]
    assert list(axes.lines[0].get_ydata()) == [62.0, 65.0, 59.0]
    assert axes.texts[0].get_text() == "fixed λ, at best 65.0"


def test_every_seed_is_a_dot_and_bars_are_standard_errors() -> None:
    axes = weight_axes(SEEDS)
    assert dots(axes) == [
        [[0.1, 60.0], [0.1, 62.0], [0.1, 64.0]],
        [[1.0, 58.0], [1.0, 60.0]],
        [[0.1, 62.0], [0.3, 65.0], [1.0, 59.0]],
    ]
    bars = [[y for _, y in ends] for ends in segments_of(axes)]
    assert bars[0] == pytest.approx([62 - 2 / 3**0.5, 62 + 2 / 3**0.5])
    assert bars[1] == pytest.approx([58.0, 60.0])
    assert "1 to 3 seeds" in axes.get_ylabel()


def test_levels_have_a_line_a_band_and_a_name() -> None:
    axes = weight_axes(SEEDS, tuned=[65.0, 67.0], none=[52.0])
    assert [t.get_text() for t in axes.texts][1:] == ["tuned λ 66.0", "no augmentation 52.0"]
    tuned, none = (line for line in axes.lines[1:] if list(line.get_xdata()) == [0, 1])
    assert list(tuned.get_ydata()) == [66.0, 66.0]
    assert list(none.get_ydata()) == [52.0, 52.0]
    assert tuned.get_linestyle() != none.get_linestyle()
    (band,) = axes.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((65.0, 67.0))


def test_zero_stands_apart_and_is_not_joined() -> None:
    axes = weight_axes([WeightPoint(0, [52.0]), WeightPoint(0.1, [60.0]), WeightPoint(1, [61.0])])
    assert list(axes.lines[-1].get_xdata()) == [0.1, 1.0]
    ((place, _), *_) = dots(axes)[-1]
    assert 0 < place < 0.1
    labels = dict(
        zip(axes.get_xticks(), [t.get_text() for t in axes.get_xticklabels()], strict=True)
    )
    assert labels[place] == "0"
    assert labels[0.1] == "0.1"
    cut = axes.lines[0].get_xdata()[0]
    assert place < cut < 0.1


CROWD = [WeightPoint(10.0**k, [60.0 + k]) for k in range(-6, 5)]


@pytest.mark.parametrize(
    ("points", "levels"),
    [
        (SEEDS, {"tuned": [66.0], "none": [65.9]}),
        ([WeightPoint(0.37, [60.0])], {}),
        ([WeightPoint(0, [60.0])], {"tuned": [60.0]}),
        (CROWD, {"tuned": [60.1, 60.2], "none": [60.0]}),
        ([WeightPoint(w, [100.0]) for w in (1e-12, 1e12)], {"none": [0.0]}),
    ],
    ids=["seeds", "one", "zero", "crowd", "extremes"],
)
def test_all_words_can_be_read_weight_sweep(points: list[WeightPoint], levels: Any) -> None:
    assert_words_are_readable(draw_weight_sweep(points, **levels))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw_weight_sweep([]), "`points` must hold each λ once, and at least one"),
        (lambda: draw_weight_sweep([SEEDS[0], SEEDS[0]]), "Give the seeds of a λ as one point"),
        (lambda: WeightPoint(-0.1, [50.0]), "`weight` must be finite and 0 or more: got -0.1"),
        (lambda: WeightPoint(float("nan"), [50.0]), "`weight` must be finite"),
        (lambda: WeightPoint(0.1, []), "`scores` must hold a score"),
        (lambda: draw_weight_sweep(SEEDS, tuned=[]), "`tuned` must hold a score"),
        (lambda: draw_weight_sweep(SEEDS, none=[101.0]), "`none` must hold a score"),
    ],
)
def test_bad_arguments_are_refused_weight_sweep(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def record(top1: float | None, *, bands: Any = None, **settings: Any) -> RunRecord:
    """A run that reaches this accuracy on 1000 images; None for one that has not finished."""
    results = {} if top1 is None else {"test": {"plain": {"top1": top1, "n": 1000}}}
    name = "-".join(map(str, settings.values())) or "run"
    return RunRecord(
        Path(name), "train", SETTINGS | full_settings(**settings), results, bands=bands or {}
    )


def augmented(run: RunRecord, top1: float) -> RunRecord:
    run.results["test"]["augmented"] = {"top1": top1, "n": 1000, "n_samples": 20}
    return run


REGRESSION = RunRecord(
    Path("regression"),
    "train",
    SETTINGS | full_settings(rule="fixed"),
    {"test": {"plain": {"rmse": 1.5, "mae": 1.0, "n": 10}}},
)


def test_fixed_weights_become_points_with_all_their_seeds() -> None:
    runs = [
        record(0.60, rule="fixed", weight=0.5, seed=0),
        record(0.62, rule="fixed", weight=0.5, seed=1, threads=4),
        record(0.55, rule="fixed", weight=0, seed=0),
        record(None, rule="fixed", weight=2.0, seed=0),
        record(0.66, rule="pi", weight=0.7),
        record(0.50, method="none", rule="fixed", weight=0.9),
    ]
    points = weight_sweep_points(runs)
    assert [p.weight for p in points] == [0.0, 0.5]
    assert [p.scores for p in points] == [pytest.approx((55.0,)), pytest.approx((60.0, 62.0))]


def test_bands_become_bars_with_all_their_seeds() -> None:
    runs = [
        record(0.65, entropy=[3, 3.5], seed=0),
        record(0.67, entropy=[3.0, 3.5], seed=1),
        record(0.64, diversity=[0.1, 0.2], bands={"crop": (1.5, 2.5)}),
        record(0.63, entropy={"crop": [2.0, 2.5]}),
        record(None, entropy=[4.0, 4.5]),
        record(0.61),  # whose band is not known
        record(0.60, entropy=[1.0, 2.0], rule="fixed"),
        record(0.58, method="random", entropy=[1.0, 2.0]),
    ]
    bars = band_sweep_bars(runs)
    assert [(b.low, b.high, list(b.scores)) for b in bars] == [
        (1.5, 2.5, [64.0]),
        (2.0, 2.5, [63.0]),
        (3.0, 3.5, [65.0, 67.0]),
    ]


def test_several_factors_have_no_one_band() -> None:
    both = {"crop": (3.0, 3.5), "rotation": (1.0, 2.0)}
    assert band_sweep_bars([record(0.6, bands=both, entropy=[1.0, 2.0])]) == []


@pytest.mark.parametrize("part", ["plain", "augmented", None])
def test_scores_are_those_of_the_part(part: Any) -> None:
    runs = [augmented(record(0.6, rule="fixed", entropy=[1.0, 2.0]), 0.7)]
    (expected,) = percent_scores(runs, part=part)
    assert expected == pytest.approx(60.0 if part == "plain" else 70.0)
    (point,) = weight_sweep_points(runs, part=part)
    assert list(point.scores) == [expected]


def test_no_run_gives_nothing() -> None:
    assert weight_sweep_points([record(None)]) == []
    assert band_sweep_bars([]) == []
    assert percent_scores([record(None)]) == []


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: weight_sweep_points(
                [record(0.6, rule="fixed"), record(0.6, rule="fixed", epochs=9, loss="a")]
            ),
            "in entropy.weight and seed alone: 'fixed' and 'fixed-9-a' differ in loss.regression, "
            "trainer.max_epochs too",
        ),
        (
            lambda: band_sweep_bars(
                [record(0.6, entropy=[1, 2]), record(0.6, entropy=[2, 3], data="other")]
            ),
            "in entropy.band and entropy.diversity and seed alone.*differ in data.source too",
        ),
        (lambda: weight_sweep_points([REGRESSION]), "'regression' has rmse. Leave regressions"),
        (
            lambda: weight_sweep_points([record(0.6, rule="fixed", weight="much")]),
            "must have a number as their entropy.weight: got 'much'",
        ),
        (
            lambda: band_sweep_bars([record(0.6, entropy=["a", "b"])]),
            "entropy.band: got 'a'",
        ),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_the_sweeps_that_runs_belong_to_are_drawn() -> None:
    fixed = [record(0.5 + w, rule="fixed", weight=w) for w in (0.1, 0.2)]
    tuned, none = record(0.8), record(0.3, method="none", weight=9.0)
    assert list(draw_sweeps([*fixed, tuned, none])) == ["weight_sweep"]
    bands = [record(0.7, entropy=[2, 3]), record(0.6, entropy=[3, 4])]
    assert list(draw_sweeps(bands)) == ["band_sweep"]
    assert draw_sweeps([tuned]) == {}


def test_unlike_runs_are_no_repetitions() -> None:
    sweep = [record(0.5 + w, rule="fixed", weight=w) for w in (0.1, 0.2)]
    assert tuned_scores([*sweep, record(0.8)]) == [pytest.approx(80.0)]
    assert tuned_scores([*sweep, record(0.9, epochs=500)]) == []
    none = [
        record(0.3, method="none", weight=9.0, epochs=e)
        for e in (SETTINGS["trainer.max_epochs"], 500)
    ]
    assert reference_scores([*sweep, *none], "none") == [pytest.approx(30.0)]
    random = [record(s, method="random", strength=s) for s in (0.1, 0.9)]
    assert reference_scores([*sweep, *random], "random") == []


def test_seeds_are_counted_in_words() -> None:
    assert describe_seeds([1]) == ""
    assert describe_seeds([2, 5, 3]).endswith("2 to 5 seeds")


def test_long_names_make_a_figure_wider() -> None:
    assert width_beside(["short"], width=6.0) == 6.0
    assert width_beside([], width=6.0) == 6.0
    assert width_beside(["a" * 44], width=6.0) == pytest.approx(6.0 + 20 * 0.062)


@pytest.mark.parametrize("scores", [[], [float("nan")], [-1.0], [100.1]])
def test_scores_that_are_no_percentages_are_refused(scores: list[float]) -> None:
    with pytest.raises(ArgumentError, match=r"`tuned` must hold .* Multiply shares by 100"):
        check_percents("tuned", scores)
