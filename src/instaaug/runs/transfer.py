"""Learn a head and its views on a frozen backbone, keep them, and load them again."""

from pathlib import Path
from typing import Any

import torch

from instaaug.data import DataSplits, LabeledImages
from instaaug.data.cache import OnProgress
from instaaug.errors import ArgumentError
from instaaug.frozen import average_policy
from instaaug.frozen.table import all_views
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.frozen_model import (
    FitInputs,
    FrozenModel,
    ModelSource,
    build_model,
    choose_sizes,
    find_channels,
    find_model,
    image_hashes,
    load_source,
    renumber_classes,
    split_by_hash,
)
from instaaug.runs.settings import TransferSettings
from instaaug.runs.tta import FittedViews, load_fitted, model_hash, score_rows, write_crops
from instaaug.transfer import Transfer, fit_transfer
from instaaug.transforms import Transform, make_transforms

__all__ = ["fit_backbone", "load_frozen", "load_transfer_splits", "own_splits"]

AT_ONCE = 32


def fit_backbone(
    config: TransferSettings,
    out: str | Path,
    *,
    on_decode: OnProgress | None = None,
    on_table: OnProgress | None = None,
    on_score: OnProgress | None = None,
) -> dict[str, Any]:
    """Learn head and views; the folder ``out`` receives everything. Returns the results.

    A run that was interrupted goes on where it stopped, and a finished one is not repeated.

    Arguments:
        config: Every setting.
        out: A new folder, or that of the same run.
        on_decode: Called with the number of files decoded and of all files.
        on_table: Called with the number of images whose features are stored, and of all images.
        on_score: Called with the number of test images that were predicted, and of all.
    """
    run, config = Run(out), config.with_full_paths()
    with run.fitting(config) as elapsed:
        if run.results_file.is_file():
            return run.read_results()
        found = _prepare(config, on_decode)
        features_at = elapsed()

        def note_time(done: int, of_all: int) -> None:
            nonlocal features_at
            features_at = elapsed()
            if on_table is not None:
                on_table(done, of_all)

        transfer = _fit(config, found, run, note_time)
        learned_at = elapsed()
        results = _finish(run, config, found, transfer, on_score)
        run.write_results(results, seconds=elapsed(), learning=learned_at - features_at)
    return results


def _prepare(config: TransferSettings, on_decode: OnProgress | None) -> FitInputs:
    if config.threads:
        torch.set_num_threads(config.threads)
    source = find_model(config.backbone.name)
    size, side = choose_sizes(config, source)
    channels = find_channels(source, config)
    splits = load_transfer_splits(config, side=side, channels=channels, on_decode=on_decode)
    size = splits.train.image_shape[1] if size is None else size
    model = build_model(source, config, len(splits.train.classes))
    return FitInputs(source, model, splits, size)


def load_transfer_splits(
    config: TransferSettings,
    *,
    side: int | None,
    channels: int,
    on_decode: OnProgress | None = None,
) -> DataSplits:
    """Images to learn from, and test images: those of the data, or some that are held out.

    Arguments:
        config: The settings.
        side: Side in pixels; None for the images' own.
        channels: 1 or 3.
        on_decode: Called with the number of files decoded and of all files.
    """
    splits = load_source(config, side=side, channels=channels, on_decode=on_decode)
    if not len(splits.test):
        return split_by_hash(splits.train, config)
    train = splits.train
    if config.data.limit is not None:
        own = config.override({"data.test_fraction": 0.0})
        train = split_by_hash(train, own).train
    return DataSplits(train=train, validation=None, test=splits.test, name=splits.name)


def _transforms(config: TransferSettings) -> list[Transform]:
    names = ["crop", "flip"] if config.crop.mirror else ["crop"]
    return make_transforms(names, levels=config.crop.grid, max_outside=0.0)


def _fit(
    config: TransferSettings, found: FitInputs, run: Run, on_table: OnProgress | None
) -> Transfer:
    model = found.model
    return fit_transfer(
        model.module,
        found.splits.train,
        _transforms(config),
        num_classes=len(found.splits.train.classes),
        n_samples=config.views.counts,
        size=found.size,
        mean=model.mean,
        std=model.std,
        output=model.output,
        use_output=config.backbone.use_output,
        merge=config.views.merge,
        sharpness=config.views.sharpness,
        steps=config.views.steps,
        seed=config.seed,
        folder=run.table,
        on_progress=on_table,
    )


def _finish(
    run: Run,
    config: TransferSettings,
    found: FitInputs,
    transfer: Transfer,
    on_score: OnProgress | None,
) -> dict[str, Any]:
    """Write head and views and all that follows from them; return the results."""
    train, test = found.splits.train, found.splits.test
    facts = DataFacts(
        image_size=found.size,
        channels=found.model.channels,
        classes=train.classes,
        n_targets=len(train.classes),
        mean=found.model.mean,
        std=found.model.std,
        split_hash=found.splits.hash,
        decode_size=train.image_shape[1],
        model_hash=model_hash(transfer.classifier.backbone, transfer.augmenter),
    )
    run.write_facts(facts, image_hashes(train))
    transfer.save(run.path)
    fitted = _as_fitted(config, facts, found.source, found.model, transfer)
    batches = (x for x, _ in fitted.model.normalize(train).batches(AT_ONCE))
    n_best = min(max(config.views.counts), len(all_views(transfer.augmenter)))
    average_policy(transfer.augmenter, batches, n_best).save(run.policy_file)
    write_crops(run, fitted, test if len(test) else train)
    rows = score_rows(fitted, train, test, on_score)
    return {
        "model": config.backbone.name,
        "data": config.data.source,
        "seed": config.seed,
        "n_fit": len(train),
        "n_test": len(test),
        "n_views": len(all_views(transfer.augmenter)),
        "classes_from": "data",
        "merge": transfer.augmenter.merge,
        "sharpness": transfer.augmenter.sharpness,
        "skipped": list(train.skipped),
        "split_hash": facts.split_hash,
        "temperatures": {str(n): t for n, t in fitted.temperatures.items()},
        "transfer": transfer.results,
        "rows": rows,
    }


def _as_fitted(
    config: TransferSettings,
    facts: DataFacts,
    source: ModelSource,
    model: FrozenModel,
    transfer: Transfer,
) -> FittedViews:
    """Head and backbone as a frozen model with views, which is all that others need to know."""
    classifier = FrozenModel(transfer.classifier, model.channels, None, model.mean, model.std)
    temperatures = transfer.temperatures or {1: 1.0}
    return FittedViews(config, facts, source, classifier, transfer.augmenter, temperatures)


def load_frozen(run: Run) -> FittedViews:
    """The frozen model of a run with its views, whether the run has learned a head or not.

    Raises:
        FileNotFoundError: If the run has not finished.
        ArgumentError: If the model is another one now.
    """
    config = run.read_settings()
    if not isinstance(config, TransferSettings):
        return load_fitted(run)
    if not run.results_file.is_file():
        raise FileNotFoundError(
            f"The run in {str(run.path)!r} has not finished: there is no results.json. `instaaug "
            f"resume {run.path}` goes on with it."
        )
    facts = run.read_facts()
    source = find_model(config.backbone.name)
    model = build_model(source, config, len(facts.classes))
    transfer = Transfer.load(run.path, model.module, output=model.output)
    now = model_hash(transfer.classifier.backbone, transfer.augmenter)
    if now != facts.model_hash:
        raise ArgumentError(
            f"`backbone` must be the one that the head was fitted for: {config.backbone.name!r} "
            f"had the hash {facts.model_hash}, now it has {now}. Does it load its weights? If it "
            "was trained further, fit again."
        )
    return _as_fitted(config, facts, source, model, transfer)


def own_splits(fitted: FittedViews, on_decode: OnProgress | None) -> DataSplits:
    """The images that a run has learned from, and its test images."""
    assert isinstance(fitted.config, TransferSettings)  # noqa: S101  # asked of such runs alone
    facts = fitted.facts
    splits = load_transfer_splits(
        fitted.config, side=facts.decode_size, channels=facts.channels, on_decode=on_decode
    )
    test: LabeledImages = renumber_classes(splits.test, facts.classes)
    return DataSplits(train=splits.train, validation=None, test=test, name=splits.name)
