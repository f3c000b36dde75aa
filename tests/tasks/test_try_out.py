"""Mirror images, another light and whole images are tried on the side, and kept if they help."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from typing_extensions import override

from instaaug import InstaAug
from instaaug import transforms as T
from instaaug.data import LabeledImages
from instaaug.errors import NonFiniteError
from instaaug.methods import RandomAugmentation
from instaaug.tasks import BatchLoader, Checkpoints, Interrupted, Optimization, SupervisedTask
from instaaug.tasks import try_out as module
from instaaug.tasks.cross_fit import CrossFit
from instaaug.tasks.try_out import (
    FEWEST_IMAGES,
    QUESTIONS,
    Finding,
    Judged,
    TryOut,
    describe_findings,
)
from tests.support.models import small_classifier
from tests.support.tiny_training import fit, parameters_of, supervised

SIDE, BATCH = 8, 16
N_TRAIN, N_IMAGES = 160, 320
N_EPOCHS, FIRST, LATE = 10, 3, 7
LIMIT = 0.03
GRAY, SPREAD = (0.5,) * 3, (0.25,) * 3
CROPS = T.Crop(levels=((0.75, 2), (1.0, 1)), max_outside=0.0)


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial of a fifth of the run, and of ten steps at least."""
    monkeypatch.setattr(module, "LENGTH", 0.2)
    monkeypatch.setattr(module, "FEWEST_STEPS", 10)


def halves(axis: int) -> LabeledImages:
    """Noise in any light, a little brighter in one half, which is the class."""
    random = np.random.default_rng(0)
    labels = np.arange(N_IMAGES) % 2
    pixels = random.integers(20, 100, (N_IMAGES, SIDE, SIDE, 3)).astype(float)
    first, second = np.split(pixels, 2, axis=axis)  # views
    first[labels == 0] += 10
    second[labels == 1] += 10
    pixels *= random.uniform(0.5, 2.0, (N_IMAGES, 1, 1, 1))
    return LabeledImages(pixels.astype(np.uint8), torch.from_numpy(labels), classes=("a", "b"))


LEFT_OR_RIGHT, TOP_OR_BOTTOM = halves(2), halves(1)


def dark_or_bright() -> LabeledImages:
    """Noise of two classes that differ by a little light, and by nothing else."""
    random = np.random.default_rng(0)
    labels = np.arange(N_IMAGES) % 2
    pixels = random.integers(80, 140, (N_IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    pixels[labels == 1] += 30
    return LabeledImages(pixels, torch.from_numpy(labels), classes=("dark", "bright"))


def light(strength: float) -> RandomAugmentation:
    return RandomAugmentation("brightness", strength=strength, mean=GRAY, std=SPREAD)


class Noting(Callback):
    """Whether images are mirrored and relit, at the end of each epoch."""

    def __init__(self) -> None:
        self.seen: list[tuple[bool, bool]] = []

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.seen.append((pl_module.flip, pl_module.vary is not None))


def train(
    data: LabeledImages,
    *callbacks: Callback,
    held_out: LabeledImages | None = None,
    epochs: int = N_EPOCHS,
    precision: Any = "32-true",
    network: str = "glance",
    **settings: Any,
) -> SupervisedTask:
    torch.manual_seed(0)
    aug = InstaAug(
        CROPS, estimator="closed_form", mean=GRAY, std=SPREAD, network=network, width=0.1
    )
    kept = data.subset(np.arange(N_TRAIN, len(data))) if held_out is None else held_out
    cross_fit = CrossFit(kept, (np.arange(len(kept)),), epochs, is_apart=True)
    task = supervised(
        aug, model=small_classifier(2), cross_fit=cross_fit, phi_goal="usefulness",
        mean=GRAY, std=SPREAD, optimization=Optimization("sgd", 0.1), **settings,
    )  # fmt: skip
    loader = BatchLoader(data.subset(np.arange(N_TRAIN)), BATCH, seed=0)
    fit(task, loader, epochs=epochs, callbacks=callbacks, precision=precision)
    return task


def tries(
    data: LabeledImages, *, mirror: bool = True, strength: float = 0.1, whole: bool = False
) -> TryOut:
    known = data.subset(np.arange(N_TRAIN))
    return TryOut(known, mirror=mirror, light=light(strength) if strength else None, whole=whole)


@pytest.mark.parametrize(
    ("data", "strength", "safe"),
    [
        (LEFT_OR_RIGHT, 0.1, {"mirror": False, "light": True}),
        (TOP_OR_BOTTOM, 0.1, {"mirror": True, "light": True}),
        (dark_or_bright(), 0.5, {"mirror": True, "light": False}),
    ],
    ids=["left or right", "top or bottom", "dark or bright"],
)
def test_all_happens_at_first_and_then_what_is_safe(
    data: LabeledImages, strength: float, safe: dict[str, bool]
) -> None:
    tried, noted = tries(data, strength=strength), Noting()
    task = train(data, tried, noted)
    assert {name: one.is_kept for name, one in tried.findings.items()} == safe
    assert noted.seen[:FIRST] == [(True, True)] * FIRST
    assert noted.seen[FIRST:] == [(safe["mirror"], safe["light"])] * (N_EPOCHS - FIRST)
    assert task.flip == safe["mirror"]
    for name, is_safe in safe.items():
        words = describe_findings({name: tried.findings[name]})
        assert ("(kept)" in words, "left out from here on" in words) == (is_safe, not is_safe)


@pytest.mark.parametrize(
    "settings", [{}, {"gradient_clip_val": 0.1}, {"accumulate_grad_batches": 2}]
)
def test_a_trial_leaves_no_trace_in_the_model(settings: dict[str, Any]) -> None:
    data = TOP_OR_BOTTOM
    tried = tries(data, strength=0.0)
    with_trial = train(data, tried, **settings)
    without = train(data, flip=True, **settings)
    assert tried.findings["mirror"].is_kept
    assert torch.equal(parameters_of(with_trial), parameters_of(without))
    assert with_trial.n_steps == without.n_steps
    for one, other in zip(with_trial.buffers(), without.buffers(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_weights_move_during_a_trial_in_any_precision(precision: str) -> None:
    """Autocast keeps cast weights as long as its context lasts."""
    data = LEFT_OR_RIGHT
    tried = tries(data)
    train(data, tried, precision=precision)
    assert tried.findings["mirror"].difference > 0.05
    assert tried.findings["mirror"].loss < 0.66


def test_a_trial_brings_back_the_statistics_of_phi_too() -> None:
    data = TOP_OR_BOTTOM
    with_trial = train(data, tries(data, strength=0.0), network="preact_resnet18_bn")
    without = train(data, flip=True, network="preact_resnet18_bn")
    for one, other in zip(
        with_trial.augmenter.buffers(), without.augmenter.buffers(), strict=True
    ):
        assert torch.equal(one, other)


def test_a_trial_that_diverges_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise NonFiniteError("The loss became NaN.")

    monkeypatch.setattr(TryOut, "_learn", diverge)
    tried, noted = tries(TOP_OR_BOTTOM), Noting()
    train(TOP_OR_BOTTOM, tried, noted)
    assert tried.findings == {}
    assert noted.seen[FIRST - 1 :] == [(True, True)] + [(False, False)] * (N_EPOCHS - FIRST)


def test_a_loss_of_zero_is_no_trouble() -> None:
    found = {"mirror": Finding(0.0, 0.001, 0.0005, LIMIT)}
    assert found["mirror"].is_kept
    assert "by +0.2% ± 0.1% (kept)" in describe_findings(found)


def test_a_run_of_an_earlier_version_goes_on_as_it_was() -> None:
    tried = tries(TOP_OR_BOTTOM)
    task = train(TOP_OR_BOTTOM, epochs=1)
    tried.on_train_start(task.trainer, task)
    assert (tried.findings, task.flip, task.vary) == ({}, False, None)


def test_what_was_not_tried_yet_is_told() -> None:
    assert tries(TOP_OR_BOTTOM).to_dict() == {"words": ""}


def test_a_trial_says_how_much_the_loss_changes() -> None:
    data = LEFT_OR_RIGHT
    tried = tries(data)
    train(data, tried)
    found = tried.findings["mirror"]
    assert found.loss < 0.6  # the model has learned to tell left from right
    assert found.difference > 5 * found.error > 0
    assert tried.findings["light"].loss == found.loss  # both are compared with the same steps


@pytest.mark.parametrize(
    ("n_held_out", "epochs"), [(FEWEST_IMAGES - 2, N_EPOCHS), (N_IMAGES - N_TRAIN, 4)]
)
def test_nothing_happens_where_nothing_could_be_found_out(n_held_out: int, epochs: int) -> None:
    data = TOP_OR_BOTTOM
    held_out = data.subset(np.arange(N_TRAIN, N_TRAIN + n_held_out))
    tried, noted = tries(data), Noting()
    task = train(data, tried, noted, held_out=held_out, epochs=epochs)
    assert (tried.findings, describe_findings(tried.findings or {})) == ({}, "")
    assert noted.seen == [(False, False)] * epochs
    assert torch.equal(
        parameters_of(task), parameters_of(train(data, held_out=held_out, epochs=epochs))
    )


def test_what_is_not_tried_stays_as_it_is() -> None:
    data = LEFT_OR_RIGHT
    tried, noted = tries(data, mirror=False), Noting()
    train(data, tried, noted, flip=True)
    assert list(tried.findings) == ["light"]
    assert all(flip for flip, _ in noted.seen)


SAFE, UNSAFE = Finding(1.0, 0.0, 0.1, LIMIT), Finding(1.0, 0.1, 0.1, LIMIT)


@pytest.mark.parametrize(
    ("still_open", "findings", "expected"),
    [
        (("mirror", "light"), {}, (True, True)),
        ((), {"mirror": SAFE, "light": UNSAFE}, (True, False)),
        ((), {}, (False, False)),
    ],
)
def test_findings_survive_a_checkpoint(
    still_open: tuple[str, ...], findings: dict[str, Finding], expected: tuple[bool, bool]
) -> None:
    data = TOP_OR_BOTTOM
    before, after = tries(data), tries(data)
    before.open, before.findings, before.finetune_epochs = still_open, findings, 4
    after.load_state_dict(before.state_dict())
    assert (after.open, after.findings) == (still_open, findings)
    assert after.finetune_epochs == before.finetune_epochs == 4
    noted = Noting()
    train(data, after, noted, epochs=10)
    assert noted.seen[0] == expected


class AskToStop(Callback):
    """Asks when the trial is about to begin."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.checkpoints = checkpoints

    @override
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.current_epoch == FIRST:
            self.checkpoints.asked_to_stop = "SIGINT"


def test_a_trial_can_be_stopped_and_the_last_epoch_is_saved(tmp_path: Path) -> None:
    data = TOP_OR_BOTTOM
    checkpoints = Checkpoints(tmp_path / "last.ckpt")
    with pytest.raises(Interrupted, match=f"in epoch {FIRST + 1} of {N_EPOCHS}"):
        train(data, AskToStop(checkpoints), tries(data), checkpoints)
    saved = torch.load(checkpoints.path, weights_only=True)
    assert saved["progress"]["history"][-1]["epoch"] == FIRST - 1
    assert saved["callbacks"][TryOut.__qualname__] == {
        "open": ["mirror", "light"],
        "findings": {},
        "finetune_epochs": 0,
    }


# --- whole images to the end --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("early", "late", "n_epochs"),
    [(-10.0, 10.0, N_EPOCHS - LATE), (-10.0, -10.0, 0), (10.0, 10.0, N_EPOCHS - FIRST)],
)
def test_a_run_ends_as_if_it_had_known_how_to(
    early: float, late: float, n_epochs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, whatever the trials say."""
    for name, limit in (("whole_early", early), ("whole", late)):
        monkeypatch.setitem(QUESTIONS, name, replace(QUESTIONS[name], limit=limit))
    tried = tries(TOP_OR_BOTTOM, mirror=False, strength=0.0, whole=True)
    with_trial = train(TOP_OR_BOTTOM, tried)
    assert ("whole" in tried.findings) == (early < 0)
    assert with_trial.finetune_epochs == tried.finetune_epochs == n_epochs
    without = train(TOP_OR_BOTTOM, finetune_epochs=n_epochs)
    assert torch.equal(parameters_of(with_trial), parameters_of(without))


def columns() -> LabeledImages:
    """Noise with a bright column, whose place is the class: crops move it."""
    random = np.random.default_rng(0)
    labels = np.arange(N_IMAGES) % 2
    pixels = random.integers(0, 100, (N_IMAGES, SIDE, SIDE, 3), dtype=np.uint8)
    pixels[np.arange(N_IMAGES), :, 3 + labels] += 20
    return LabeledImages(pixels, torch.from_numpy(labels), classes=("left", "right"))


@pytest.mark.parametrize(
    ("data", "is_kept"), [(columns(), True), (dark_or_bright(), False)], ids=["place", "light"]
)
def test_whole_images_end_a_run_where_crops_hide_the_class(
    data: LabeledImages, is_kept: bool
) -> None:
    tried = tries(data, mirror=False, strength=0.0, whole=True)
    task = train(data, tried)
    assert task.finetune_epochs == (N_EPOCHS - FIRST if is_kept else 0)


def test_what_was_kept_early_is_there_when_whole_images_are_tried() -> None:
    noted = Noting()
    tried = tries(TOP_OR_BOTTOM, whole=True)
    train(TOP_OR_BOTTOM, tried, noted)
    assert list(tried.findings) == ["mirror", "light", "whole_early", "whole"]
    assert noted.seen == [(True, True)] * N_EPOCHS


def test_whole_images_are_tried_once_where_both_trials_fall_on_one_epoch() -> None:
    tried = tries(TOP_OR_BOTTOM, mirror=False, strength=0.0, whole=True)
    train(TOP_OR_BOTTOM, tried, epochs=2)
    assert list(tried.findings) == ["whole"]


def test_a_trial_that_diverges_loses_its_own_answer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    learn = TryOut._learn

    def diverge_on_whole_images(self: TryOut, *given: Any, whole: bool) -> None:
        if whole:
            raise NonFiniteError("The loss became NaN.")
        learn(self, *given, whole=whole)

    monkeypatch.setattr(TryOut, "_learn", diverge_on_whole_images)
    tried = tries(TOP_OR_BOTTOM, strength=0.0, whole=True)
    task = train(TOP_OR_BOTTOM, tried)
    assert list(tried.findings) == ["mirror"]
    assert (task.flip, task.finetune_epochs) == (True, 0)


def test_all_compete_with_the_better_way_to_predict() -> None:
    few, many = torch.full((4,), 1.0), torch.full((4,), 2.0)
    before = Judged(views=few, alone=many)
    better = Judged(views=many, alone=few * 0.97).compare(before, "whole")
    assert (better.loss, better.is_kept) == (1.0, True)
    assert better.change == pytest.approx(-0.03)
    assert Judged(views=few, alone=few * 0.99).compare(before, "whole").is_kept is False
    swapped = Judged(views=many, alone=few)
    assert Judged(views=few, alone=few * 0.99).compare(swapped, "whole").loss == 1.0
    assert Judged(views=few, alone=many).compare(swapped, "mirror").change == 0.0
    assert Judged(views=many, alone=many).compare(swapped, "light").change == 1.0
    assert better.difference == Judged(many, few * 0.97).compare(before, "whole_early").difference


def test_whole_images_are_told() -> None:
    kept, left_out = Finding(1.0, -0.08, 0.02, -0.02), Finding(1.0, 0.01, 0.02, -0.02)
    assert describe_findings({"whole": kept}) == (
        "Tried on the side: whole images change the loss of held-out images by "
        "-8.0% ± 2.0% (no views from here on)."
    )
    assert describe_findings({"whole": left_out}).endswith("by +1.0% ± 2.0% (views to the end).")
