"""Train a model with any method, resume it, and score it."""

import os
import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from safetensors.torch import save
from torch.distributed import DistError

from instaaug.augmentation import InstaAug
from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.data.cache import OnProgress
from instaaug.data.labeled import evenly_spaced_indices
from instaaug.data.splits import split
from instaaug.errors import ArgumentError, InstaAugError
from instaaug.files import write_atomically
from instaaug.methods import FastAutoAugment, find_method
from instaaug.networks.compiling import compile_training
from instaaug.networks.model_interface import evaluation_mode
from instaaug.runs.build import (
    another_light,
    build_task,
    make_variation,
    may_be_mirrored,
    settle_phi,
)
from instaaug.runs.folder import DataFacts, Run, check_outside
from instaaug.runs.lightning import forward_interrupts, quiet_lightning
from instaaug.runs.loggers import check_loggers, make_loggers
from instaaug.runs.policy_search import check_search, prepare_policy
from instaaug.runs.pretrained import explain_size, settle_pretrained
from instaaug.runs.sample_pictures import LatestSamples, write_samples
from instaaug.runs.settings import TrainSettings
from instaaug.scores import ContrastTally
from instaaug.tasks import (
    AugmentedTask,
    BatchLoader,
    Checkpoints,
    ContrastiveTask,
    MetricsTable,
    SamplePictures,
    SupervisedTask,
    WholeCheckpointIO,
    correlate_losses,
    evaluate_groups,
    make_predictor,
    summarize_augmenter,
)
from instaaug.tasks.cross_fit import CrossFit, make_cross_fit
from instaaug.tasks.diagnostics import describe_diagnostics, measure_augmentation
from instaaug.tasks.mixing import describe_mixing
from instaaug.tasks.representation import Representation, collect_features
from instaaug.tasks.try_out import TryOut
from instaaug.tasks.view_choice import FEWEST, MOST_IMAGES, ViewChoice, choose_test_views
from instaaug.tasks.view_order import (
    can_order,
    count_images,
    learn_order,
    makes_crops_alone,
    spread_views,
)

__all__ = [
    "evaluate_task",
    "is_later_process",
    "load_splits",
    "resume",
    "run_device",
    "share_validation",
    "train",
]

N_SHOWN = 8
N_SAMPLES = 7
MOST_SUMMARIZED = 2000
MOST_CORRELATED = 100  # images, each of which the model sees twenty times
MOST_MEASURED = 200
UNSEEN, MOST_UNSEEN = 0.25, 0.5  # of the validation images, where φ learns from the others


def train(
    config: TrainSettings,
    out: str | Path,
    *,
    callbacks: list[Callback] | None = None,
    on_decode: OnProgress | None = None,
    on_ready: Callable[[DataFacts], None] | None = None,
    on_search: OnProgress | None = None,
) -> dict[str, Any]:
    """Train from the beginning; the folder ``out`` receives everything. Returns the results.

    Arguments:
        config: Every setting.
        out: A folder that does not hold a run yet.
        callbacks: More callbacks of Lightning, such as a progress bar.
        on_decode: Called with the number of files decoded and of all files.
        on_ready: Called with facts on the data when nothing is left that could be refused.
        on_search: Called with the number of policies tried and of all, by a method that searches
            before it trains.
    """
    run, config = Run(out), settle_pretrained(config.with_full_paths())
    check_outside(run.path, config.data.source)
    is_first = not is_later_process()
    with _hold(run):
        if is_first:
            run.start(config)
        try:
            parts = _prepare(run, config, callbacks or [], on_decode)
        except Exception:  # a mistake in the settings must not occupy the folder
            if is_first:
                run.withdraw()
            raise
        if on_ready is not None:
            on_ready(parts.facts)
        return _fit(run, config, parts, on_search)


def resume(
    out: str | Path,
    *,
    timeout: float = 0.0,
    callbacks: list[Callback] | None = None,
    on_decode: OnProgress | None = None,
    on_search: OnProgress | None = None,
) -> dict[str, Any]:
    """Go on with an interrupted run from its last checkpoint, or from the start if it has none.

    A finished run is not repeated.

    Arguments:
        out: The folder of the run.
        timeout: Seconds to wait for another process that is at work in the folder.
        callbacks: More callbacks of Lightning, such as a progress bar.
        on_decode: Called with the number of files decoded and of all files.
        on_search: Called with the number of policies tried and of all.
    """
    run = Run(out)
    config = run.read_train_settings()
    with _hold(run, timeout):
        if run.results_file.is_file():
            return run.read_results()
        return _fit(run, config, _prepare(run, config, callbacks or [], on_decode), on_search)


@contextmanager
def _hold(run: Run, timeout: float = 0.0) -> Iterator[None]:
    """Let the processes of this run, the first of which holds the folder, be the only ones."""
    if is_later_process():
        yield
        return
    with run.hold(timeout=timeout):
        yield


def load_splits(config: TrainSettings, on_decode: OnProgress | None = None) -> DataSplits:
    """The images that the settings ask for, split."""
    splits = load_data(
        config.data.source,
        options=config.data.options,
        root=config.data.root,
        task=config.target_kind,
        path_column=config.data.path_column,
        target_column=config.data.target_column,
        size=config.data.image_size,
        channels=config.data.channels,
        test_fraction=config.data.test_fraction,
        validation_fraction=config.data.validation_fraction,
        split=config.data.split,
        seed=config.seed,
        needs_labels=config.task != "contrastive",
        on_bad_image=config.data.on_bad_image,
        cache_dir=config.data.cache_dir,
        on_progress=on_decode,
    )
    if config.data.train_fraction == 1:
        return splits
    unused = 1 - config.data.train_fraction
    parts = split(splits.train, test_fraction=unused, seed=config.seed, by=config.data.split)
    return replace(splits, train=parts.train)


def evaluate_task(
    task: AugmentedTask,
    data: LabeledImages,
    config: TrainSettings,
    *,
    n_samples: int | None = None,
) -> dict[str, Any]:
    """Scores without and with test-time augmentation, and what φ learned."""
    if n_samples is None:
        n_samples = config.views.n_views if task.augmenter.averages_views else 0
    if isinstance(task, ContrastiveTask):
        results = _score_representations(task, data, config, n_samples=n_samples)
    else:
        results = _score_predictions(task, data, config, n_samples=n_samples)
    if learned := summarize_augmenter(task, _some_batches(data, MOST_SUMMARIZED, config)):
        results["learned"] = learned
        if not isinstance(task, ContrastiveTask):
            few = data.subset(evenly_spaced_indices(len(data), MOST_CORRELATED))
            batches = BatchLoader(few, config.data.batch_size)
            for name, numbers in correlate_losses(task, batches).items():
                learned[name] |= numbers
    return results


def _score_predictions(
    task: AugmentedTask, data: LabeledImages, config: TrainSettings, *, n_samples: int
) -> dict[str, Any]:
    predictors = {"plain": make_predictor(task)}
    if n_samples and config.method.name != "none":
        predictors["augmented"] = make_predictor(
            task,
            n_samples=n_samples,
            select=config.views.drawn,
            replace=config.views.replace,
            seed=config.seed,
        )
    results: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for kind, predict in predictors.items():
        size = {} if kind == "plain" else {"n_samples": n_samples}
        scores, of_groups = evaluate_groups(predict, data, config.data.batch_size, task.make_tally)
        results[kind] = {**scores, **size}
        for name, own in of_groups.items():
            groups.setdefault(name, {})[kind] = {**own, **size}
    return {**results, "groups": groups} if groups else results


class _TrainingParts(NamedTuple):
    """All that training needs; images held out for the augmenter are in the task alone."""

    splits: DataSplits
    facts: DataFacts
    task: AugmentedTask
    trainer: Trainer
    try_out: TryOut | None


def _prepare(
    run: Run,
    config: TrainSettings,
    callbacks: list[Callback],
    on_decode: OnProgress | None,
) -> _TrainingParts:
    check_loggers(config.trainer.logger)
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    splits = load_splits(config, on_decode)
    if not len(splits.test):
        raise ArgumentError(
            "`data.test_fraction` must be above 0 where the data have no test set of their own: "
            f"got {config.data.test_fraction}. Hold out a fifth, 0.2, for the result."
        )
    facts = DataFacts.of(splits, config)
    held_out = None
    if find_method(config.method.name).needs_held_out:
        parts = split(
            splits.train,
            test_fraction=config.data.held_out_fraction,
            seed=config.seed,
            by=config.data.split,
        )
        splits, held_out = replace(splits, train=parts.train), parts.test
    task = build_task(
        config,
        facts,
        held_out=held_out,
        cross_fit=_cross_fit(config, splits),
        with_weights=_checkpoint(run) is None,
    )
    if isinstance(task.augmenter, FastAutoAugment):
        check_search(task.augmenter)
    _show_images(task, splits.train, config)
    if config.trainer.compile:
        compile_training(task.model)
    try_out = _make_try_out(config, splits, facts, task)
    with quiet_lightning():
        loggers = make_loggers(config.trainer.logger, run.path, config.flatten())
        with _explain_refusals():
            own = callbacks if try_out is None else [*callbacks, try_out]
            trainer = _make_trainer(run, config, splits, own, loggers)
    return _TrainingParts(splits, facts, task, trainer, try_out)


def _make_try_out(
    config: TrainSettings, splits: DataSplits, facts: DataFacts, task: AugmentedTask
) -> TryOut | None:
    """What is tried on the side of training: what the settings have not decided."""
    scales = config.trainer.precision == "16-mixed"  # gradients, which a trial does not
    if task.usefulness is None or config.task != "classification" or scales:
        return None
    wanted = config.phi.try_out
    mirror = "mirror" in wanted and may_be_mirrored(config)
    light = None
    if "light" in wanted and not config.data.vary:
        light = make_variation(config, facts, another_light(facts.channels))
    whole = "whole" in wanted and not config.finetune_epochs and bool(splits.validation)
    if not (mirror or light or whole):
        return None
    return TryOut(splits.train, mirror=mirror, light=light, whole=whole)


@torch.no_grad()
def _show_images(task: AugmentedTask, data: LabeledImages, config: TrainSettings) -> None:
    """Let φ and the model see two images, so that what does not fit is refused beforehand."""
    images = data.__getitems__(range(min(len(data), 2)))[0]
    with evaluation_mode(task):
        x = task.normalize(images)
        if task.vary is not None:
            task.vary(x)
        if isinstance(task.augmenter, InstaAug):
            task.augmenter.distribution(x)
        shown = task.augmenter.canonical(x)
        with explain_size(task.model, config, shown.shape[-1]):
            outputs = task.model(shown)
        task.check_outputs(outputs, len(x))


def _cross_fit(config: TrainSettings, splits: DataSplits) -> CrossFit | None:
    """What is kept from the model for φ, if it learns, and is to learn from that."""
    if not find_method(config.method.name).learns_from_training_loss:
        return None
    signal = settle_phi(config).signal
    assert signal != "auto"  # noqa: S101  # it is settled
    return make_cross_fit(
        splits.train,
        signal,
        validation=share_validation(config, splits)[0],
        fraction=config.data.held_out_fraction,
        share=config.phi.signal_share,
        n_epochs=max(config.trainer.max_epochs - config.finetune_epochs, 1),
        phi_starts=config.pretrain_epochs + config.phi.rest_epochs,
        seed=config.seed,
        by=config.data.split,
    )


def _fit(
    run: Run, config: TrainSettings, parts: _TrainingParts, on_search: OnProgress | None
) -> dict[str, Any]:
    splits, facts, task, trainer, try_out = parts
    if not is_later_process():
        run.write_facts(facts)
    started = time.monotonic()
    with quiet_lightning():
        if isinstance(task.augmenter, FastAutoAugment) and _checkpoint(run) is None:
            prepare_policy(run.path, config, splits, facts, task.augmenter, on_trial=on_search)
        # torch 2.13 asks for gradients that are not there when it compiles, and warns of itself
        warnings.filterwarnings("ignore", message=r"The \.grad attribute of a Tensor")
        seed_everything(config.seed + trainer.global_rank, verbose=False)
        with forward_interrupts(), _explain_lost_process(run):
            loaders = _loaders(splits, config, trainer, task.cross_fit)
            trainer.fit(task, **loaders, ckpt_path=_checkpoint(run))
    if not trainer.is_global_zero:
        return {}
    task.to(trainer.strategy.root_device)
    choice = _choose_views(task, splits, config, facts)
    if task.ordered is not None:
        task.ordered.save(run.order_file)
    if task.augmenter.state_dict():
        if isinstance(task.augmenter, InstaAug):
            task.augmenter.save(run.augmenter_file)
        else:
            run.write_tensors(run.augmenter_file, task.augmenter)
    run.write_tensors(run.model_file, task.model)
    probes: dict[str, float] = {}
    if isinstance(task, ContrastiveTask):
        probes = _fit_representations(task, splits.train, config, facts, run)
    sets = [part for part in (splits.train, splits.validation, splits.test) if part is not None]
    results = {
        "data": config.data.source,
        "method": config.method.name,
        "seed": config.seed,
        "n_train": len(splits.train),
        "n_test": len(splits.test),
        "skipped": list(dict.fromkeys(line for part in sets for line in part.skipped)),
        "split_hash": facts.split_hash,
        "steps": task.n_steps,
        **({} if try_out is None else {"tried": try_out.to_dict()}),
        **({"mixing": words} if (words := describe_mixing(task.history)) else {}),
        "validation": None if choice is None else choice.to_dict(),
        **({"probes": probes} if probes else {}),
        "diagnostics": _measure_augmentation(task, splits, config),
        "test": evaluate_task(task, splits.test, config),
    }
    write_samples(task, _sample_images(splits.test), run.samples_file, N_SAMPLES)
    run.write_results(results, seconds=time.monotonic() - started)
    return results


def share_validation(
    config: TrainSettings, splits: DataSplits
) -> tuple[LabeledImages | None, LabeledImages | None]:
    """Validation images that φ may learn from, and those from which nothing has learned.

    Where φ learns from validation images, a quarter of them is kept from it, too, or up to a half
    if it takes that many to choose by. Where there are too few for both, both get all.
    """
    images, method = splits.validation, find_method(config.method.name)
    learns = method.learns_from_training_loss and settle_phi(config).signal == "validation"
    if not images or not learns:
        return images, images
    share = max(UNSEEN, (FEWEST + len(images.classes)) / len(images))  # by class, rounded down
    if share > MOST_UNSEEN:
        return images, images
    parts = split(images, test_fraction=share, seed=config.seed, by=config.data.split)
    return parts.train, parts.test


def _choose_views(
    task: AugmentedTask, splits: DataSplits, config: TrainSettings, facts: DataFacts
) -> ViewChoice | None:
    """Let validation images decide how views are used at test time.

    Arguments:
        task: With the trained model; it follows the decision.
        splits: The images.
        config: What they may decide.
        facts: On the images.

    Returns:
        The decision; None if there are no such images, or nothing to decide.
    """
    aug, wanted = task.eval().augmenter, config.phi.dependence
    if isinstance(aug, InstaAug) and aug.settings.conditioning == "input":
        seen = _some_batches(splits.train, MOST_SUMMARIZED, config)
        batches = (task.normalize(x.to(task.mean.device)) for x, _ in seen)
        aug.set_dependence(1.0 if wanted == "auto" else wanted, batches)
    has_views = aug.averages_views and config.method.name != "none"
    unseen = share_validation(config, splits)[1]
    if not (isinstance(task, SupervisedTask) and has_views) or not unseen:
        return None
    is_open = config.views.merge == "auto" and aug.merge == "logit"
    choice = choose_test_views(
        task,
        _some_batches(unseen, MOST_IMAGES, config),
        n_views=config.views.n_views,
        merge=None if is_open else aug.merge,
        select=config.views.drawn,
        replace_drawn=config.views.replace,
        dependence=None if wanted == "auto" else wanted,
        seed=config.seed,
    )
    if choice is None:
        return None
    rule = choice.merging
    aug.set_merging(rule.merge, rule.sharpness, rule.calibration)
    if isinstance(aug, InstaAug) and choice.dependence is not None:
        aug.set_dependence(choice.dependence)
    if config.views.select == "auto" and makes_crops_alone(aug):
        choice = _choose_order(task, splits, config, facts, choice)
    return choice


def _choose_order(
    task: SupervisedTask,
    splits: DataSplits,
    config: TrainSettings,
    facts: DataFacts,
    choice: ViewChoice,
) -> ViewChoice:
    """Learn one order of boxes for all images; the task takes it if it beats drawn views."""
    images, n_views = splits.validation, config.views.n_views
    assert images is not None  # noqa: S101  # the choice is from them
    n_images = count_images(
        len(images), n_train=len(splits.train), n_epochs=config.trainer.max_epochs
    )
    merge = config.views.merge
    if merge == "probability" or merge == "weighted":  # mypy understands that
        return choice
    if not n_images or not can_order(n_views):
        return choice
    drawn = make_predictor(
        task, n_samples=n_views, select=config.views.drawn, replace=config.views.replace,
        seed=config.seed,
    )  # fmt: skip
    order = learn_order(
        task, images, drawn, n_images=n_images, n_views=n_views, size=facts.image_size,
        batch_size=config.data.batch_size, merge=merge, seed=config.seed,
    )  # fmt: skip
    choice = choice.beside(order)
    task.ordered = choice.ordered
    return choice


def _measure_augmentation(
    task: AugmentedTask, splits: DataSplits, config: TrainSettings
) -> dict[str, Any] | None:
    """Diagnostics with their sentences, from a few training images and unseen ones.

    The unseen ones are validation images, or test images where there are none of those. None for
    tasks without classes, and for methods that do not make views of single images.
    """
    if not isinstance(task, SupervisedTask) or not task.augmenter.changes_single_images:
        return None
    validation = share_validation(config, splits)[1]
    unseen = validation or splits.test
    parts = [list(_some_batches(part, MOST_MEASURED, config)) for part in (unseen, splits.train)]
    found = measure_augmentation(task, *parts, seed=config.seed)
    return {**found, "words": describe_diagnostics(found)}


def _some_batches(data: LabeledImages, most: int, config: TrainSettings) -> BatchLoader:
    """Evenly spaced images, of all classes."""
    chosen = data.subset(evenly_spaced_indices(len(data), most))
    return BatchLoader(chosen, config.data.batch_size)


def _sample_images(data: LabeledImages) -> LabeledImages:
    """A few evenly spaced images, for ``samples.png``."""
    return data.subset(evenly_spaced_indices(len(data), N_SHOWN))


def _make_trainer(
    run: Run,
    config: TrainSettings,
    splits: DataSplits,
    callbacks: list[Callback],
    loggers: list[Logger],
) -> Trainer:
    shown = _sample_images(splits.test)
    return Trainer(
        accelerator=config.trainer.accelerator,
        devices=config.trainer.devices,
        num_nodes=config.trainer.num_nodes,
        strategy=_strategy(config),
        precision=config.trainer.precision,  # type: ignore[arg-type]
        max_epochs=config.trainer.max_epochs,
        logger=loggers,
        log_every_n_steps=config.trainer.log_every_n_steps,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,  # the loader deals out the images itself
        default_root_dir=run.path,
        plugins=[WholeCheckpointIO()],
        callbacks=[
            MetricsTable(run.metrics),
            SamplePictures(shown.__getitems__(range(len(shown)))[0], n_samples=N_SAMPLES),
            LatestSamples(shown, run.samples_file, N_SAMPLES),
            *callbacks,
            Checkpoints(run.checkpoint, minutes=config.trainer.checkpoint_minutes),
        ],
    )


def _strategy(config: TrainSettings) -> str:
    """Lightning's strategy; φ rests in some epochs, in which its parameters are unused."""
    if config.trainer.strategy in ("auto", "ddp"):
        several = config.trainer.devices * config.trainer.num_nodes > 1
        return "ddp_find_unused_parameters_true" if several else "auto"
    return config.trainer.strategy


@contextmanager
def _explain_refusals() -> Iterator[None]:
    try:
        yield
    except (ValueError, RuntimeError, MisconfigurationException) as error:
        words = " ".join(str(error).split())
        raise ArgumentError(
            "`trainer` must have an accelerator, devices, strategy and precision that suit this "
            f"machine. Lightning says: {words}"
        ) from error


@contextmanager
def _explain_lost_process(run: Run) -> Iterator[None]:
    """Say it in a sentence if another process of the run is gone."""
    try:
        yield
    except RuntimeError as error:
        words = " ".join(str(error).split())
        if not isinstance(error, DistError) and "gloo" not in words:
            raise
        reason = words.rpartition("] ")[2].partition(". ")[0].rstrip(".")
        raise InstaAugError(
            f"Another process of this run has ended, or cannot be reached ({reason}). Go on with "
            f"`instaaug resume {shlex.quote(str(run.path))}` from the last checkpoint."
        ) from error


def _loaders(
    splits: DataSplits, config: TrainSettings, trainer: Trainer, cross_fit: CrossFit | None
) -> dict[str, Any]:
    left_out = None if cross_fit is None else cross_fit.left_out
    place: dict[str, Any] = {"rank": trainer.global_rank, "world": trainer.world_size}
    loaders: dict[str, Any] = {
        "train_dataloaders": BatchLoader(
            splits.train, config.data.batch_size, seed=config.seed, left_out=left_out, **place
        )
    }
    if splits.validation is not None:
        loaders["val_dataloaders"] = BatchLoader(
            splits.validation, config.data.batch_size, **place
        )
    return loaders


def _checkpoint(run: Run) -> Path | None:
    return run.checkpoint if run.checkpoint.is_file() else None


def is_later_process() -> bool:
    """Whether another process of the same run has begun before this one."""
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return any(int(os.environ.get(name) or 0) > 0 for name in names)


def _fit_representations(
    task: ContrastiveTask,
    train: LabeledImages,
    config: TrainSettings,
    facts: DataFacts,
    run: Run,
) -> dict[str, float]:
    """Fit probes to features of the training images, plain and averaged; write them.

    Features are averaged over views that the method draws or, for crops, over the same boxes of
    every image, whichever the probe does better with. Nothing is fitted to images without classes,
    or of a single class.

    Arguments:
        task: Its encoder is trained; it gets the probes.
        train: Images that it was trained on.
        config: Every setting.
        facts: On the images.
        run: Receives the probes.

    Returns:
        By kind of view, the accuracy on training images that chose the penalty of the probe.
    """
    if len(train.classes) < 2:
        return {}

    def fit(n_samples: int) -> Representation:
        features, targets = _features(task, train, config, n_samples)
        return Representation.fit(
            features, targets, num_classes=len(train.classes), seed=config.seed
        )

    n_views = config.views.n_views
    fitted = {"plain": fit(0)}
    if task.augmenter.averages_views:
        fitted["augmented"] = fit(n_views)
    if config.views.select == "auto" and makes_crops_alone(task.augmenter) and can_order(n_views):
        mean, std = (numbers.flatten().tolist() for numbers in (task.mean, task.std))
        spread = spread_views(size=facts.image_size, channels=facts.channels, mean=mean, std=std)
        task.ordered = spread.to(task.mean.device)
        fitted["ordered"] = fit(n_views)
    found = {kind: one.validation for kind, one in fitted.items()}
    if found.get("ordered", 0.0) > found.get("augmented", 0.0):
        fitted.pop("augmented", None)
        assert task.ordered is not None  # noqa: S101  # as it has a probe
        task.ordered.save(run.order_file)
    else:
        fitted.pop("ordered", None)
        task.ordered = None
    task.representations |= fitted
    tensors = {
        f"{kind}.{name}": tensor.contiguous()
        for kind, one in fitted.items()
        for name, tensor in one.tensors().items()
    }
    write_atomically(run.probe_file, lambda file: file.write(save(tensors)))
    return found


def _score_representations(
    task: ContrastiveTask, data: LabeledImages, config: TrainSettings, *, n_samples: int
) -> dict[str, Any]:
    """Scores of the probes, of nearest neighbors, and of the views themselves.

    Arguments:
        task: With its probes, if there are any.
        data: Images to score on.
        config: Every setting.
        n_samples: Samples whose features are averaged; 0 for none.
    """
    tally = ContrastTally()
    for number, (x, _) in enumerate(BatchLoader(data, config.data.batch_size)):
        task.eval().compare_views(x, number, tally)
    results: dict[str, Any] = {"views": tally.scores()}
    if not task.representations:
        return results
    results["plain"] = task.representations["plain"].scores(*_features(task, data, config, 0))
    if n_samples and task.averaged is not None:
        scores = task.averaged.scores(*_features(task, data, config, n_samples))
        results["augmented"] = {**scores, "n_samples": n_samples}
    return results


def _features(
    task: ContrastiveTask, data: LabeledImages, config: TrainSettings, n_samples: int
) -> tuple[Any, Any]:
    encode = make_predictor(
        task,
        n_samples=n_samples,
        merge="logit",
        select=config.views.drawn,
        replace=config.views.replace,
        seed=config.seed,
        model=task.model.encoder,
    )
    return collect_features(encode, BatchLoader(data, config.data.batch_size))


def run_device(config: TrainSettings) -> str:
    """Where the models of a run belong on this machine."""
    wanted = config.trainer.accelerator in ("auto", "cuda", "gpu")
    return "cuda" if wanted and torch.cuda.is_available() else "cpu"
