"""Runs that belong together are put together; those that do not are refused."""

from pathlib import Path
from typing import Any

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.leaderboard import LeaderboardRow
from instaaug.report.records.run_record import RunRecord
from instaaug.report.records.sweeps import (
    band_sweep_bars,
    leaderboard_rows,
    percent_scores,
    weight_sweep_points,
)
from tests.support.run_folders import SETTINGS


def record(top1: float | None, *, bands: Any = None, **settings: Any) -> RunRecord:
    """A run that reaches this accuracy on 1000 images; None for one that has not finished."""
    results = {} if top1 is None else {"test": {"plain": {"top1": top1, "n": 1000}}}
    name = "-".join(map(str, settings.values())) or "run"
    return RunRecord(Path(name), "train", SETTINGS | settings, results, bands=bands or {})


def augmented(run: RunRecord, top1: float) -> RunRecord:
    run.results["test"]["augmented"] = {"top1": top1, "n": 1000, "n_samples": 20}
    return run


REGRESSION = RunRecord(
    Path("regression"),
    "train",
    SETTINGS | {"rule": "fixed"},
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


def test_seeds_are_rows_with_students_interval() -> None:
    runs = [record(share, seed=i) for i, share in enumerate((0.60, 0.62, 0.64))]
    (row,) = leaderboard_rows(runs)
    assert row.name == "instaaug"
    assert row.score == pytest.approx(62.0)
    assert row.high - row.score == pytest.approx(4.302653 * 2 / 3**0.5, rel=1e-6)
    assert row.score - row.low == pytest.approx(row.high - row.score)


def test_a_single_seed_has_wilsons_interval() -> None:
    (row,) = leaderboard_rows([record(0.6)])
    z2 = 1.959964**2
    for end in (row.low / 100, row.high / 100):
        assert (0.6 - end) ** 2 * 1000 == pytest.approx(z2 * end * (1 - end), rel=1e-5)


def test_names_tell_what_differs_within_a_method() -> None:
    runs = [
        record(0.5, method="none", sizes=[0.1, 1.0]),
        augmented(record(0.6, method="random", sizes=[0.55, 1.0], threads=3), 0.61),
        augmented(record(0.6, method="random", sizes=[0.7, 1.0], threads=4), 0.62),
        record(0.7, seed=0),
    ]
    assert [row.name for row in leaderboard_rows(runs)] == [
        "instaaug",
        "random, sizes 0.7 to 1, 20 samples at test time",
        "random, sizes 0.55 to 1, 20 samples at test time",
        "none",
    ]


def test_names_tell_the_seeds_where_these_differ_in_number() -> None:
    runs = [record(0.6, seed=0), record(0.61, seed=1), record(0.5, method="none")]
    assert [row.name for row in leaderboard_rows(runs)] == ["instaaug, 2 seeds", "none, 1 seed"]


def test_a_setting_that_is_absent_is_like_null() -> None:
    older = record(0.6, seed=1)
    del older.config["entropy"]
    assert len(leaderboard_rows([record(0.6), older])) == 1


def test_names_are_never_the_same_twice() -> None:
    runs = [record(0.6, weight=1), record(0.6, weight=1.5), augmented(record(0.6, weight=1), 0.7)]
    names = [row.name for row in leaderboard_rows(runs)]
    assert len(set(names)) == len(names) == 3


def test_errors_are_sorted_from_the_smallest_and_not_in_percent() -> None:
    worse = RunRecord(
        Path("w"),
        "train",
        SETTINGS | {"method": "none"},
        {"test": {"plain": {"rmse": 2.5, "n": 9}}},
    )
    assert leaderboard_rows([worse, REGRESSION]) == [
        LeaderboardRow("instaaug", 1.5, 1.5, 1.5),
        LeaderboardRow("none", 2.5, 2.5, 2.5),
    ]


def test_no_run_gives_nothing() -> None:
    assert leaderboard_rows([]) == []
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
            "differ in weight and seed alone: 'fixed' and 'fixed-9-a' differ in epochs, loss too",
        ),
        (
            lambda: band_sweep_bars(
                [record(0.6, entropy=[1, 2]), record(0.6, entropy=[2, 3], data="other")]
            ),
            "differ in entropy and diversity and seed alone.*differ in data too",
        ),
        (lambda: weight_sweep_points([REGRESSION]), "'regression' has rmse. Leave regressions"),
        (lambda: leaderboard_rows([record(0.6), REGRESSION]), "got the scores rmse, top1"),
        (
            lambda: leaderboard_rows([record(0.6), record(0.6, data="other")]),
            "got the data other, sprites. Make a leaderboard of each",
        ),
        (
            lambda: weight_sweep_points([record(0.6, rule="fixed", weight="much")]),
            "must have a number as their weight: got 'much'",
        ),
        (lambda: band_sweep_bars([record(0.6, entropy=["a", "b"])]), "as their entropy: got 'a'"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
