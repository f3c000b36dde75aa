"""A chart is drawn where there are numbers for it."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from instaaug.errors import ArgumentError
from instaaug.report.charts.leaderboard import LeaderboardRow
from instaaug.report.records import RunRecord
from instaaug.report.run_figures import comparison_figures, leaderboard_rows, run_figures
from tests.support.run_folders import SETTINGS, full_settings

EPOCH = {"train/loss": 1.5, "train/entropy/crop": 3.0, "validation/top1": 0.8}
HISTORY = [{"epoch": float(i), **EPOCH} for i in range(3)]


def run(name: str, top1: float, *, history: bool = True, **config: Any) -> RunRecord:
    return RunRecord(
        Path(name),
        "train",
        full_settings(**{"data": "pets", "method": "instaaug", "epochs": 3, "seed": 0, **config}),
        {"test": {"plain": {"top1": top1, "n": 100.0}}},
        HISTORY if history else [],
    )


def files(records: list[RunRecord]) -> list[str]:
    return [drawn.file for drawn in comparison_figures(records)]


def test_curves_are_drawn_with_their_band() -> None:
    (drawn,) = run_figures(run("a", 0.5), {"crop": (2.5, 3.5)})
    assert drawn.file == "training_curves"
    words = [text.get_text() for axes in drawn.drawing.axes for text in axes.texts]
    assert any("2.5" in word or "H" in word for word in words)
    assert list(run_figures(run("a", 0.5, history=False), {})) == []


def test_an_evaluation_has_a_cost_curve() -> None:
    rows = [
        {"name": "learned", "views": v, "accuracy": 0.6, "low": 0.5, "high": 0.7} for v in (1, 4)
    ]
    rows += [{"name": "center", "views": 1, "accuracy": 0.5, "low": 0.4, "high": 0.6}]
    scores = {"rows": rows, "comparisons": [{"name": "learned"}]}
    record = RunRecord(Path("fit"), "tta", {"crops": "1:1"}, scores=scores)
    (drawn,) = run_figures(record, {})
    assert drawn.file == "cost_curve"
    assert {t.get_text() for t in drawn.drawing.axes[0].texts} == {"learned", "center"}


def test_two_methods_make_a_leaderboard() -> None:
    both = [run("a", 0.7), run("b", 0.6, method="none")]
    assert files(both) == ["leaderboard"]
    assert files(both[:1]) == []
    assert files([run("a", 0.7), run("b", 0.6, data="cars")]) == []  # nothing to compare


def test_runs_on_other_test_images_are_not_ranked() -> None:
    assert files([run("a", 0.7), run("b", 0.6, method="none", test_fraction=0.4)]) == []


def test_names_may_hold_dollars_and_losses_be_nothing() -> None:
    both = [run("a$x^$", 0.7, model="m$\\frac$"), run("b", 0.6, method="none", model="m$\\frac$")]
    (board,) = comparison_figures(both)
    board.drawing.savefig(io.BytesIO())
    record = run("a", 0.7, history=False)
    nothing = replace(record, history=[{"epoch": 0.0, "train/loss": float("nan")}])
    assert list(run_figures(nothing, {})) == []


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
        "random, method.sizes 0.7 to 1, 20 samples at test time",
        "random, method.sizes 0.55 to 1, 20 samples at test time",
        "none",
    ]


def test_names_tell_the_seeds_where_these_differ_in_number() -> None:
    runs = [record(0.6, seed=0), record(0.61, seed=1), record(0.5, method="none")]
    assert [row.name for row in leaderboard_rows(runs)] == ["instaaug, 2 seeds", "none, 1 seed"]


def test_a_setting_that_is_absent_is_like_null() -> None:
    older = record(0.6, seed=1)
    del older.config["entropy.band"]
    assert len(leaderboard_rows([record(0.6), older])) == 1


def test_names_are_never_the_same_twice() -> None:
    runs = [record(0.6, weight=1), record(0.6, weight=1.5), augmented(record(0.6, weight=1), 0.7)]
    names = [row.name for row in leaderboard_rows(runs)]
    assert len(set(names)) == len(names) == 3


def test_errors_are_sorted_from_the_smallest_and_not_in_percent() -> None:
    worse = RunRecord(
        Path("w"),
        "train",
        SETTINGS | full_settings(method="none"),
        {"test": {"plain": {"rmse": 2.5, "n": 9}}},
    )
    assert leaderboard_rows([worse, REGRESSION]) == [
        LeaderboardRow("instaaug", 1.5, 1.5, 1.5),
        LeaderboardRow("none", 2.5, 2.5, 2.5),
    ]


REGRESSION = RunRecord(
    Path("regression"),
    "train",
    SETTINGS | full_settings(rule="fixed"),
    {"test": {"plain": {"rmse": 1.5, "mae": 1.0, "n": 10}}},
)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (REGRESSION, "got the scores rmse, top1"),
        (
            record(0.6, data="other"),
            "got the data.source other, sprites. Make a",
        ),
    ],
)
def test_runs_that_cannot_be_ranked_are_refused(other: RunRecord, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        leaderboard_rows([record(0.6), other])
