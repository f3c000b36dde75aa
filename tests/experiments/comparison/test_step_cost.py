"""Steps that are timed in turns, and what follows from their times."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from lightning.pytorch import LightningModule, Trainer

from instaaug.errors import ArgumentError, NonFiniteError
from instaaug.experiments.comparison import step_times
from instaaug.experiments.comparison.budget import epochs_in, measured_epoch, seconds_of
from instaaug.experiments.comparison.step_cost import cost_of, measured_costs
from instaaug.experiments.comparison.step_times import timed_steps
from instaaug.experiments.config import TrainConfig

BASE = TrainConfig(method="none", batch_size=8, image_size=16, accelerator="cpu")


class FakeTraining:
    """Calls what Lightning would call, on a clock of its own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.clock = 0.0
        self.failing: dict[int, Exception] = {}  # by step, of the second run
        self.configs: list[TrainConfig] = []
        patch.setattr(step_times, "train", self.train)
        patch.setattr(step_times, "_now", lambda _: self.clock)

    def train(self, config: TrainConfig, out: Path, *, callbacks: Sequence[Any]) -> None:
        self.configs.append(config)
        number = int(out.name)
        trainer, module = Mock(spec=Trainer), Mock(spec=LightningModule)
        trainer.num_training_batches, trainer.num_val_batches = 10, [3]
        for step in range(100):
            callbacks[0].on_train_batch_start(trainer, module, None, step)
            if number == 1 and step in self.failing:
                raise self.failing[step]
            self.order.append(f"{number}.{step}")
            self.clock += (1 + number) * (10 if step == 0 else 1)  # the first is slow
            callbacks[0].on_train_batch_end(trainer, module, None, None, step)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    return FakeTraining(monkeypatch)


def test_runs_take_turns_and_warm_up(training: FakeTraining) -> None:
    times = timed_steps({"a": BASE, "b": BASE, "c": BASE}, n_warm_up=1, n_timed=4)
    assert training.order == [f"{run}.{step}" for step in range(5) for run in range(3)]
    assert {name: t.seconds for name, t in times.items()} == {
        "a": [1.0] * 4, "b": [2.0] * 4, "c": [3.0] * 4
    }  # fmt: skip
    assert times["a"].steps_per_epoch == 11  # three validation batches take as long as one step


@pytest.mark.parametrize("step", [0, 2])
def test_a_run_that_fails_leaves_the_others_at_work(training: FakeTraining, step: int) -> None:
    training.failing = {step: NonFiniteError("NaN")}
    times = timed_steps({"a": BASE, "b": BASE, "c": BASE}, n_warm_up=1, n_timed=4)
    assert isinstance(times["b"].error, NonFiniteError)
    assert times["a"].seconds == [1.0] * 4
    assert times["c"].seconds == [3.0] * 4


@pytest.mark.parametrize("step", [0, 4])
def test_the_last_run_may_fail_too(training: FakeTraining, step: int) -> None:
    training.failing = {step: NonFiniteError("NaN")}
    times = timed_steps({"a": BASE, "b": BASE}, n_warm_up=1, n_timed=4)
    assert times["a"].seconds == [1.0] * len(times["a"].seconds)
    assert len(times["a"].seconds) >= 4


def test_few_steps_must_do_if_they_take_long(
    training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_times, "LONGEST", 0.0)
    times = timed_steps({"a": BASE, "b": BASE}, n_warm_up=2, n_timed=50)
    assert [len(t.seconds) for t in times.values()] == [1, 1]


def test_what_is_timed_augments_from_the_first_step(training: FakeTraining) -> None:
    late = TrainConfig(method="random", pretrain_epochs=4, phi_rest_epochs=2, epochs=1)
    timed_steps({"late": late}, n_warm_up=1, n_timed=4)
    (config,) = training.configs
    assert (config.pretrain_epochs, config.phi_rest_epochs) == (0, 0)
    assert config.epochs >= 6


def test_costs_are_ratios_to_the_plainest(training: FakeTraining) -> None:
    costs = measured_costs({"two": BASE, "three": BASE})  # after the plainest, in that order
    assert {label: tuple(cost) for label, cost in costs.items()} == {
        "two": (2.0, 2.0, 2.0), "three": (3.0, 3.0, 3.0)
    }  # fmt: skip


def test_many_contenders_are_timed_in_groups_each_with_the_plainest(
    training: FakeTraining,
) -> None:
    costs = measured_costs({f"run {i}": BASE for i in range(8)})
    assert [cost.median for cost in costs.values()] == [2, 3, 4, 5, 6, 7, 2, 3]


def test_a_contender_that_breaks_has_no_cost_and_one_with_a_slip_is_refused(
    training: FakeTraining,
) -> None:
    training.failing = {1: NonFiniteError("NaN")}
    assert list(measured_costs({"two": BASE, "three": BASE})) == ["three"]
    training.failing = {0: ArgumentError("`alpha` must be positive.")}
    with pytest.raises(ArgumentError, match=r"`alpha` must be positive\. \(the contender two\)"):
        measured_costs({"two": BASE, "three": BASE})


def test_quartiles_are_over_rounds_of_three_steps() -> None:
    seconds = [r for r in (1.0, 2.0, 3.0, 4.0, 5.0) for _ in range(3)]
    assert cost_of(seconds, [1.0] * 15) == (3.0, 2.0, 4.0)
    assert cost_of([2.0, 4.0], [1.0, 1.0]) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize("budget", ["", "10", "m", "0s", "-3m", "1 week", "1h30"])
def test_a_budget_is_a_time(budget: str) -> None:
    with pytest.raises(ArgumentError, match=r"`budget` must be a time like 90s, 10m or 1h30m"):
        seconds_of(budget)


def test_the_epochs_of_a_budget_are_the_same_on_a_machine_of_the_same_pace(
    training: FakeTraining,
) -> None:
    epoch = measured_epoch(BASE)
    assert epoch == 11.0
    assert epochs_in(seconds_of("1m"), epoch) == 5


def test_real_steps_are_timed(tmp_path: Path) -> None:
    random = TrainConfig(method="random", batch_size=8, image_size=16, accelerator="cpu")
    times = timed_steps({"none": BASE, "random": random}, n_warm_up=1, n_timed=6)
    assert [t.error for t in times.values()] == [None, None]
    assert all(len(t.seconds) == 6 and min(t.seconds) > 0 for t in times.values())
    assert times["none"].steps_per_epoch == 6 + 1 / 3  # 43 of 48 images, and one batch of 5
    assert not list(tmp_path.glob("**/config.yaml"))
