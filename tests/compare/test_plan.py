"""What is decided before anything is trained."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from instaaug.compare import plan
from instaaug.compare.comparing import compare, joined_state
from instaaug.compare.contenders import Contender, read_contenders
from instaaug.compare.plan import (
    check_reference,
    plan_words,
    with_costs,
    with_epochs,
    with_reference,
)
from instaaug.compare.results import read_comparison
from instaaug.compare.state import (
    ComparisonState,
    Failure,
    read_state,
    write_state,
)
from instaaug.compare.step_cost import Cost
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.runs.settings import TrainSettings
from tests.support.fleet import Fleet

BASE = TrainSettings.from_mapping({"trainer.max_epochs": 16})
BOTH = read_contenders("none,random", BASE)


@pytest.fixture(autouse=True)
def ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "measured_epoch", lambda _: 10.0)
    monkeypatch.setattr("instaaug.compare.comparing.SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr("instaaug.runs.folder.environment", dict)


def state_of(out: Path, contenders: Sequence[Contender] = BOTH) -> ComparisonState:
    return joined_state(out, BASE, contenders, [0, 1])


# Epochs


@pytest.mark.parametrize("has_epochs", [False, True])
def test_a_budget_has_priority_over_epochs_of_a_file(has_epochs: bool) -> None:
    base, seconds = with_epochs(BASE, None, "1m", has_epochs=has_epochs)
    assert (base.epochs, seconds) == (6, 10.0)


def test_without_a_budget_epochs_are_those_given() -> None:
    assert with_epochs(BASE, None, None, has_epochs=True)[0].epochs == 16


def test_a_comparison_that_is_there_keeps_its_epochs(tmp_path: Path) -> None:
    before = joined_state(tmp_path, BASE.override({"trainer.max_epochs": 6}), BOTH, [0], "1m")
    before = replace(before, epoch_seconds=9.0)
    for budget, has_epochs in (("60s", True), ("1m", False), (None, False)):
        base, seconds = with_epochs(BASE, before, budget, has_epochs=has_epochs)
        assert (base.epochs, seconds) == (6, 9.0)
    assert with_epochs(BASE, before, None, has_epochs=True)[0].epochs == 16  # then refused
    with pytest.raises(ArgumentError, match=r"began with, 1m: got '2m'"):
        with_epochs(BASE, before, "2m", has_epochs=False)
    with pytest.raises(ArgumentError, match="began with, none at all"):
        with_epochs(BASE, replace(before, budget=None), "1m", has_epochs=False)


# Costs


def test_costs_are_measured_once_and_again_if_settings_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[str] = []

    def fake_costs(configs: dict[str, TrainSettings], base: TrainSettings) -> dict[str, Cost]:
        assert base == BASE
        return {label: Cost(2.0, 1.0, 3.0) for label in configs}

    monkeypatch.setattr(plan, "measured_costs", fake_costs)
    state = with_costs(state_of(tmp_path), BOTH, BASE, on_timing=timed.extend)
    write_state(tmp_path, state)
    assert timed == ["none", "random"]
    assert state.costs["random"] == [2.0, 1.0, 3.0]
    again = with_costs(state_of(tmp_path), BOTH, BASE, on_timing=timed.extend)
    assert (again, timed) == (state, ["none", "random"])
    other = [Contender("random", {"method": "random", "sizes": [0.5, 1.0]})]
    changed = state_of(tmp_path, other)  # before a run of it began
    assert list(changed.costs) == ["none"]
    with_costs(changed, other, BASE, on_timing=timed.extend)
    assert timed == ["none", "random", "random"]


# The reference


def test_a_reference_is_kept_and_so_is_when_it_was_named(tmp_path: Path) -> None:
    write_state(tmp_path, with_reference(tmp_path, state_of(tmp_path), "none"))
    compare(BASE, BOTH, [0, 1], tmp_path, start=Fleet())
    state = read_state(tmp_path)
    assert state is not None
    assert (state.reference, state.reference_named_after) == ("none", None)
    assert with_reference(tmp_path, state, None) == state
    assert with_reference(tmp_path, state, "none") == state
    found = read_comparison(tmp_path)
    assert (found.reference, found.named_after) == ("none", None)
    late = with_reference(tmp_path, state, "random")
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
    compare(BASE, BOTH, [0], tmp_path, start=fleet)
    state = replace(state_of(tmp_path), epoch_seconds=10.0, costs={"random": [2.0, 2.0, 2.0]})
    words = plan_words(tmp_path, state, BOTH, [0, 1], jobs=1, retry=False)
    assert "2 methods × 2 seeds = 4 runs of 16 epochs, of which 2 are left; about 8 min" in words
    words = plan_words(tmp_path, state, BOTH, [0, 1], jobs=1, retry=True)
    assert "of which 3 are left; about 13 min" in words


def test_more_seeds_of_one_method_take_no_rank_from_others(tmp_path: Path) -> None:
    compare(BASE, BOTH, [0, 1], tmp_path, start=Fleet())
    compare(BASE, BOTH[1:], [2], tmp_path, start=Fleet())
    found = {m.runs.name: m for m in read_comparison(tmp_path).methods}
    assert [found[name].runs.n_expected for name in ("none", "random")] == [2, 3]
    assert all(m.rank == 1 for m in found.values())
