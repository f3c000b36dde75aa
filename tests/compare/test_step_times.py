"""Steps that are timed in turns, and what follows from their times."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from lightning.pytorch import LightningModule, Trainer

from instaaug.compare import step_times
from instaaug.compare.step_times import measure_epoch, measure_step_costs, step_cost, time_steps
from instaaug.errors import ArgumentError, NonFiniteError
from instaaug.runs.settings import TrainSettings

BASE = TrainSettings.from_mapping(
    {"method": "none", "data.batch_size": 8, "data.image_size": 16, "trainer.accelerator": "cpu"}
)


class FakeTraining:
    """Calls what Lightning would call, on a clock of its own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.clock = 0.0
        self.failing: dict[int, Exception] = {}  # by step, of the second run
        self.search_every = 1  # of the second run, at ten times the cost
        self.configs: list[TrainSettings] = []
        patch.setattr(step_times, "train", self.train)
        patch.setattr(step_times, "_now", lambda _: self.clock)

    def train(self, config: TrainSettings, out: Path, *, callbacks: Sequence[Any]) -> None:
        self.configs.append(config)
        number = int(out.name)
        trainer, module = Mock(spec=Trainer), Mock(spec=LightningModule)
        trainer.num_training_batches, trainer.num_val_batches = 10, [3]
        searches = number == 1 and self.search_every > 1
        if searches:
            module.period = self.search_every
        for step in range(100):
            callbacks[0].on_train_batch_start(trainer, module, None, step)
            if number == 1 and step in self.failing:
                raise self.failing[step]
            self.order.append(f"{number}.{step}")
            is_slow = step == 0 or (searches and step % self.search_every == 0)
            self.clock += (1 + number) * (10 if is_slow else 1)
            callbacks[0].on_train_batch_end(trainer, module, None, None, step)


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    return FakeTraining(monkeypatch)


def test_runs_take_turns_and_warm_up(training: FakeTraining) -> None:
    times = time_steps({"a": BASE, "b": BASE, "c": BASE}, n_warm_up=1, n_timed=4)
    assert training.order == [f"{run}.{step}" for step in range(5) for run in range(3)]
    assert {name: t.seconds for name, t in times.items()} == {
        "a": [1.0] * 4, "b": [2.0] * 4, "c": [3.0] * 4
    }  # fmt: skip
    assert times["a"].steps_per_epoch == 11  # three validation batches take as long as one step


@pytest.mark.parametrize("step", [0, 2])
def test_a_run_that_fails_leaves_the_others_at_work(training: FakeTraining, step: int) -> None:
    training.failing = {step: NonFiniteError("NaN")}
    times = time_steps({"a": BASE, "b": BASE, "c": BASE}, n_warm_up=1, n_timed=4)
    assert isinstance(times["b"].error, NonFiniteError)
    assert times["a"].seconds == [1.0] * 4
    assert times["c"].seconds == [3.0] * 4


@pytest.mark.parametrize("step", [0, 4])
def test_the_last_run_may_fail_too(training: FakeTraining, step: int) -> None:
    training.failing = {step: NonFiniteError("NaN")}
    times = time_steps({"a": BASE, "b": BASE}, n_warm_up=1, n_timed=4)
    assert times["a"].seconds == [1.0] * len(times["a"].seconds)
    assert len(times["a"].seconds) >= 4


def test_few_steps_must_do_if_they_take_long(
    training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_times, "MAX_SECONDS", 0.0)
    times = time_steps({"a": BASE, "b": BASE}, n_warm_up=2, n_timed=50)
    assert [len(t.seconds) for t in times.values()] == [1, 1]


def test_what_is_timed_augments_from_the_first_step(training: FakeTraining) -> None:
    stages = {"pretrain_epochs": 4, "finetune_epochs": 3, "phi.rest_epochs": 2}
    late = TrainSettings.from_mapping({"method": "random", "trainer.max_epochs": 1, **stages})
    time_steps({"late": late}, n_warm_up=1, n_timed=4)
    (config,) = training.configs
    assert (config.pretrain_epochs, config.finetune_epochs, config.phi.rest_epochs) == (0, 0, 0)
    assert config.trainer.max_epochs >= 6


def test_costs_are_ratios_to_steps_without_augmentation(training: FakeTraining) -> None:
    costs = measure_step_costs({"two": BASE, "three": BASE}, BASE)
    assert {label: tuple(cost) for label, cost in costs.items()} == {
        "two": (2.0, 2.0, 2.0), "three": (3.0, 3.0, 3.0)
    }  # fmt: skip


@pytest.mark.parametrize("every", [2, 5, 40])
def test_a_search_that_is_rare_counts_with_its_share(training: FakeTraining, every: int) -> None:
    training.search_every = every
    costs = measure_step_costs({"two": BASE, "three": BASE}, BASE)
    assert costs["two"].median == pytest.approx(2 * (every - 1 + 10) / every)
    assert costs["three"].median == 3.0


def test_without_the_time_for_one_search_there_is_no_cost(
    training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_times, "MAX_SECONDS", 0.0)
    training.search_every = 12
    assert list(measure_step_costs({"two": BASE, "three": BASE}, BASE)) == ["three"]


def test_steps_without_augmentation_have_the_shared_settings_and_not_those_of_a_contender(
    training: FakeTraining,
) -> None:
    base = TrainSettings.from_mapping(
        {"method": "instaaug", "phi.step": "separate", "data.flip": True}
    )
    own = TrainSettings.from_mapping(
        {"method": "random", "trainer.gradient_clip_val": 1.0, "n_samples": 4}
    )
    measure_step_costs({"own": own}, base)
    measure_epoch(base)
    for timed in (training.configs[0], training.configs[2]):
        assert (timed.method.name, timed.phi.step, timed.data.flip) == ("none", "joint", True)
        assert (timed.trainer.gradient_clip_val, timed.n_samples) == (0.0, 1)


def test_a_policy_search_is_cut_short_with_its_other_options(training: FakeTraining) -> None:
    mine = TrainSettings.from_mapping(
        {"method": "fast_autoaugment", "method.n_trials": 200, "method.n_operations": 1}
    )
    time_steps({"mine": mine}, n_warm_up=1, n_timed=2)
    assert training.configs[0].method.options == {
        "fold_epochs": 1, "n_folds": 1, "n_operations": 1, "n_trials": 1
    }  # fmt: skip


def test_many_contenders_are_timed_in_groups(
    training: FakeTraining,
) -> None:
    costs = measure_step_costs({f"run {i}": BASE for i in range(8)}, BASE)
    assert [cost.median for cost in costs.values()] == [2, 3, 4, 5, 6, 7, 2, 3]


def test_a_contender_that_diverges_has_no_cost_and_one_with_wrong_settings_is_refused(
    training: FakeTraining,
) -> None:
    training.failing = {1: NonFiniteError("NaN")}
    assert list(measure_step_costs({"two": BASE, "three": BASE}, BASE)) == ["three"]
    training.failing = {0: ArgumentError("`alpha` must be positive.")}
    with pytest.raises(ArgumentError, match=r"`alpha` must be positive\. \(the contender two\)"):
        measure_step_costs({"two": BASE, "three": BASE}, BASE)


def test_quartiles_are_over_rounds() -> None:
    seconds = [r for r in (1.0, 2.0, 3.0, 4.0, 5.0) for _ in range(3)]
    assert step_cost(seconds, [1.0] * 15) == (3.0, 2.0, 4.0)
    assert step_cost(seconds, [1.0] * 15, period=5) == pytest.approx((3.0, 2.2, 3.8))
    assert step_cost([2.0, 4.0], [1.0, 1.0]) == (3.0, 3.0, 3.0)


def test_the_time_of_an_epoch_follows_from_a_few_steps(training: FakeTraining) -> None:
    assert measure_epoch(BASE) == 11.0


def test_real_steps_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    random = TrainSettings.from_mapping(
        {
            "method": "random",
            "data.batch_size": 8,
            "data.image_size": 16,
            "trainer.accelerator": "cpu",
        }
    )
    times = time_steps({"none": BASE, "random": random}, n_warm_up=1, n_timed=6)
    assert [t.error for t in times.values()] == [None, None]
    assert all(len(t.seconds) == 6 and min(t.seconds) > 0 for t in times.values())
    assert times["none"].steps_per_epoch == 6 + 1 / 3  # 43 of 48 images, and one batch of 5
    assert not list(tmp_path.glob("**/config.yaml"))
