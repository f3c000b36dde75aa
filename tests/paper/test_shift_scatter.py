"""Dots look like their settings, lines join what differs in one of them, methods have names."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.report.records import RunRecord
from paper.shift_scatter import (
    MOST_SHOWN,
    SHIFTED,
    SettingScale,
    ShiftPoint,
    draw_runs,
    draw_shift_scatter,
    setting_links,
)
from tests.support.drawn import assert_words_are_readable, dots_of, words_of
from tests.support.run_folders import full_settings

GRID = [
    ShiftPoint(
        "random jitter",
        90 - 5 * h + v,
        70 + 6 * h + 2 * s,
        {"hue": h, "saturation": s, "value": v},
    )
    for h, s, v in product((0.0, 0.2, 0.4), (0.0, 0.5), (0.0, 0.3, 0.6))
]
METHODS = [ShiftPoint("InstaAug", 91.0, 76.0), ShiftPoint("none", 91.2, 69.0)]


def axes_of(points: list[ShiftPoint], **links: Any) -> Any:
    (axes,) = draw_shift_scatter(points, **links).axes
    return axes


def lightness(color: Any) -> float:
    return float(0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2])


def test_links_join_neighbors_in_one_setting() -> None:
    pairs = setting_links(GRID, "value")
    assert len(pairs) == 3 * 2 * 2
    for a, b in pairs:
        changed = {k for k in a.settings if a.settings[k] != b.settings[k]}
        assert changed == {"value"}
        assert b.settings["value"] - a.settings["value"] == pytest.approx(0.3)


def test_links_leave_out_what_has_no_partner() -> None:
    lonely = [ShiftPoint("r", 1, 1, {"hue": i, "value": i}) for i in range(3)]
    assert setting_links(lonely, "hue") == []
    gap = [ShiftPoint("r", 1, 1, {"hue": h, "value": 0}) for h in (4, 0, 9)]
    assert [(a.settings["hue"], b.settings["hue"]) for a, b in setting_links(gap, "hue")] == [
        (0, 4),
        (4, 9),
    ]


def test_lines_are_thick_for_the_first_setting_and_thin_for_the_second() -> None:
    axes = axes_of([*GRID, *METHODS], links=["saturation", "value"])
    widths = [line.get_linewidth() for line in axes.lines]
    assert len(widths) == 9 + 12
    assert min(widths[:9]) > 2 * max(widths[9:])
    drawn = {tuple(map(tuple, line.get_xydata())) for line in axes.lines[:9]}
    assert drawn == {((a.x, a.y), (b.x, b.y)) for a, b in setting_links(GRID, "saturation")}


def test_hue_is_color_saturation_filling_and_value_size() -> None:
    dots = dict(
        zip([tuple(p.settings.values()) for p in GRID], dots_of(axes_of(GRID)), strict=True)
    )
    edges = [lightness(dots[h, 0.0, 0.0].get_edgecolor()[0]) for h in (0.0, 0.2, 0.4)]
    assert edges[0] - edges[1] > 0.15  # a print in gray tells them apart, too
    assert edges[1] - edges[2] > 0.15
    hollow, full = (dots[0.4, s, 0.0].get_facecolor()[0] for s in (0.0, 0.5))
    assert max(hollow[:3]) - min(hollow[:3]) < 0.15  # nearly gray
    assert tuple(full) == pytest.approx(tuple(dots[0.4, 0.5, 0.0].get_edgecolor()[0]))
    sizes = [float(dots[0.0, 0.0, v].get_sizes()[0]) for v in (0.0, 0.3, 0.6)]
    assert sizes == sorted(sizes)
    assert sizes[2] > 4 * sizes[0]


def test_dots_are_where_their_accuracies_are() -> None:
    places = [tuple(dot.get_offsets()[0]) for dot in dots_of(axes_of([*GRID, *METHODS]))]
    assert places == [(p.x, p.y) for p in [*GRID, *METHODS]]


def test_methods_have_names_and_markers_of_their_own() -> None:
    axes = axes_of([*GRID, *METHODS])
    assert [text.get_text() for text in axes.texts] == ["InstaAug", "none"]
    shapes = [str(dot.get_paths()[0].vertices) for dot in dots_of(axes)]
    assert len(set(shapes[-2:])) == 2
    assert not set(shapes[-2:]) & set(shapes[:-2])


def test_the_key_lists_every_setting_and_line() -> None:
    (key,) = draw_shift_scatter(GRID, links=["saturation", "value"]).legends
    assert [text.get_text() for text in key.get_texts()] == [
        "hue", "0", "0.2", "0.4", "saturation", "0", "0.5", "value", "0", "0.3", "0.6",
        "lines: only this changes", "saturation", "value",
    ]  # fmt: skip
    assert key.get_title().get_text() == "random jitter"
    assert not draw_shift_scatter(METHODS).legends


def test_a_key_of_many_values_shows_some_from_end_to_end() -> None:
    shown = SettingScale("hue", tuple(float(i) for i in range(100))).key_values()
    assert (shown[0], shown[-1], len(shown)) == (0.0, 99.0, MOST_SHOWN)


def test_the_diagonal_is_there_if_it_is_in_view() -> None:
    axes = axes_of([ShiftPoint("a", 60.0, 62.0), ShiftPoint("b", 66.0, 61.0)])
    (line,) = axes.lines
    assert list(line.get_xdata()) == list(line.get_ydata())
    assert "equal" in [text.get_text() for text in axes.texts]
    assert axes.get_xlim()[1] >= 66
    assert not axes_of([ShiftPoint("a", 90.0, 60.0), ShiftPoint("b", 95.0, 61.0)]).lines


@pytest.mark.parametrize(
    "points",
    [
        [*GRID, *METHODS],
        [ShiftPoint("alone", 0.0, 100.0)],
        [ShiftPoint("r", 60 + i, 58 + i, {"hue": i / 10}) for i in range(20)],
        [ShiftPoint(f"a method with a long name, {i}", 60.0, 60.0 + i / 5) for i in range(7)],
    ],
    ids=["grid", "alone", "one setting", "crowd"],
)
def test_all_words_can_be_read(points: list[ShiftPoint]) -> None:
    drawing = draw_shift_scatter(points)
    assert_words_are_readable(drawing)
    assert {p.name for p in points} <= {text.get_text() for text in words_of(drawing)}


TWO = {"hue": 0.1, "value": 0.2}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: draw_shift_scatter([]), "`points` must hold at least one model"),
        (lambda: ShiftPoint("a", 0.5, 101.0), "got 0.5 and 101.0 for 'a'. Multiply"),
        (lambda: ShiftPoint("a", 1, 1, {"hue": float("nan")}), "`settings` must be finite"),
        (
            lambda: draw_shift_scatter([ShiftPoint("a", 1, 1, dict.fromkeys("abcd", 0))]),
            "`points` can show 3 settings, and `links` 2 of them: got 4 and 0",
        ),
        (
            lambda: draw_shift_scatter(GRID, links=["hue", "saturation", "value"]),
            "got 3 and 3",
        ),
        (
            lambda: draw_shift_scatter([GRID[0], ShiftPoint("a", 1, 1, TWO)]),
            "must have the same settings: got hue, saturation, value and hue, value",
        ),
        (
            lambda: draw_shift_scatter([ShiftPoint("a", 1, 1, TWO), ShiftPoint("a", 2, 2, TWO)]),
            "got {'hue': 0.1, 'value': 0.2} twice. Average over seeds first",
        ),
        (
            lambda: draw_shift_scatter([ShiftPoint(str(i), 1, i) for i in range(8)]),
            "at most 7 models without settings: got 8",
        ),
    ],
)
def test_bad_arguments_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


def test_a_link_must_be_a_setting() -> None:
    with pytest.raises(UnknownNameError, match=r"no setting called 'hues'. Did you mean 'hue'"):
        draw_shift_scatter(GRID, links=["hues"])


def run(folder: Path, top1: float, shifted: float | None, **config: Any) -> RunRecord:
    folder.mkdir()
    if shifted is not None:
        text = json.dumps({"plain": {"top1": shifted, "n": 10.0}})
        (folder / SHIFTED).write_text(text, encoding="utf-8")
    results = {"test": {"plain": {"top1": top1, "n": 100.0}}}
    return RunRecord(folder, "train", full_settings(**config), results)


def test_runs_with_scores_on_other_images_are_drawn(tmp_path: Path) -> None:
    records = [
        run(tmp_path / f"{i}", 0.6, 0.2 * (i + 1), method="random", strength=strength)
        for i, strength in enumerate((0.2, 0.4))
    ]
    (axes,) = draw_runs([*records, run(tmp_path / "no score", 0.6, None)]).axes
    points = [tuple(xy) for c in dots_of(axes) for xy in np.asarray(c.get_offsets()).tolist()]
    assert points == [(60.0, pytest.approx(20.0)), (60.0, pytest.approx(40.0))]
    assert [
        np.asarray(line.get_xydata()).tolist() for line in axes.lines if line.get_linewidth() > 2
    ] == [[[60.0, pytest.approx(20.0)], [60.0, pytest.approx(40.0)]]]


def grouped(folder: Path, easy: float, hard: float, **config: Any) -> RunRecord:
    groups = {"easy": {"plain": {"top1": easy}}, "hard": {"plain": {"top1": hard}}}
    settings = full_settings(**config) | {"transforms": ["hsv_jitter"]}
    return RunRecord(folder, "train", settings, {"test": {"groups": groups}})


def test_the_sweep_of_the_paper_is_drawn_with_its_methods(tmp_path: Path) -> None:
    """216 settings, one of them with two seeds and one given as a number: this once crashed."""
    fifths = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    records = [
        grouped(
            tmp_path / f"{h}-{s}-{v}" / "seed_0",
            0.5 + h / 10,
            0.4 + s / 10 + v / 20,
            method="random",
            strength={"hue": h, "saturation": s, "value": v},
        )
        for h, s, v in product(fifths, repeat=3)
    ]
    records += [
        grouped(tmp_path / "again", 0.7, 0.6, method="random", strength=1.0),  # 1, 1, 1
        grouped(tmp_path / "none" / "seed_0", 0.5, 0.3, method="none"),
        grouped(tmp_path / "none" / "seed_1", 0.6, 0.4, method="none"),
        grouped(tmp_path / "ours", 0.66, 0.58, method="instaaug"),
    ]
    (axes,) = (drawing := draw_runs(records, names={"ours": "InstaAug"})).axes
    places = [tuple(dot.get_offsets()[0]) for dot in dots_of(axes)]
    assert len(places) == 216 + 2
    assert places[215] == pytest.approx((65.0, 57.5))  # the mean of both
    assert places[216] == pytest.approx((55.0, 35.0))
    assert [text.get_text() for text in axes.texts][:2] == ["none", "InstaAug"]
    assert [text.get_text() for text in drawing.legends[0].get_texts()][:7] == [
        "hue", "0", "0.1", "0.2", "0.3", "0.4", "0.5",
    ]  # fmt: skip
    widths = [round(line.get_linewidth(), 1) for line in axes.lines]
    assert widths.count(2.6) == widths.count(0.9) - 1 == 6 * 6 * 5  # and the diagonal


def test_runs_without_a_second_accuracy_are_left_out(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="`points` must hold at least one model"):
        draw_runs([run(tmp_path / "a", 0.4, None, method="instaaug")])
