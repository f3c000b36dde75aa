"""Settings of runs: each is explained, does something, and means the same wherever it is read."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
import yaml
from lightning.pytorch import Trainer

from instaaug.augmentation.at_test_time import Merge
from instaaug.augmentation.settings import Estimator
from instaaug.augmentation.views import Select
from instaaug.data import DataSplits
from instaaug.data.cache import OnBadImage
from instaaug.data.labels import TaskKind
from instaaug.data.splits import SplitBy
from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.objectives import Baseline, Rule
from instaaug.parameterizations import Conditioning
from instaaug.runs import frozen_model, training, transfer, tta
from instaaug.runs.folder import Run
from instaaug.runs.settings import (
    RunSettings,
    TrainSettings,
    TransferSettings,
    TtaSettings,
    read_run_settings,
)
from instaaug.settings import SettingInfo, setting_infos
from instaaug.tasks import Checkpoints
from instaaug.tasks.optimization import OptimizerName, ScheduleName
from instaaug.tasks.try_out import TryOut
from instaaug.transforms.local import LOCAL_LEVELS
from tests.support import fake_timm
from tests.support.tiny_training import labeled_halves, parameters_of

TRAIN = {info.name: info for info in setting_infos(TrainSettings)}
TTA = {info.name: info for info in setting_infos(TtaSettings)}
TRANSFERRED = {info.name: info for info in setting_infos(TransferSettings)}
ALL = [*TRAIN.values(), *TTA.values(), *TRANSFERRED.values()]
BASE = TrainSettings.from_mapping({"trainer.accelerator": "cpu", "views.n_views": 2})
FROZEN = TtaSettings.from_mapping(
    {"model": "tests.support.spots:spotter", "data": "spots", "phi.steps": 2}
)
TRANSFER = TransferSettings.from_mapping(
    {"backbone": "tests.support.spots:spotter", "data": "spots"}
)


# What a run of training makes of its settings


@dataclass(frozen=True)
class Captured:
    """All that a run has built or asked for by the time it could begin to train.

    Arguments:
        data: Arguments of ``load_data``.
        trainer: Arguments of Lightning's trainer.
        predictor: Arguments of the predictor that averages views.
        task: The task.
        splits: The images.
        batch_size: Of the loader.
        n_threads: What torch was told, if anything.
        is_compiled: Whether the model was compiled.
    """

    data: dict[str, Any]
    trainer: dict[str, Any]
    predictor: dict[str, Any]
    task: Any
    splits: DataSplits
    batch_size: int
    n_threads: int | None
    is_compiled: bool

    @property
    def settings(self) -> Any:
        """The choices behind InstaAug."""
        return self.task.augmenter.settings


SIDE = 16
ONES = torch.ones(1, 3, SIDE, SIDE)
IMAGES = DataSplits(
    labeled_halves(40, side=SIDE), labeled_halves(8, side=SIDE, seed=1),
    labeled_halves(8, side=SIDE, seed=2), name="halves",
)  # fmt: skip


def numbers_of(splits: DataSplits) -> DataSplits:
    """The same images with a number each, for a regression."""
    parts = {
        name: replace(part, targets=part.targets.float(), classes=())
        for name in ("train", "validation", "test")
        if (part := getattr(splits, name)) is not None
    }
    return replace(splits, **parts)


def capture(config: TrainSettings, folder: Path) -> Captured:
    """Prepare a run without decoding, compiling or training anything."""
    found: dict[str, Any] = {"n_threads": None, "is_compiled": False, "predictor": {}}

    def load_data(source: str, **arguments: Any) -> DataSplits:
        found["data"] = {"source": source, **arguments}
        return numbers_of(IMAGES) if config.task == "regression" else IMAGES

    class Noted(Trainer):
        global_rank, world_size = 0, 1

        def __init__(self, **arguments: Any) -> None:
            found["trainer"] = arguments

    def make_predictor(_: Any, **arguments: Any) -> Any:
        found["predictor"] |= arguments
        return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "load_data", load_data)
        patch.setattr(training, "Trainer", Noted)
        patch.setattr(training, "make_predictor", make_predictor)
        patch.setattr(training, "evaluate_groups", lambda *_: ({}, {}))
        patch.setattr(training, "summarize_augmenter", lambda *_: {})
        patch.setattr(training, "choose_test_views", lambda *_, **__: None)
        patch.setattr(training, "compile_training", lambda _: found.update(is_compiled=True))
        patch.setattr(torch, "set_num_threads", lambda n: found.update(n_threads=n))
        ready = training._prepare(Run(folder), config, [], None)
        loaders = training._loaders(ready.splits, config, ready.trainer, ready.task.cross_fit)
        training._choose_views(ready.task, ready.splits, config, ready.facts)
        if config.task != "contrastive":
            training.evaluate_task(ready.task, ready.splits.test, config)
    batch_size = loaders["train_dataloaders"].batch_size
    return Captured(**found, task=ready.task, splits=ready.splits, batch_size=batch_size)


Effect = tuple[Any, Callable[[Captured], Any]]
CONTEXT: dict[str, dict[str, Any]] = {  # where a setting matters only along with others
    "crop.grid": {"transforms": "crop"},
    "crop.layers": {"transforms": "crop", "crop.grid": "receptive", "phi.network": "pyramid"},
    "crop.max_outside": {"transforms": "crop"},
    "crop.loose": {"transforms": "crop"},
    "local.grid": {"transforms": "local_mask"},
    "data.held_out_fraction": {"method": "adaaug"},
    "loss.regression": {"task": "regression"},
    "model.width": {"model": "preact_resnet18"},
    "model.output": {"model": "tests.support.tiny_training:two_heads"},
    "model.pretrained": {"model": "timm:tiny"},
    "model.stem_stride": {"model": "preact_resnet18"},
    **{name: {"model.mean": [0.5], "model.std": [1.0]} for name in ("model.mean", "model.std")},
    "optimizer.warmup_steps": {"optimizer.schedule": "cosine"},
    "phi.baseline": {"transforms": "crop"},
    "phi.estimator": {"transforms": "crop"},
    "phi.goal": {"transforms": "crop"},
    "phi.network": {"transforms": "crop"},
    "phi.ranges": {"transforms": "uniform_crop"},
    "phi.try_out": {"transforms": "crop"},
    "phi.undo": {"transforms": "hsv_jitter"},
    "phi.signal_share": {"phi.signal": "held_out"},
    "phi.sizes": {"transforms": "crop", "phi.estimator": "closed_form"},
    **{name: {"task": "contrastive"} for name in TRAIN if name.startswith("contrastive.")},
}


def argument(name: str) -> Callable[[Captured], Any]:
    return lambda seen: seen.data[name]


def of_trainer(name: str) -> Callable[[Captured], Any]:
    return lambda seen: seen.trainer[name]


def of_task(name: str) -> Callable[[Captured], Any]:
    return lambda seen: getattr(seen.task, name)


def of_model(name: str) -> Callable[[Captured], Any]:
    return lambda seen: getattr(seen.task.optimization, name)


def of_phi(name: str) -> Callable[[Captured], Any]:
    return lambda seen: getattr(seen.task.phi_optimization, name)


def of_augmenter(name: str) -> Callable[[Captured], Any]:
    return lambda seen: getattr(seen.settings, name)


def probability(name: str) -> Callable[[Captured], Any]:
    return lambda seen: seen.task.distortions.probabilities[name]


def checkpoint_minutes(seen: Captured) -> float:
    (one,) = [c for c in seen.trainer["callbacks"] if isinstance(c, Checkpoints)]
    return one.minutes


def kept_from_the_model(seen: Captured) -> list[int]:
    """By epoch, how many images are."""
    cross_fit = seen.task.cross_fit
    return [] if cross_fit is None else [len(cross_fit.rows(epoch)) for epoch in range(20)]


def tried(seen: Captured) -> list[str]:
    """What is tried on the side."""
    return [name for c in seen.trainer["callbacks"] if isinstance(c, TryOut) for name in c.names]


def band(seen: Captured) -> list[float]:
    held = seen.task.augmenter.band
    return [float(limit[0]) for limit in (held.low, held.high)]


def weights(seen: Captured) -> list[float]:
    return [float(value) for value in parameters_of(seen.task.model)[:5]]


def n_weights(seen: Captured) -> int:
    return len(parameters_of(seen.task.model))


def model_rates(seen: Captured) -> list[float]:
    task = seen.task
    made = task.optimization.make_optimizer(task.model.parameters(), task._backbone)
    return [group["lr"] for group in made.param_groups]


def strides(seen: Captured) -> list[Any]:
    return [part.stride for part in seen.task.model.modules() if hasattr(part, "stride")]


def boxes(seen: Captured) -> Any:
    (crop,) = seen.settings.transform.transforms
    return (crop.levels, crop.max_outside)


def boxes_of_phi(seen: Captured) -> Any:
    (grid,) = seen.task.augmenter.phi.grids.values()
    return grid.description


def transform_names(seen: Captured) -> list[str]:
    return [transform.name for transform in seen.settings.transform.transforms]


EFFECTS: Mapping[str, Effect] = {
    "task": ("regression", lambda seen: type(seen.task)),
    "seed": (7, weights),
    "transforms": (
        ["hsv_jitter"],
        lambda seen: [t.name for t in seen.settings.transform.transforms],
    ),
    "padding_mode": ("border", of_augmenter("padding_mode")),
    "n_samples": (2, of_task("n_samples")),
    "pretrain_epochs": (3, of_task("pretrain_epochs")),
    "finetune_epochs": (3, of_task("finetune_epochs")),
    "data": ("elsewhere", argument("source")),
    "data.root": ("files", argument("root")),
    "data.options": ({"n": 3}, argument("options")),
    "data.image_size": (24, argument("size")),
    "data.channels": (1, argument("channels")),
    "data.batch_size": (4, lambda seen: seen.batch_size),
    "data.flip": (True, of_task("flip")),
    "data.vary": ({"brightness": 0.4}, lambda seen: repr(seen.task.vary)),
    "data.test_fraction": (0.5, argument("test_fraction")),
    "data.validation_fraction": (0.3, argument("validation_fraction")),
    "data.train_fraction": (0.5, lambda seen: len(seen.splits.train)),
    "data.held_out_fraction": (0.25, lambda seen: len(seen.task.held_out)),
    "data.split": ("block", argument("split")),
    "data.path_column": ("file", argument("path_column")),
    "data.target_column": ("label", argument("target_column")),
    "data.on_bad_image": ("skip", argument("on_bad_image")),
    "data.cache_dir": ("cache", argument("cache_dir")),
    "model": ("preact_resnet18", lambda seen: type(seen.task.model)),
    "model.pretrained": (True, lambda seen: seen.task.model.mix.weight.tolist()),
    "model.output": ("opposite", lambda seen: seen.task.model(ONES).tolist()),
    "model.width": (0.25, n_weights),
    "model.stem_stride": (2, strides),
    "model.mean": ([0.25], lambda seen: float(seen.task.mean.mean())),
    "model.std": ([2.0], lambda seen: float(seen.task.std.mean())),
    "method": ("mixup", lambda seen: type(seen.task.augmenter)),
    "crop.grid": ([[1, 1], [0.5, 2]], boxes),
    "crop.layers": ([1], boxes_of_phi),
    "crop.max_outside": (1.0, boxes),
    "crop.loose": (False, lambda seen: len(seen.task.augmenter.loose_boxes)),
    "crop.size": (8, lambda seen: seen.settings.transform.size),
    "local.grid": ([[0.5, 2]], boxes_of_phi),
    "entropy": ([-1.0, -0.5], band),
    "entropy.diversity": ([0.2, 0.3], band),
    "entropy.rule": ("fixed", lambda seen: seen.task.augmenter.band.rule),
    "entropy.factor": (1.5, lambda seen: seen.task.augmenter.band.factor),
    "entropy.per": ("factor", lambda seen: seen.task.augmenter.parts.names),
    "entropy.weight": (0.5, lambda seen: float(seen.task.augmenter.band.weight[0])),
    "phi.conditioning": ("class", of_augmenter("conditioning")),
    "phi.network": ("pyramid", lambda seen: len(parameters_of(seen.task.augmenter))),
    "phi.width": (0.5, lambda seen: len(parameters_of(seen.task.augmenter))),
    "phi.estimator": ("exact", of_augmenter("estimator")),
    "phi.baseline": ("none", of_augmenter("baseline")),
    "phi.optimizer": ("sgd", of_phi("optimizer")),
    "phi.learning_rate": (0.5, of_phi("learning_rate")),
    "phi.input_rate": (0.5, of_phi("backbone_rate")),
    "phi.schedule": ("cosine", of_phi("schedule")),
    "phi.rest_epochs": (2, of_task("phi_rest_epochs")),
    "phi.step": ("separate", of_task("phi_step")),
    "phi.sizes": ("uniform", of_augmenter("sizes")),
    "phi.ranges": ("latent", of_augmenter("ranges")),
    "phi.undo": (0.5, lambda seen: seen.task.augmenter.undoing is None),
    "phi.goal": ("loss", lambda seen: seen.task.usefulness is None),
    "phi.signal": ("held_out", kept_from_the_model),
    "phi.signal_share": (0.3, kept_from_the_model),
    "phi.try_out": (["light"], tried),
    "phi.dependence": (0.5, lambda seen: float(seen.task.augmenter.phi.dependence)),
    "optimizer": ("sgd", of_model("optimizer")),
    "optimizer.learning_rate": (0.5, of_model("learning_rate")),
    "optimizer.momentum": (0.5, of_model("momentum")),
    "optimizer.weight_decay": (0.5, of_model("weight_decay")),
    "optimizer.schedule": ("cosine", of_model("schedule")),
    "optimizer.drops": ([0.5], of_model("drops")),
    "optimizer.drop_factor": (0.5, of_model("factor")),
    "optimizer.warmup_steps": (5, of_model("warmup_steps")),
    "optimizer.backbone_rate": (0.5, model_rates),
    "loss.label_smoothing": (0.1, of_task("label_smoothing")),
    "loss.regression": ("absolute", of_task("loss")),
    "contrastive.temperature": (0.1, of_task("temperature")),
    "contrastive.hidden": (8, n_weights),
    "contrastive.n_projected": (8, n_weights),
    "contrastive.strength": (1.0, lambda seen: seen.task.distortions.strength),
    "contrastive.jitter": (0.1, probability("jitter")),
    "contrastive.gray": (0.7, probability("gray")),
    "contrastive.blur": (0.7, probability("blur")),
    "contrastive.mirror": (0.1, probability("flip")),
    "views.n_views": (5, lambda seen: seen.predictor["n_samples"]),
    "views.merge": ("probability", lambda seen: seen.task.augmenter.merge),
    "views.select": ("top", lambda seen: seen.predictor["select"]),
    "views.replace": (True, lambda seen: seen.predictor["replace"]),
    "trainer.max_epochs": (3, of_trainer("max_epochs")),
    "trainer.gradient_clip_val": (0.5, of_task("gradient_clip_val")),
    "trainer.accumulate_grad_batches": (2, of_task("accumulate_grad_batches")),
    "trainer.accelerator": ("cuda", of_trainer("accelerator")),
    "trainer.devices": (2, of_trainer("devices")),
    "trainer.num_nodes": (2, of_trainer("num_nodes")),
    "trainer.strategy": ("fsdp", of_trainer("strategy")),
    "trainer.precision": ("bf16-mixed", of_trainer("precision")),
    "trainer.logger": (["csv"], lambda seen: [type(one) for one in seen.trainer["logger"]]),
    "trainer.log_every_n_steps": (1, of_trainer("log_every_n_steps")),
    "trainer.checkpoint_minutes": (1.0, checkpoint_minutes),
    "trainer.compile": (True, lambda seen: seen.is_compiled),
    "trainer.threads": (3, lambda seen: seen.n_threads),
}
"""From the name of a setting to another value than its default, and where that is seen."""


def test_every_setting_of_a_training_run_is_in_the_table() -> None:
    assert set(TRAIN) - set(EFFECTS) == {"kind"}  # of which there is one
    assert set(EFFECTS) <= set(TRAIN)


@pytest.mark.parametrize("name", EFFECTS)
def test_every_setting_of_a_training_run_does_something(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_timm.install(monkeypatch)
    value, effect = EFFECTS[name]
    before = BASE.override(CONTEXT.get(name, {}))
    after = before.override({name: value})
    assert after != before
    assert effect(capture(after, tmp_path)) != effect(capture(before, tmp_path))


@pytest.mark.parametrize(
    ("settings", "strategy"),
    [
        ({}, "auto"),
        ({"trainer.strategy": "ddp"}, "auto"),  # one process shares with nobody
        ({"trainer.devices": 2}, "ddp_find_unused_parameters_true"),
        ({"trainer.num_nodes": 2, "trainer.strategy": "ddp"}, "ddp_find_unused_parameters_true"),
        ({"trainer.devices": 2, "trainer.strategy": "ddp_spawn"}, "ddp_spawn"),
        ({"trainer.strategy": "deepspeed_stage_2"}, "deepspeed_stage_2"),
    ],
)
def test_lightning_is_given_the_strategy(
    settings: dict[str, Any], strategy: str, tmp_path: Path
) -> None:
    assert capture(BASE.override(settings), tmp_path).trainer["strategy"] == strategy


def test_options_of_a_method_reach_it(tmp_path: Path) -> None:
    config = BASE.override({"method": "mixup", "method.alpha": 0.25})
    assert capture(config, tmp_path).task.augmenter.alpha == 0.25


# What a fit of views makes of its settings


@dataclass(frozen=True)
class CapturedFit:
    """All that a fit of views asks for.

    Arguments:
        data: Arguments of ``load_data``.
        fit: Arguments of ``fit_tta``, the transforms among them.
        model: The frozen model.
        sizes: What the model sees, and what images are decoded to.
        classes: In the order of the outputs.
        splits: The images to learn from, and those held out.
        n_threads: What torch was told, if anything.
        asked: The name of the model that was looked for.
    """

    data: dict[str, Any]
    fit: dict[str, Any]
    model: Any
    sizes: tuple[int | None, int | None]
    classes: tuple[str, ...]
    splits: DataSplits
    n_threads: int | None
    asked: str


def _begin(config: TtaSettings | TransferSettings, ready: frozen_model.FitInputs) -> None:
    if isinstance(config, TtaSettings):
        tta.fit_views(config, ready.model, ready.splits.train, size=ready.size)
    else:
        transfer._fit(config, ready, Run("somewhere"), None)


def capture_fit(config: TtaSettings | TransferSettings) -> CapturedFit:
    """Prepare a fit of views or of a head, and begin it, without asking a model anything."""
    found: dict[str, Any] = {"n_threads": None}
    source = frozen_model.find_model("tests.support.spots:spotter")
    is_tta = isinstance(config, TtaSettings)
    module = tta if is_tta else transfer

    def find_model(name: str) -> frozen_model.ModelSource:
        found["asked"] = name
        return source

    def load_data(source: str, **arguments: Any) -> DataSplits:
        found["data"] = {"source": source, **arguments}
        return replace(IMAGES, test=IMAGES.train if is_tta else IMAGES.train.subset([]))

    def fit(_: Any, images: Any, transforms: Any, **arguments: Any) -> None:
        found["fit"] = {"transforms": transforms, **arguments}
        raise RuntimeError("The fit begins.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "find_model", find_model)
        patch.setattr(frozen_model, "load_data", load_data)
        patch.setattr(frozen_model.FrozenModel, "check_outputs", lambda *_: None)
        patch.setattr(module, "fit_tta" if is_tta else "fit_transfer", fit)
        patch.setattr(torch, "set_num_threads", lambda n: found.update(n_threads=n))
        ready = module._prepare(config, None)
        with pytest.raises(RuntimeError, match="The fit begins"):
            _begin(config, ready)
    return CapturedFit(
        **found,
        model=ready.model,
        sizes=frozen_model.choose_sizes(config, source),
        classes=ready.splits.train.classes,
        splits=ready.splits,
    )


FitEffect = tuple[Any, Callable[[CapturedFit], Any]]


def of_fit(name: str) -> Callable[[CapturedFit], Any]:
    return lambda seen: seen.fit[name]


def of_loading(name: str) -> Callable[[CapturedFit], Any]:
    return lambda seen: seen.data[name]


def of_frozen_model(name: str) -> Callable[[CapturedFit], Any]:
    return lambda seen: getattr(seen.model, name)


FIT_EFFECTS: Mapping[str, FitEffect] = {
    "seed": (7, of_fit("seed")),
    "threads": (3, lambda seen: seen.n_threads),
    "transforms": (["rotation"], lambda seen: [t.name for t in seen.fit["transforms"]]),
    "entropy": ([1.0, 1.5], of_fit("entropy")),
    "model": ("timm:tiny", lambda seen: seen.asked),
    "model.output": ("logits", lambda seen: seen.model.output is None),
    "model.mean": ("imagenet", of_frozen_model("mean")),
    "model.std": ([0.5], of_frozen_model("std")),
    "model.image_size": (24, of_fit("size")),
    "model.channels": (1, of_frozen_model("channels")),
    "model.classes": ("names.txt", lambda seen: seen.classes),
    "data": ("elsewhere", of_loading("source")),
    "data.options": ({"n": 3}, of_loading("options")),
    "data.decode_size": (32, of_loading("size")),
    "data.test_fraction": (0.25, lambda seen: len(seen.splits.test)),
    "data.max_table_gb": (1.5, of_fit("max_table_bytes")),
    "data.limit": (8, lambda seen: len(seen.splits.train)),
    "data.path_column": ("file", of_loading("path_column")),
    "data.target_column": ("label", of_loading("target_column")),
    "data.on_bad_image": ("skip", of_loading("on_bad_image")),
    "data.cache_dir": ("cache", of_loading("cache_dir")),
    "crop.grid": ([[1, 1], [0.5, 2]], lambda seen: seen.fit["transforms"][0].levels),
    "views": ([3], of_fit("n_samples")),
    "views.merge": ("confidence", of_fit("merge")),
    "views.sharpness": (2.0, of_fit("sharpness")),
    "views.sizes": ([16, 24], of_fit("sizes")),
    "phi.objective": ("single", of_fit("objective")),
    "phi.features": ("none", of_fit("features")),
    "phi.network": ("glance", of_fit("features")),
    "phi.steps": (9, of_fit("steps")),
    "phi.passes": (0.5, of_fit("passes")),
}
"""From the name of a setting to another value than its default, and where that is seen."""
FIT_CONTEXT: dict[str, dict[str, Any]] = {"model.std": {"model.mean": [0.5], "model.std": [1.0]}}


def test_every_setting_of_a_fit_is_in_the_table() -> None:
    assert set(TTA) - set(FIT_EFFECTS) == {"kind"}
    assert set(FIT_EFFECTS) <= set(TTA)


@pytest.mark.parametrize("name", FIT_EFFECTS)
def test_every_setting_of_a_fit_does_something(name: str, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("right\nleft\n")
    value, effect = FIT_EFFECTS[name]
    before = FROZEN.override(FIT_CONTEXT.get(name, {}))
    after = before.override({name: value})
    assert after != before
    assert effect(capture_fit(after)) != effect(capture_fit(before))


def test_a_band_of_entropy_asks_for_single_views() -> None:
    assert FROZEN.objective is None
    assert FROZEN.override({"entropy": [1, 2]}).objective == "single"
    assert FROZEN.override({"phi.objective": "ensemble"}).objective == "ensemble"


# What a transfer makes of its settings


TRANSFER_EFFECTS: Mapping[str, FitEffect] = {
    "seed": (7, of_fit("seed")),
    "threads": (3, lambda seen: seen.n_threads),
    "data": ("elsewhere", of_loading("source")),
    "data.options": ({"n": 3}, of_loading("options")),
    "data.decode_size": (32, of_loading("size")),
    "data.test_fraction": (0.5, lambda seen: len(seen.splits.test)),
    "data.limit": (8, lambda seen: len(seen.splits.train)),
    "data.path_column": ("file", of_loading("path_column")),
    "data.target_column": ("label", of_loading("target_column")),
    "data.on_bad_image": ("skip", of_loading("on_bad_image")),
    "data.cache_dir": ("cache", of_loading("cache_dir")),
    "backbone": ("timm:tiny", lambda seen: seen.asked),
    "backbone.output": ("features", lambda seen: seen.model.output is None),
    "backbone.mean": ("imagenet", of_frozen_model("mean")),
    "backbone.std": ([0.5], of_frozen_model("std")),
    "backbone.image_size": (24, of_fit("size")),
    "backbone.channels": (1, of_frozen_model("channels")),
    "backbone.use_output": (True, of_fit("use_output")),
    "crop.grid": ([[1, 1], [0.5, 2]], lambda seen: seen.fit["transforms"][0].levels),
    "crop.mirror": (True, lambda seen: len(seen.fit["transforms"])),
    "views": ([3], of_fit("n_samples")),
    "views.merge": ("confidence", of_fit("merge")),
    "views.sharpness": (2.0, of_fit("sharpness")),
    "views.steps": (9, of_fit("steps")),
}
TRANSFER_CONTEXT: dict[str, dict[str, Any]] = {
    "backbone.std": {"backbone.mean": [0.5], "backbone.std": [1.0]}
}


def test_every_setting_of_a_transfer_is_in_the_table() -> None:
    assert set(TRANSFERRED) - set(TRANSFER_EFFECTS) == {"kind"}
    assert set(TRANSFER_EFFECTS) <= set(TRANSFERRED)


@pytest.mark.parametrize("name", TRANSFER_EFFECTS)
def test_every_setting_of_a_transfer_does_something(name: str) -> None:
    value, effect = TRANSFER_EFFECTS[name]
    before = TRANSFER.override(TRANSFER_CONTEXT.get(name, {}))
    after = before.override({name: value})
    assert after != before
    assert effect(capture_fit(after)) != effect(capture_fit(before))


# One meaning


@pytest.mark.parametrize(
    ("base", "info", "value"),
    [
        *((BASE, TRAIN[name], value) for name, (value, _) in EFFECTS.items()),
        *((FROZEN, TTA[name], value) for name, (value, _) in FIT_EFFECTS.items()),
        *((TRANSFER, TRANSFERRED[name], value) for name, (value, _) in TRANSFER_EFFECTS.items()),
    ],
    ids=lambda item: item.name if isinstance(item, SettingInfo) else "",
)
def test_every_setting_is_the_same_dotted_nested_and_read_back(
    base: RunSettings, info: SettingInfo, value: Any
) -> None:
    changed = base.override({info.name: value})
    nested: Any = value
    for part in reversed(info.path.split(".")):
        nested = {part: nested}
    assert base.override(nested) == base.override({info.path: value}) == changed
    text = yaml.safe_dump(changed.to_mapping(), sort_keys=False, allow_unicode=True)
    assert read_run_settings(yaml.safe_load(text), source="config.yaml") == changed
    plain = json.loads(json.dumps(changed.to_mapping()))
    assert read_run_settings(plain, source="config.yaml") == changed


def test_the_kind_decides_which_settings_a_file_has() -> None:
    assert read_run_settings({}, source="a") == TrainSettings()
    assert read_run_settings(FROZEN.to_mapping(), source="a") == FROZEN
    assert all(next(iter(one.to_mapping())) == "kind" for one in (BASE, FROZEN))
    with pytest.raises(
        UnknownNameError, match=r"no kind of run in a called 'tt'.*: train, transfer, tta"
    ):
        read_run_settings({"kind": "tt"}, source="a")


@pytest.mark.parametrize("info", ALL, ids=lambda info: info.name)
def test_every_setting_has_a_sentence_and_a_section(info: SettingInfo) -> None:
    assert info.help[0].isupper() or info.help[0].isdigit() or info.help.startswith(("λ", "cpu"))
    assert info.help.endswith(".")
    assert info.section


def test_options_go_with_the_source_or_method_they_were_given_for() -> None:
    mine = BASE.override({"data": {"source": "my:images", "options": {"n": 3}}})
    assert mine.override({"seed": 1}).data.options == {"n": 3}
    assert mine.override({"data": "my:images"}).data.options == {"n": 3}
    assert mine.override({"data": "photos"}).data.options == {}
    mixed = BASE.override({"method": "mixup", "method.alpha": 0.2})
    assert mixed.override({"method": "mixup"}).method.options == {"alpha": 0.2}
    assert mixed.override({"method": "cutmix"}).method.options == {}


def test_a_band_in_one_unit_replaces_a_band_in_the_other() -> None:
    nats = BASE.override({"entropy": [3, 4]})
    shares = nats.override({"entropy.diversity": [0.06, 0.1]})
    assert (shares.entropy.band, shares.entropy.diversity) == (None, (0.06, 0.1))
    assert shares.override({"entropy": [3, 4]}) == nats


# What cannot be


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"data.batch_size": 1}, r"`data.batch_size` must be at least 2: got 1\."),
        ({"data.image_size": 7}, r"`data.image_size` must be at least 8: got 7\."),
        ({"seed": 2**31}, r"`seed` must be at most 2147483647: got 2147483648\."),
        ({"data.train_fraction": 0}, r"`data.train_fraction` must be at least 0\.001: got 0\.0\."),
        ({"data.train_fraction": 1.5}, r"`data.train_fraction` must be at most 1: got 1\.5\."),
        (
            {"entropy": {"diversity": [0.06, 0.1], "band": [3, 4]}},
            "`entropy.band` and `entropy.diversity` are two units of the same thing: got both",
        ),
        (
            {"optimizer.schedule": "plateau", "data.validation_fraction": 0},
            "`optimizer.schedule` plateau watches the validation images: got `data.validation_fr",
        ),
        (
            {"phi.schedule": "plateau", "data.validation_fraction": 0},
            "`phi.schedule` plateau .* Hold some out, or choose another schedule",
        ),
        (
            {"task": "regression", "views.merge": "confidence"},
            "`views.merge` confidence needs classes: got `task` regression",
        ),
        (
            {"task": "regression", "views.merge": "probability"},
            "`views.merge` probability needs classes: got `task` regression",
        ),
        (
            {"trainer.gradient_clip_val": 1, "trainer.precision": "16-mixed"},
            "`trainer.gradient_clip_val` does not work with the gradient scaling of",
        ),
        ({"task": "contrastive", "n_samples": 2}, "leave `n_samples` at 1"),
    ],
)
def test_training_that_cannot_work_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words + r".* ?\(in my\.yaml\)$"):
        TrainSettings.from_mapping(values, source="my.yaml")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": ""}, "`model` and `data` must be given"),
        ({"data": ""}, "`model` and `data` must be given"),
        ({"views": [1, 2]}, r"`views` must be whole numbers from 2 on, .*: got \[1, 2\]"),
        ({"views": []}, r"`views` must be whole numbers from 2 on, .*: got \[\]"),
        ({"data.test_fraction": 1}, r"`data.test_fraction` must lie in \[0, 1\): got 1\.0"),
        ({"data.limit": 1}, "`data.limit` must be at least 2: got 1"),
        (
            {"entropy": [1, 2], "phi.objective": "views"},
            "`entropy` belongs to `phi.objective` single: got views, which has no band",
        ),
        (
            {"phi.network": "glance", "phi.features": "none"},
            "`phi.network` reads pixels: got 'glance' along with `phi.features` none",
        ),
    ],
)
def test_a_fit_that_cannot_work_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        FROZEN.override(values)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("task", (*get_args(TaskKind), "contrastive")),
        ("padding_mode", get_args(PaddingMode)),
        ("data.split", get_args(SplitBy)),
        ("data.on_bad_image", get_args(OnBadImage)),
        ("entropy.rule", get_args(Rule)),
        ("phi.conditioning", get_args(Conditioning)),
        ("phi.estimator", get_args(Estimator)),
        ("phi.baseline", ("auto", *get_args(Baseline))),
        ("phi.optimizer", get_args(OptimizerName)),
        ("phi.schedule", get_args(ScheduleName)),
        ("optimizer", get_args(OptimizerName)),
        ("optimizer.schedule", get_args(ScheduleName)),
        ("views.merge", ("auto", *get_args(Merge))),
        ("views.select", ("auto", *get_args(Select))),
    ],
)
def test_the_choices_are_those_of_the_library(name: str, known: tuple[str, ...]) -> None:
    kind = TRAIN[name].type
    assert get_origin(kind) is Literal
    assert set(get_args(kind)) == set(known)


def test_the_boxes_of_local_transforms_are_those_of_the_library() -> None:
    assert TRAIN["local.grid"].default == LOCAL_LEVELS


@pytest.mark.parametrize("module", ["instaaug.cli.app", "instaaug.runs.settings"])
def test_nothing_heavy_is_imported_to_know_the_settings(module: str) -> None:
    heavy = "{'torch', 'lightning', 'numpy', 'yaml', 'PIL'}"
    code = f"import sys, {module}; sys.exit(' '.join({heavy} & set(sys.modules)) or 0)"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
