"""A policy is found on the training images alone, again and again the same, in spite of kills."""

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from torch import Tensor
from typing_extensions import override

from instaaug.augmentation.augmenter import HeldOutBatch
from instaaug.data import DataSplits, LabeledImages
from instaaug.errors import ArgumentError, DataError
from instaaug.methods import NoAugmentation
from instaaug.methods.fast_auto_augment import (
    FastAutoAugment,
    MissingOptunaError,
    Step,
    SubPolicy,
    density_match,
)
from instaaug.runs import policy_search
from instaaug.runs.folder import DataFacts
from instaaug.runs.policy_search import FILE, find_policy, prepare_policy
from instaaug.runs.settings import TrainSettings
from instaaug.tasks import AugmentedTask, BatchLoader, Interrupted
from tests.support.tiny_training import dropout_classifier, labeled_halves

CONFIG = TrainSettings.from_mapping(
    {
        "model": f"tests.support.tiny_training:{dropout_classifier.__name__}",
        "trainer.max_epochs": 3,
        "data.batch_size": 16,
        "optimizer.learning_rate": 0.03,
        "trainer.accelerator": "cpu",
    }
)
SETTINGS = {"n_folds": 2, "n_trials": 2, "n_images": 10}
Policy = tuple[SubPolicy, ...]


def halves() -> DataSplits:
    """Bright left or right halves, three of the one for two of the other; each image differs."""
    data = labeled_halves(100)
    rows = np.flatnonzero((np.arange(100) % 2 == 0) | (np.arange(100) % 3 != 0))
    some = data.subset(rows)
    return DataSplits(some, None, labeled_halves(10, seed=1), name="halves")


SPLITS = halves()


def facts() -> DataFacts:
    return DataFacts.of(SPLITS)


def found(config: TrainSettings = CONFIG, **settings: Any) -> Policy:
    folder, on_trial = settings.pop("folder", None), settings.pop("on_trial", None)
    aug = FastAutoAugment(**{**SETTINGS, **settings})
    return find_policy(config, SPLITS, facts(), aug, folder=folder, on_trial=on_trial)


class Searches:
    """What the folds handed to the search, which finds the fold's number."""

    def __init__(self) -> None:
        self.held_out: list[HeldOutBatch] = []
        self.models: list[torch.nn.Module] = []
        self.seeds: list[int] = []

    def __call__(
        self, model: torch.nn.Module, held_out: HeldOutBatch, _: FastAutoAugment, **settings: Any
    ) -> Policy:
        self.held_out.append(held_out)
        self.models.append(model)
        self.seeds.append(settings["seed"])
        return ((Step("invert", len(self.seeds) / 10, 0.0), Step("color", 0.0, 0.0)),)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Searches:
    recorder = Searches()
    monkeypatch.setattr(policy_search, "search_policy", recorder)
    return recorder


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[AugmentedTask, LabeledImages]]:
    """The tasks and images that folds train with."""
    seen: list[tuple[AugmentedTask, LabeledImages]] = []
    fit: Callable[..., None] = Trainer.fit

    def recording(self: Any, task: AugmentedTask, loader: Any, *rest: Any) -> None:
        seen.append((task, loader.data))
        fit(self, task, loader, *rest)

    monkeypatch.setattr(Trainer, "fit", recording)
    return seen


def images_of(batch: HeldOutBatch) -> set[bytes]:
    known = facts()
    m, s = (torch.tensor(v).view(1, -1, 1, 1) for v in (known.mean, known.std))
    pixels = ((batch.inputs * s + m) * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return {image.contiguous().numpy().tobytes() for image in pixels}


def pixels_of(data: LabeledImages) -> set[bytes]:
    rows = range(len(data.images)) if data.rows is None else data.rows
    return {data.images[row].tobytes() for row in rows}


def test_each_fold_holds_out_other_training_images_of_all_classes(
    searches: Searches, trained: list[tuple[AugmentedTask, LabeledImages]]
) -> None:
    found(n_folds=3, n_images=0)
    everything = pixels_of(SPLITS.train)
    for batch, (task, images) in zip(searches.held_out, trained, strict=True):
        held_out = images_of(batch)
        assert not held_out & pixels_of(images)
        assert held_out | pixels_of(images) == everything
        for label in (0, 1):
            share = (batch.targets == label).sum() / (SPLITS.train.targets == label).sum()
            assert share == pytest.approx(0.4, abs=0.02)
        assert isinstance(task.augmenter, NoAugmentation)
    assert len({frozenset(images_of(batch)) for batch in searches.held_out}) == 3
    assert len(set(searches.seeds)) == 3


def test_models_have_learned_and_differ(searches: Searches) -> None:
    found(n_images=0)
    for model, batch in zip(searches.models, searches.held_out, strict=True):
        assert density_match(model.eval(), batch, FastAutoAugment(), n_passes=1) > 0.9
    first, second = (next(iter(model.parameters())) for model in searches.models)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("n_images", [10, 1000])
def test_policies_are_judged_by_so_many_images_in_proportion(
    n_images: int, searches: Searches
) -> None:
    found(n_folds=1, n_images=n_images)
    (batch,) = searches.held_out
    n = len(SPLITS.train)
    assert len(batch.targets) == min(n_images, round(0.4 * n))
    share = float((SPLITS.train.targets == 0).float().mean())
    assert abs(float((batch.targets == 0).sum()) - share * len(batch.targets)) <= 1


@pytest.mark.parametrize(("fold_epochs", "epochs"), [(0, 3), (1, 1)])
def test_models_are_trained_as_long_as_asked(
    fold_epochs: int,
    epochs: int,
    searches: Searches,
    trained: list[tuple[AugmentedTask, LabeledImages]],
) -> None:
    run = CONFIG.override(
        {"n_samples": 2, "pretrain_epochs": 1, "method": "fast_autoaugment", "method.n_folds": 1}
    )
    found(run, n_folds=1, fold_epochs=fold_epochs)
    ((task, images),) = trained
    n_batches = -(-len(images) // CONFIG.data.batch_size)
    assert task.n_steps == epochs * n_batches
    assert (task.n_samples, task.pretrain_epochs) == (1, 0)


def test_the_seed_decides_and_no_file_and_no_random_state_is_touched(tmp_path: Path) -> None:
    state = torch.get_rng_state()
    first = found()
    torch.rand(3)
    assert found() == first
    assert found(CONFIG.override({"seed": 1})) != first
    assert list(tmp_path.iterdir()) == []
    torch.set_rng_state(state)
    found()
    assert torch.equal(torch.get_rng_state(), state)


def test_what_folds_find_is_joined_in_order(searches: Searches) -> None:
    steps = [one[0] for one in found(n_folds=3)]
    assert [step.probability for step in steps] == [0.1, 0.2, 0.3]


class Killed(BaseException):
    """Nothing catches this."""


@pytest.mark.parametrize("n_done", [1, 2, 3])
def test_a_search_that_was_killed_goes_on_to_the_same_policy(
    n_done: int, tmp_path: Path, trained: list[tuple[AugmentedTask, LabeledImages]]
) -> None:
    told: list[tuple[int, int]] = []

    def on_trial(done: int, total: int) -> None:
        told.append((done, total))
        if done == n_done:
            raise Killed

    with pytest.raises(Killed):
        found(folder=tmp_path, on_trial=on_trial)
    n_finished = (n_done - 1) // 2  # folds of two trials
    assert (tmp_path / FILE).exists() == (n_finished > 0)
    trained.clear()
    resumed = found(folder=tmp_path, on_trial=lambda *place: told.append(place))
    assert len(trained) == 2 - n_finished
    assert resumed == found()
    again = [(i, 4) for i in range(2 * n_finished + 1, 5)]
    assert told == [(i, 4) for i in range(1, n_done + 1)] + again


def test_a_search_that_is_asked_to_stop_does_not_end_as_if_all_were_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Asked(BatchLoader):
        @override
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            for batch in super().__iter__():
                signal.raise_signal(signal.SIGTERM)
                yield batch

    monkeypatch.setattr(policy_search, "BatchLoader", Asked)
    former = signal.signal(signal.SIGTERM, lambda *_: None)  # or the tests would be stopped
    try:
        with pytest.raises(Interrupted, match="Stopped by SIGTERM in the search for a policy"):
            found()
    finally:
        signal.signal(signal.SIGTERM, former)


def test_the_augmenter_of_a_run_receives_the_policy_that_its_folder_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (FastAutoAugment(**SETTINGS) for _ in range(2))  # type: ignore[arg-type]
    prepare_policy(tmp_path, CONFIG, SPLITS, facts(), first)
    assert 0 < len(first.policy) <= 2 * 2 * 5  # folds, trials, sub-policies
    assert first.policy == found()
    monkeypatch.setattr(policy_search, "search_policy", None)
    prepare_policy(tmp_path, CONFIG, SPLITS, facts(), second)
    assert second.policy == first.policy
    content = json.loads((tmp_path / FILE).read_text())
    assert [tuple(step) for fold in content["folds"] for one in fold for step in one] == [
        tuple(step) for one in first.policy for step in one
    ]


def test_what_another_search_left_is_not_taken_for_this_one(
    tmp_path: Path, searches: Searches
) -> None:
    found(folder=tmp_path)
    for name in ("n_trials", "n_images", "fold_epochs", "n_folds"):
        other: dict[str, Any] = {name: SETTINGS.get(name, 0) + 1}
        with pytest.raises(DataError, match=r"from a search with other settings: .*Delete it"):
            found(folder=tmp_path, **other)
    with pytest.raises(DataError, match="from a search with other settings"):
        found(CONFIG.override({"seed": 5}), folder=tmp_path)
    for text in ("{", "[" * 100_000, '{"made_with": {}, "folds": [{"a": 1}]}', "[]"):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(DataError, match="cannot be read as a search for a policy"):
            found(folder=tmp_path)


def test_what_cannot_work_is_refused_before_anything_is_trained(
    trained: list[tuple[AugmentedTask, LabeledImages]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgumentError, match="`n_policies` must be at least 100 for 2 folds"):
        found(n_policies=99)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingOptunaError, match="needs Optuna"):
        found()
    assert trained == []
