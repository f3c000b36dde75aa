"""What is decided before anything is trained."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from instaaug.compare import plan
from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.plan import (
    add_costs,
    check_reference,
    choose_epochs,
    describe_plan,
    parse_duration,
    plan_state,
    set_reference,
)
from instaaug.compare.results import read_comparison
from instaaug.compare.runner import run_contenders
from instaaug.compare.state import ComparisonState, Failure, read_state, write_state
from instaaug.compare.step_times import StepCost
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.runs.settings import TrainSettings
from tests.support.fleet import Fleet

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 16})
BOTH = read_contenders("none,random", BASE)


@pytest.fixture(autouse=True)
def ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "measure_epoch", lambda _: 10.0)
    monkeypatch.setattr("instaaug.compare.runner.POLL_SECONDS", 0.0)
    monkeypatch.setattr("instaaug.runs.folder.environment", dict)


def state_of(out: Path, contenders: Sequence[Contender] = BOTH) -> ComparisonState:
    return plan_state(out, BASE, contenders, [0, 1])


# Epochs


@pytest.mark.parametrize("epochs_are_set", [False, True])
def test_a_budget_has_priority_over_epochs_of_a_file(epochs_are_set: bool) -> None:
    base, seconds = choose_epochs(BASE, None, "1m", epochs_are_set=epochs_are_set)
    assert (base.trainer.max_epochs, seconds) == (6, 10.0)


def test_without_a_budget_epochs_are_those_given() -> None:
    assert choose_epochs(BASE, None, None, epochs_are_set=True)[0].trainer.max_epochs == 16


def test_a_comparison_that_is_there_keeps_its_epochs(tmp_path: Path) -> None:
    before = plan_state(tmp_path, BASE.override({"trainer.max_epochs": 6}), BOTH, [0], "1m")
    before = replace(before, epoch_seconds=9.0)
    for budget, epochs_are_set in (("60s", True), ("1m", False), (None, False)):
        base, seconds = choose_epochs(BASE, before, budget, epochs_are_set=epochs_are_set)
        assert (base.trainer.max_epochs, seconds) == (6, 9.0)
    assert (
        choose_epochs(BASE, before, None, epochs_are_set=True)[0].trainer.max_epochs == 16
    )  # then refused
    with pytest.raises(ArgumentError, match=r"began with, 1m: got '2m'"):
        choose_epochs(BASE, before, "2m", epochs_are_set=False)
    with pytest.raises(ArgumentError, match="began with, none at all"):
        choose_epochs(BASE, replace(before, budget=None), "1m", epochs_are_set=False)


@pytest.mark.parametrize("budget", ["", "10", "m", "0s", "-3m", "1 week", "1h30"])
def test_a_budget_is_a_time(budget: str) -> None:
    with pytest.raises(ArgumentError, match=r"`budget` must be a time like 90s, 10m or 1h30m"):
        parse_duration(budget)


# Costs


def test_costs_are_measured_once_and_again_if_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[str] = []

    def fake_costs(configs: dict[str, TrainSettings], base: TrainSettings) -> dict[str, StepCost]:
        assert base == BASE
        return {label: StepCost(2.0, 1.0, 3.0) for label in configs}

    monkeypatch.setattr(plan, "measure_step_costs", fake_costs)
    state = add_costs(state_of(tmp_path), BOTH, BASE, on_timing=timed.extend)
    write_state(tmp_path, state)
    assert timed == ["none", "random"]
    assert state.costs["random"] == [2.0, 1.0, 3.0]
    again = add_costs(state_of(tmp_path), BOTH, BASE, on_timing=timed.extend)
    assert (again, timed) == (state, ["none", "random"])
    other = [Contender("random", {"method": "random", "method.sizes": [0.5, 1.0]})]
    changed = state_of(tmp_path, other)  # before a run of it began
    assert list(changed.costs) == ["none"]
    add_costs(changed, other, BASE, on_timing=timed.extend)
    assert timed == ["none", "random", "random"]


# The reference


def test_a_reference_is_kept_and_so_is_when_it_was_named(tmp_path: Path) -> None:
    write_state(tmp_path, set_reference(tmp_path, state_of(tmp_path), "none"))
    run_contenders(BASE, BOTH, [0, 1], tmp_path, start=Fleet())
    state = read_state(tmp_path)
    assert state is not None
    assert (state.reference, state.reference_named_after) == ("none", None)
    assert set_reference(tmp_path, state, None) == state
    assert set_reference(tmp_path, state, "none") == state
    found = read_comparison(tmp_path)
    assert (found.reference, found.named_after) == ("none", None)
    late = set_reference(tmp_path, state, "random")
    assert (late.reference, late.reference_named_after) == ("random", 4)
    assert read_comparison(tmp_path, reference="random").named_after == 4
    write_state(tmp_path, late)
    found = read_comparison(tmp_path)
    assert (found.reference, found.named_after) == ("random", 4)


def test_a_reference_takes_part_or_did_before(tmp_path: Path) -> None:
    check_reference(None, BOTH, "random")
    check_reference(state_of(tmp_path), BOTH[:1], "random")
    with pytest.raises(UnknownNameError, match="no contender called 'random'"):
        check_reference(None, BOTH[:1], "random")


# Words


def test_the_plan_counts_what_is_left(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.failing = {"random/seed_0": Failure("NaN.", [])}
    run_contenders(BASE, BOTH, [0], tmp_path, start=fleet)
    state = replace(state_of(tmp_path), epoch_seconds=10.0, costs={"random": [2.0, 2.0, 2.0]})
    words = describe_plan(tmp_path, state, BOTH, [0, 1], jobs=1, retry=False)
    assert "2 methods × 2 seeds = 4 runs of 16 epochs, of which 2 are left; about 8 min" in words
    words = describe_plan(tmp_path, state, BOTH, [0, 1], jobs=1, retry=True)
    assert "of which 3 are left; about 13 min" in words


def test_more_seeds_of_one_method_take_no_rank_from_others(tmp_path: Path) -> None:
    run_contenders(BASE, BOTH, [0, 1], tmp_path, start=Fleet())
    run_contenders(BASE, BOTH[1:], [2], tmp_path, start=Fleet())
    found = {m.runs.name: m for m in read_comparison(tmp_path).methods}
    assert [found[name].runs.n_expected for name in ("none", "random")] == [2, 3]
    assert all(m.rank == 1 for m in found.values())
