"""A fit beside its rivals: each gets the rule of the run or the mean, and says what it costs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from instaaug.frozen import fit_temperature
from instaaug.runs.baselines import find_baselines
from instaaug.runs.folder import Run
from instaaug.runs.settings import OtherModelSettings, TtaSettings
from instaaug.runs.tta import fit_frozen, load_fitted
from instaaug.runs.tta_evaluation import EarlyStop, evaluate_fit, load_own_splits
from instaaug.runs.view_scores import MEAN, merge_by_rules
from tests.support.fitted_views import SPOTTER
from tests.support.spots import spot_folder

Row = dict[str, Any]
BASELINES = "flips,grid,most_certain"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A fit that merges by confidence."""
    folder = tmp_path_factory.mktemp("confident")
    settings = {
        "model": {"name": SPOTTER, "image_size": 16},
        "data": {"source": str(spot_folder(folder / "spots", 12)), "cache_dir": str(folder / "c")},
        "crop": {"grid": [[1, 1], [0.5, 2]]},
        "views": {"counts": [2, 4], "merge": "confidence", "sharpness": 2.0},
        "phi": {"steps": 30},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("instaaug.runs.tta.crops_figure", lambda *_: None)
        patch.setattr("instaaug.runs.tta_evaluation.save_figure", lambda *_: None)
        fit_frozen(TtaSettings.from_mapping(settings), folder / "run")
        yield Run(folder / "run")


def by_name(results: dict[str, Any]) -> dict[tuple[str, float], Row]:
    return {(row["name"], row["views"]): row for row in results["rows"]}


def test_a_rival_is_merged_by_the_rule_that_explains_the_fit_best(run: Run) -> None:
    rows = by_name(evaluate_fit(run, counts=(1, 2, 4), baselines=BASELINES))
    fitted = load_fitted(run)
    images = load_own_splits(run, fitted, None).train
    for other in find_baselines(BASELINES, fitted):
        counts = other.counts((1, 2, 4))
        known = merge_by_rules(
            other.augmenter, fitted.model, fitted.model.normalize(images), counts,
            [fitted.rule, MEAN], select=other.select, share=other.share,
        )  # fmt: skip
        for count in counts:
            losses = {}
            for rule, merged in zip((fitted.rule, MEAN), known, strict=True):
                logits = merged[count]
                honest = logits / fit_temperature(logits, images.targets)
                losses[rule.merge] = float(F.cross_entropy(honest, images.targets))
            best = "logit" if count == 1 else min(losses, key=lambda name: losses[name])
            assert rows[other.name, count]["merge"] == best, (other.name, count)
    assert rows["learned views", 4]["merge"] == "confidence"


def test_without_the_images_of_the_fit_the_rule_is_that_of_the_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = spot_folder(tmp_path / "new", 3, seed=1)

    def lost(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("instaaug.runs.tta_evaluation.load_own_splits", lost)
    rows = by_name(evaluate_fit(run, data=str(new), counts=(4,), baselines="grid"))
    assert rows["uniform grid", 4]["merge"] == "confidence"
    with pytest.raises(FileNotFoundError):
        evaluate_fit(run, data=str(new), counts=(4,), calibrate=True)


def test_every_row_has_its_cost_and_rivals_cost_no_more(run: Run) -> None:
    results = evaluate_fit(
        run, counts=(2, 4), baselines=BASELINES, stops=[EarlyStop(mean_views=1.5)]
    )
    rows = by_name(results)
    assert rows["the image alone", 1]["cost"] == 1
    assert rows["uniform grid", 4]["cost"] == 4
    assert rows["most certain half of image and grid", 4]["cost"] == pytest.approx(4)
    learned = rows["learned views", 4]["cost"]
    assert learned > 4
    assert rows["learned views, 1.5 on average", 1.5]["cost"] == pytest.approx(learned - 2.5)
    for found in results["comparisons"]:
        rival = rows[found["best"], found["best_views"]]
        assert rival["cost"] <= rows[found["name"], found["views"]]["cost"]
        assert rival["merge"] == found["best_merge"]
    assert json.loads(run.scores_file.read_text()) == results


@pytest.mark.parametrize("calibrate", [False, True])
def test_another_model_has_a_file_and_temperatures_of_its_own(run: Run, calibrate: bool) -> None:
    own = evaluate_fit(run, counts=(2,), baselines="none")
    other = evaluate_fit(
        run,
        model=OtherModelSettings(name="tests.support.spots:of_gray_levels", image_size=24),
        counts=(2,),
        baselines="grid",
        stops=[EarlyStop(certainty=0.5)],
        calibrate=calibrate,
    )
    assert json.loads(run.scores_file.read_text()) == own
    file = run.path / "eval-tests.support.spots-of_gray_levels.json"
    assert json.loads(file.read_text()) == other
    assert (own["model"], other["model"]) == (SPOTTER, "tests.support.spots:of_gray_levels")
    row = by_name(other)["learned views", 2]
    phi = by_name(own)["learned views", 2]["cost"] - 1  # and the pass whose features it reads
    assert row["cost"] == pytest.approx(2 + phi * (16 * 16 + 1) / (24 * 24 + 1))
    calibrated = [row["name"] for row in other["rows"] if "temperature" in row]
    assert ("learned views" in calibrated) is calibrate
    assert "learned views until 0.5 certain" not in calibrated


def test_a_name_is_enough_for_another_model(run: Run) -> None:
    other = evaluate_fit(run, model=SPOTTER, counts=(2,), baselines="none")
    own = evaluate_fit(run, counts=(2,), baselines="none")
    assert by_name(other)["learned views", 2]["accuracy"] == pytest.approx(
        by_name(own)["learned views", 2]["accuracy"]
    )
    assert torch.tensor([row["cost"] for row in other["rows"]]).isfinite().all()
