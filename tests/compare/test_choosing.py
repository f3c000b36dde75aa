"""Contenders choose their settings on validation images, each with the same number of trials."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from instaaug.compare import choosing
from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.results import read_comparison, write_tables
from instaaug.compare.runner import run_comparison
from instaaug.compare.state import read_state
from instaaug.compare.step_times import StepCost
from instaaug.compare.tuning import tune
from instaaug.errors import ArgumentError
from instaaug.runs.folder import Run
from instaaug.runs.settings import TrainSettings
from tests.support.fleet import Fleet
from tests.support.picture_folders import plain_folder

N_TRIALS = 4
LABELS = "none,random,instaaug"


class Trials:
    """Small crops are best, random ones above all; nothing is trained."""

    def __init__(self) -> None:
        self.configs: list[TrainSettings] = []

    def __call__(self, config: TrainSettings, *_: object) -> Sequence[float]:
        self.configs.append(config)
        smallest = config.method.options.get("sizes", [1.0])[0]
        n_right = 5 if config.method.name == "instaaug" else 10 + round(100 * (1 - smallest))
        return [1.0] * n_right + [0.0] * (200 - n_right)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.compare.runner.POLL_SECONDS", 0.0)
    monkeypatch.setattr("instaaug.runs.folder.environment", dict)
    monkeypatch.setattr("instaaug.compare.plan.measure_epoch", lambda _: 1.0)
    monkeypatch.setattr(
        "instaaug.compare.plan.measure_step_costs",
        lambda new, _: dict.fromkeys(new, StepCost(1.0, 1.0, 1.0)),
    )


@pytest.fixture
def base(tmp_path: Path) -> TrainSettings:
    """Settings with images for the test in a folder of their own."""
    for part in ("train", "test"):
        plain_folder(tmp_path / "pets" / part)
    return TrainSettings.from_mapping(
        {
            "data": str(tmp_path / "pets"),
            "data.image_size": 16,
            "trainer.max_epochs": 2,
            "phi.goal": "loss",
        }
    )


def compare(base: TrainSettings, out: Path, monkeypatch: Any, **rest: Any) -> tuple[Any, ...]:
    """A comparison whose trials and runs are not trained, with what it said."""
    trials, fleet = Trials(), Fleet()
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "tune", lambda *a, **k: tune(*a, **{**k, "run": trials}))
        found = run_comparison(
            base, read_contenders(rest.pop("methods", LABELS), base), [0, 1], out, start=fleet,
            on_message=said.append, **rest,
        )  # fmt: skip
    return found, trials, fleet, said


def test_each_contender_has_the_same_number_of_trials_and_runs_with_its_choice(
    base: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    _, trials, _, said = compare(base, out, monkeypatch, n_trials=N_TRIALS)
    assert len(trials.configs) == 2 * N_TRIALS  # there is nothing to choose without augmentation
    assert {config.seed for config in trials.configs} == {choosing.tuning_seed(base)}
    for label in ("random", "instaaug"):
        for seed in (0, 1):
            run = Run(out / label / f"seed_{seed}").read_train_settings()
            assert run.method.name == "random"
            assert run.seed == seed
            assert replace(run.data, vary={}) == base.data
    assert any("instaaug: Chosen: method random" in line for line in said)
    state = read_state(out)
    assert state is not None
    assert set(state.chosen) == {"random", "instaaug"}
    assert state.given_settings("instaaug").method.name == "instaaug"


def test_a_row_says_what_was_chosen(
    base: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    compare(base, out, monkeypatch, n_trials=N_TRIALS)
    write_tables(out, read_comparison(out))
    words = (out / "leaderboard.md").read_text()
    assert "what φ learned was not worth it here. (4 trials on validation images.)" in words
    ours = {m.runs.name for m in read_comparison(out).methods if m.runs.is_ours}
    assert ours == {"instaaug"}


def test_a_lead_that_may_be_chance_is_called_so(
    base: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_is_best(_: Trials, __: TrainSettings, folder: Path, *___: object) -> list[float]:
        return [1.0, float(folder.name == "001"), 0.0]

    monkeypatch.setattr(Trials, "__call__", second_is_best)
    _, _, _, said = compare(base, tmp_path / "out", monkeypatch, n_trials=2, methods="random")
    assert any("(2 trials on validation images; the lead may be chance.)" in x for x in said)


def test_a_choice_is_made_once(
    base: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    compare(base, out, monkeypatch, n_trials=N_TRIALS, methods="random")
    before = read_state(out)
    _, trials, fleet, _ = compare(base, out, monkeypatch, n_trials=N_TRIALS, methods="random")
    assert (trials.configs, fleet.started) == ([], [])
    _, trials, fleet, _ = compare(base, out, monkeypatch, methods="random")  # nor forgotten
    assert (read_state(out), fleet.started) == (before, [])
    _, trials, _, _ = compare(base, out, monkeypatch, n_trials=N_TRIALS, methods=LABELS)
    assert len(trials.configs) == N_TRIALS


def test_who_has_run_cannot_choose_any_more(
    base: TrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(base, tmp_path / "out", monkeypatch)
    with pytest.raises(ArgumentError, match="`tune` must be asked for before the first run"):
        compare(base, tmp_path / "out", monkeypatch, n_trials=N_TRIALS)


def test_trials_must_not_learn_from_test_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_folder(tmp_path / "pets")
    base = TrainSettings.from_mapping({"data": str(tmp_path / "pets"), "data.image_size": 16})
    with pytest.raises(ArgumentError, match="`tune` needs data with test images of their own"):
        compare(base, tmp_path / "out", monkeypatch, n_trials=N_TRIALS)
    assert not (tmp_path / "out").exists()


def test_what_is_chosen_comes_after_what_was_typed() -> None:
    typed = {"method": "random", "method.sizes": [0.5, 1.0], "method.strength": 0.3}
    contender = Contender("mine", typed, {"method.sizes": [0.7, 1.0]})
    options = contender.full_settings(TrainSettings()).method.options
    assert options == {"sizes": [0.7, 1.0], "strength": 0.3}
