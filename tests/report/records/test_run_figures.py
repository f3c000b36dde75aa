"""A chart is drawn where there are numbers for it."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instaaug.report.records.run_figures import SHIFTED, comparing_figures, own_figures
from instaaug.report.records.run_record import RunRecord
from instaaug.report.records.sweeps import reference_scores, tuned_scores

EPOCH = {"train/loss": 1.5, "train/entropy/crop": 3.0, "validation/top1": 0.8}
HISTORY = [{"epoch": float(i), **EPOCH} for i in range(3)]


def run(name: str, top1: float, *, history: bool = True, **config: Any) -> RunRecord:
    return RunRecord(
        Path(name),
        "train",
        {"data": "pets", "method": "instaaug", "rule": "pi", "epochs": 3, "seed": 0, **config},
        {"test": {"plain": {"top1": top1, "n": 100.0}}},
        HISTORY if history else [],
    )


def files(records: list[RunRecord]) -> list[str]:
    return [drawn.file for drawn in comparing_figures(records)]


def test_curves_are_drawn_with_their_band() -> None:
    (drawn,) = own_figures(run("a", 0.5), {"crop": (2.5, 3.5)})
    assert drawn.file == "training_curves"
    words = [text.get_text() for axes in drawn.drawing.axes for text in axes.texts]
    assert any("2.5" in word or "H" in word for word in words)
    assert list(own_figures(run("a", 0.5, history=False), {})) == []


def test_an_evaluation_has_a_cost_curve() -> None:
    rows = [
        {"name": "learned", "views": v, "accuracy": 0.6, "low": 0.5, "high": 0.7} for v in (1, 4)
    ]
    rows += [{"name": "center", "views": 1, "accuracy": 0.5, "low": 0.4, "high": 0.6}]
    scores = {"rows": rows, "comparisons": [{"name": "learned"}]}
    record = RunRecord(Path("fit"), "tta", {"crops": "1:1"}, scores=scores)
    (drawn,) = own_figures(record, {})
    assert drawn.file == "cost_curve"
    assert {t.get_text() for t in drawn.drawing.axes[0].texts} == {"learned", "center"}


def test_two_methods_make_a_leaderboard() -> None:
    both = [run("a", 0.7), run("b", 0.6, method="none")]
    assert files(both) == ["leaderboard"]
    assert files(both[:1]) == []
    assert files([run("a", 0.7), run("b", 0.6, data="cars")]) == []  # nothing to compare


def test_fixed_weights_make_a_sweep() -> None:
    sweep = [run(f"w{w}", 0.5 + w, rule="fixed", weight=w) for w in (0.1, 0.2)]
    assert files([*sweep, run("tuned", 0.8)]) == ["leaderboard", "weight_sweep"]


def test_bands_make_a_sweep() -> None:
    assert "band_sweep" in files([run("a", 0.7, entropy=[2, 3]), run("b", 0.6, entropy=[3, 4])])


def test_unlike_runs_are_no_repetitions() -> None:
    sweep = [run(f"w{w}", 0.5 + w, rule="fixed", weight=w) for w in (0.1, 0.2)]
    tuned, longer = run("tuned", 0.8), run("longer", 0.9, epochs=500)
    assert tuned_scores([*sweep, tuned]) == [pytest.approx(80.0)]
    assert tuned_scores([*sweep, longer]) == []
    none = [run(f"n{e}", 0.3, method="none", weight=9.0, epochs=e) for e in (3, 500)]
    assert reference_scores([*sweep, *none], "none") == [pytest.approx(30.0)]
    random = [run(f"r{s}", s, method="random", strength=s) for s in (0.1, 0.9)]
    assert reference_scores([*sweep, *random], "random") == []


def test_runs_on_other_test_images_are_not_ranked() -> None:
    assert files([run("a", 0.7), run("b", 0.6, method="none", test_fraction=0.4)]) == []


def test_names_may_hold_dollars_and_losses_be_nothing() -> None:
    both = [run("a$x^$", 0.7, model="m$\\frac$"), run("b", 0.6, method="none", model="m$\\frac$")]
    (board,) = comparing_figures(both)
    board.drawing.savefig(io.BytesIO())
    record = run("a", 0.7, history=False)
    nothing = replace(record, history=[{"epoch": 0.0, "train/loss": float("nan")}])
    assert list(own_figures(nothing, {})) == []


def test_other_lights_make_a_scatter() -> None:
    lights = ["1-4", "5-46"]
    found = files([run("a", 0.7, lights=lights), run("b", 0.6, lights=lights, method="none")])
    assert "shift_scatter" in found
    blind = [run("a", 0.7, lights=lights, history=False), run("b", 0.6, lights=lights)]
    assert "shift_scatter" not in files(blind)  # one point is no scatter


def test_scores_on_other_images_make_a_scatter(tmp_path: Path) -> None:
    records = []
    for name, strength in (("x", 0.2), ("y", 0.4)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / SHIFTED).write_text(json.dumps({"plain": {"top1": strength, "n": 10.0}}))
        records.append(run(str(folder), 0.6, method="random", strength=strength))
    (drawn,) = [d for d in comparing_figures(records) if d.file == "shift_scatter"]
    axes = drawn.drawing.axes[0]
    points = [tuple(xy) for c in axes.collections for xy in np.asarray(c.get_offsets())]
    assert (60.0, pytest.approx(20.0)) in points
    assert (60.0, pytest.approx(40.0)) in points
