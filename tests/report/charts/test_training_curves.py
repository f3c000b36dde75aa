"""The curves of a run show what its table holds, and nothing where it holds nothing."""

from itertools import pairwise
from math import nan
from typing import Any

import numpy as np
import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.training_curves import draw_training_curves
from tests.support.drawn import assert_words_are_readable

FACTORS = ("crop", "rotation", "hsv_jitter", "a_factor_with_a_long_name")


def rows(n: int = 4, factors: tuple[str, ...] = ("crop",)) -> list[dict[str, float]]:
    return [
        {
            "epoch": i,
            "step": 57 * (i + 1),
            "train/loss": 2.0 - 0.3 * i / n,
            **{f"train/entropy/{f}": k + 0.5 * i / n for k, f in enumerate(factors)},
            **{f"train/weight/{f}": 0.1 * (k + 1) + 0.01 * i for k, f in enumerate(factors)},
            "train/width/rotation": 3.0,
            "learning_rate": 0.01,
            "validation/top1": 0.5 + 0.1 * i / n,
            "validation/nll": 1.5 - 0.2 * i / n,
        }
        for i in range(n)
    ]


def panels(history: Any, **bands: Any) -> dict[str, Any]:
    return {
        axes.get_title(loc="left"): axes for axes in draw_training_curves(history, **bands).axes
    }


def drawn(axes: Any) -> list[list[float]]:
    """The values of every curve; levels and leaders have other numbers of points."""
    lines = [
        line for line in axes.lines if line.get_marker() != "None" or len(line.get_xdata()) > 2
    ]
    return [np.asarray(line.get_ydata()).tolist() for line in lines]


def names(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_every_panel_shows_its_columns() -> None:
    shown = panels(rows(), bands={"crop": (0.2, 0.6)})
    assert list(shown) == [
        "loss",
        "accuracy (%)",
        "entropy of crop (nats)",
        "weight of the entropy, λ",
    ]
    loss, accuracy, entropy, weight = shown.values()
    assert drawn(loss) == [[2.0, 1.925, 1.85, 1.775], [1.5, 1.45, 1.4, 1.35]]
    assert names(loss) == ["train", "validation"]
    assert drawn(accuracy) == [pytest.approx([50.0, 52.5, 55.0, 57.5])]
    assert names(accuracy) == ["validation top-1"]
    assert drawn(entropy) == [[0.0, 0.125, 0.25, 0.375]]
    assert drawn(weight) == [pytest.approx([0.1, 0.11, 0.12, 0.13])]
    assert names(weight) == ["crop"]


def test_epochs_count_from_one_on_one_axis() -> None:
    stack = list(panels(rows()).values())
    assert list(stack[0].lines[0].get_xdata()) == [1, 2, 3, 4]
    assert [axes.get_xlabel() for axes in stack] == ["", "", "", "epoch"]
    assert len({axes.get_xlim() for axes in stack}) == 1
    tops = [axes.get_position().y1 for axes in stack]
    assert all(above > below for above, below in pairwise(tops))


def test_the_band_is_shaded_named_and_in_view() -> None:
    axes = panels(rows(), bands={"crop": (2.0, 3.0)})["entropy of crop (nats)"]
    (shade,) = axes.patches
    assert (shade.get_y(), shade.get_height()) == pytest.approx((2.0, 1.0))
    assert names(axes) == ["band 2.00 to 3.00"]
    low, high = axes.get_ylim()
    assert low < 0
    assert high > 3


def test_a_factor_without_a_band_has_none() -> None:
    axes = panels(rows(), bands={"another": (2.0, 3.0)})["entropy of crop (nats)"]
    assert not axes.patches
    assert not [name for name in names(axes) if name]


def test_factors_keep_their_color_and_differ_in_more() -> None:
    shown = panels(rows(factors=FACTORS))
    curves = [
        line for line in shown["weight of the entropy, λ"].lines if len(line.get_xdata()) > 2
    ]
    assert len({line.get_linestyle() for line in curves}) == 4
    assert len({line.get_marker() for line in curves}) == 4
    for name, curve in zip(FACTORS, curves, strict=True):
        (alone, *_) = shown[f"entropy of {name} (nats)"].lines
        assert alone.get_color() == curve.get_color()


def test_values_that_span_decades_have_a_log_scale() -> None:
    history = [
        {"epoch": i, "train/weight/crop": 10.0**-i, "train/loss": 1.0 - i} for i in range(3)
    ]
    shown = panels(history)
    assert shown["weight of the entropy, λ, log scale"].get_yscale() == "log"
    assert shown["loss"].get_yscale() == "linear"
    ticks = [t.get_text() for t in shown["weight of the entropy, λ, log scale"].get_yticklabels()]
    assert set(ticks) <= {"0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"}


def test_a_weight_below_zero_has_a_linear_scale_and_a_line_at_zero() -> None:
    history = [{"epoch": i, "train/weight/crop": 0.5 - i} for i in range(3)]
    (axes,) = panels(history).values()
    assert axes.get_yscale() == "linear"
    assert [0, 0] in [list(line.get_ydata()) for line in axes.lines]


def test_missing_cells_are_gaps_and_missing_columns_no_panel() -> None:
    history: list[dict[str, float]] = [
        {"epoch": 0, "train/loss": 2.0},
        {"epoch": 1, "train/loss": nan, "val/nll": 1.0},
        {"epoch": 2, "train/loss": 1.0},
    ]
    ((title, axes),) = panels(history).items()
    assert title == "loss"
    train = axes.lines[0]
    assert np.asarray(train.get_ydata()).tolist() == pytest.approx([2.0, nan, 1.0], nan_ok=True)
    assert names(axes) == ["train", "validation"]


def test_a_regression_has_errors_instead_of_accuracies() -> None:
    history = [
        {"train/loss": 2.0, "validation/rmse": 1.4, "validation/mae": 1.0, "validation/r2": 0}
    ]
    shown = panels(history)
    assert list(shown) == ["loss", "validation error"]
    assert names(shown["validation error"]) == ["root mean squared", "mean absolute"]


def test_long_runs_have_markers_only_where_points_are_alone() -> None:
    loss = panels(rows(n=50))["loss"]
    assert {line.get_marker() for line in loss.lines[:2]} == {""}
    rare = [
        row if i % 5 == 0 else {"epoch": i, "train/loss": 2.0} for i, row in enumerate(rows(50))
    ]
    train, validation = panels(rare)["loss"].lines[:2]
    assert train.get_marker() == ""
    assert validation.get_marker() != ""


@pytest.mark.parametrize("n", [1, 150])
@pytest.mark.parametrize("n_factors", [0, 4])
def test_all_words_can_be_read(n: int, n_factors: int) -> None:
    factors = FACTORS[:n_factors]
    bands = dict.fromkeys(factors, (-1.5, -1.0))
    assert_words_are_readable(draw_training_curves(rows(n, factors), bands=bands))


def test_huge_and_tiny_values_can_be_read() -> None:
    history = [{"train/loss": 1e-9, "validation/rmse": 1e6}, {"train/loss": 5e8}]
    assert_words_are_readable(draw_training_curves(history))


@pytest.mark.parametrize(
    ("history", "bands", "words"),
    [
        ([], {}, "`history` must hold a finite train/loss.*got the columns none in 0 rows"),
        ([{"epoch": 0, "speed": 3.0}], {}, "got the columns epoch, speed in 1 rows"),
        ([{"train/loss": nan}], {}, "got the columns none in 1 rows"),
        (rows(), {"crop": (3.0, 2.0)}, r"`bands` must be finite .* got \(3.0, 2.0\) for 'crop'"),
        (rows(), {"crop": (0.0, nan)}, "`bands` must be finite"),
    ],
)
def test_bad_arguments_are_refused(history: Any, bands: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        draw_training_curves(history, bands=bands)
