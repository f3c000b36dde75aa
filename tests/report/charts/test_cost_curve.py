"""The cost curve shows every method, names it at its end, and lets no name hide another."""

from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_rgba

from instaaug.errors import ArgumentError
from instaaug.report.charts.axes import spread_apart
from instaaug.report.charts.cost_curve import draw_cost_curve
from instaaug.report.theme import save_figure

LEARNED = [
    (1, 59.0, 57.0, 61.0),
    (4, 67.4, 65.0, 69.0),
    (10, 70.9, 69.0, 73.0),
    (30, 71.9, 70.0, 74.0),
]
CURVES: dict[str, Any] = {
    "learned": LEARNED,
    "stops early": [(1.8, 63.5), (5.3, 70.4), (9.2, 71.6)],
    "uniform grid": [(1, 59.0), (4, 64.9), (10, 68.5), (30, 71.8)],
    "policy": [(1, 59.0), (4, 66.4), (10, 69.3), (30, 71.7)],
    "center crop": [(1, 60.4, 58.0, 62.0)],
    "ten crop": [(10, 64.1)],
}


def axes_of(curves: dict[str, Any]) -> Any:
    (axes,) = draw_cost_curve(curves).axes
    return axes


def vertices(drawn: Any) -> list[list[float]]:
    """Of the first path of a collection."""
    corners: list[list[float]] = drawn.get_paths()[0].vertices.tolist()
    return corners


def test_every_method_is_drawn_and_named() -> None:
    axes = axes_of(CURVES)
    assert [text.get_text() for text in axes.texts] == list(CURVES)
    lines = [line for line in axes.lines if line.get_clip_on()]  # leaders leave the axes
    assert [len(line.get_xdata()) for line in lines] == [len(p) for p in CURVES.values()]
    assert list(lines[0].get_ydata()) == [59.0, 67.4, 70.9, 71.9]
    assert len([c for c in axes.collections if isinstance(c, PathCollection)]) == 6
    assert axes.get_legend() is None


def test_bands_and_bars_show_the_intervals() -> None:
    axes = axes_of(CURVES)
    (band,) = [c for c in axes.collections if isinstance(c, PolyCollection)]
    corners = {tuple(corner) for corner in vertices(band)}
    assert {(1.0, 57.0), (1.0, 61.0), (30.0, 70.0), (30.0, 74.0)} <= corners
    (bar,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert vertices(bar) == [[1.0, 58.0], [1.0, 62.0]]


def test_means_have_hollow_markers_and_a_note() -> None:
    axes = axes_of({"a": [(1, 50.0), (2.5, 60.0)], "b": [(2, 55.0)]})
    faces: list[Any] = [
        c.get_facecolor() for c in axes.collections if isinstance(c, PathCollection)
    ]
    hollow = [[tuple(face) == to_rgba("white") for face in rows] for rows in faces]
    assert hollow == [[False, True], [False]]
    assert "hollow" in axes.get_xlabel()
    axes = axes_of({"b": [(2, 55.0)]})
    assert "hollow" not in axes.get_xlabel()


def test_points_may_come_in_any_order() -> None:
    axes = axes_of({"learned": LEARNED[::-1]})
    assert list(axes.lines[0].get_xdata()) == [1, 4, 10, 30]


def test_the_ticks_are_the_usual_numbers_of_views() -> None:
    axes = axes_of(CURVES)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4", "10", "30"]


MANY = {f"method {i} of many": [(1, 50.0), (4, 60.0), (30, 65.0 + i / 9)] for i in range(21)}
CLUSTER = {f"point {i}": [(4 + i / 4, 60.0 + i / 20)] for i in range(5)} | {"line": LEARNED}


@pytest.mark.parametrize("curves", [{"a": [(1, 50.0)]}, CURVES, MANY, CLUSTER], ids=len)
def test_no_name_hides_another_or_leaves_the_canvas(curves: dict[str, Any]) -> None:
    figure = draw_cost_curve(curves)
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not [(a, b) for a, b in combinations(boxes, 2) if a.overlaps(b)]
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_methods_differ_in_more_than_color() -> None:
    axes = axes_of({str(i): [(1, 50.0 + i), (2, 60.0 + i)] for i in range(21)})
    lines = [line for line in axes.lines if line.get_clip_on()]
    markers = [vertices(c) for c in axes.collections if isinstance(c, PathCollection)]
    looks = {
        (line.get_linestyle(), str(marker)) for line, marker in zip(lines, markers, strict=True)
    }
    assert len(looks) == 21


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0.1, 20))
def test_spread_values_keep_order_distance_and_center(wanted: list[float], gap: float) -> None:
    places = spread_apart(wanted, gap)
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    assert all(places[b] - places[a] >= gap - 1e-6 for a, b in pairwise(order))
    assert sum(places) == pytest.approx(sum(wanted), abs=1e-6)
    if all(wanted[b] - wanted[a] >= gap for a, b in pairwise(order)):
        assert places == pytest.approx(wanted)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_figure_is_written(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"curve.{ending}"
    save_figure(draw_cost_curve(CURVES), path)
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("curves", "words"),
    [
        ({}, "`curves` must hold 1 to 21 methods: got 0"),
        ({str(i): [(1, 50)] for i in range(22)}, "got 22. Draw several"),
        ({"a": []}, "must have a point per method: got none for 'a'"),
        ({"a": [(1,)]}, r"points \(views, accuracy\) or .*got \(1,\) for 'a'"),
        ({"a": [(1, 50.0, 40.0)]}, "points"),
        ({"a": [(1, float("nan"))]}, "all finite: got"),
        ({"a": [(0.5, 50.0)]}, "views ≥ 1"),
        ({"a": [(1, 50.0, 51.0, 60.0)]}, "low ≤ accuracy ≤ high"),
        ({"a": [(1, 150.0)]}, "Multiply shares by 100"),
    ],
)
def test_bad_arguments_are_refused(curves: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        draw_cost_curve(curves)
