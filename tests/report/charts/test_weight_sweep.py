"""The sweep of λ shows every seed, its mean and error, and levels to compare with."""

from typing import Any

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.weight_sweep import WeightPoint, draw_weight_sweep
from tests.support.drawn import assert_words_are_readable, dots_of, segments_of

SEEDS = [
    WeightPoint(1.0, [58.0, 60.0]),
    WeightPoint(0.1, [60.0, 62.0, 64.0]),
    WeightPoint(0.3, [65.0]),
]


def axes_of(points: list[WeightPoint], **levels: Any) -> Any:
    (axes,) = draw_weight_sweep(points, **levels).axes
    return axes


def dots(axes: Any) -> list[list[list[float]]]:
    return [dot.get_offsets().tolist() for dot in dots_of(axes)]


def test_means_are_joined_in_the_order_of_lambda() -> None:
    axes = axes_of(SEEDS)
    assert axes.get_xscale() == "log"
    assert list(axes.lines[0].get_xdata()) == [0.1, 0.3, 1.0]
    assert list(axes.lines[0].get_ydata()) == [62.0, 65.0, 59.0]
    assert axes.texts[0].get_text() == "fixed λ, at best 65.0"


def test_every_seed_is_a_dot_and_bars_are_standard_errors() -> None:
    axes = axes_of(SEEDS)
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
    axes = axes_of(SEEDS, tuned=[65.0, 67.0], none=[52.0])
    assert [t.get_text() for t in axes.texts][1:] == ["tuned λ 66.0", "no augmentation 52.0"]
    tuned, none = (line for line in axes.lines[1:] if list(line.get_xdata()) == [0, 1])
    assert list(tuned.get_ydata()) == [66.0, 66.0]
    assert list(none.get_ydata()) == [52.0, 52.0]
    assert tuned.get_linestyle() != none.get_linestyle()
    (band,) = axes.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((65.0, 67.0))


def test_zero_stands_apart_and_is_not_joined() -> None:
    axes = axes_of([WeightPoint(0, [52.0]), WeightPoint(0.1, [60.0]), WeightPoint(1, [61.0])])
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
def test_all_words_can_be_read(points: list[WeightPoint], levels: Any) -> None:
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
def test_bad_arguments_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
