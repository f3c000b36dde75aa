"""Fit views for a frozen model, and say what they gain: what ``instaaug tta fit`` calls."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from instaaug.augmentation import InstaAug
from instaaug.data import DataSplits, LabeledImages
from instaaug.errors import ArgumentError
from instaaug.frozen import average_policy
from instaaug.frozen.table import all_views, can_tabulate
from instaaug.report.theme import MissingPlottingError, save_figure
from instaaug.runs.class_names import with_classes
from instaaug.runs.frozen_data import (
    chosen_sizes,
    class_order,
    image_hashes,
    load_images,
    split_by_hash,
)
from instaaug.runs.frozen_learning import fit_views, honest_temperatures
from instaaug.runs.frozen_model import (
    FrozenModel,
    ModelSource,
    build_model,
    channels_of,
    find_model,
)
from instaaug.runs.frozen_pictures import crops_figure
from instaaug.runs.frozen_run import FittedViews, FrozenFacts, FrozenRun, model_hash
from instaaug.runs.frozen_scores import (
    batch_counter,
    merged_outputs,
    score,
)
from instaaug.runs.settings import TtaSettings

__all__ = ["fit_frozen"]

OnProgress = Callable[[int, int], None]
AT_ONCE = 32
DOTS = 120  # per inch of the crops: photos need no more


class _Ready(NamedTuple):
    """All that is needed before the model is asked anything."""

    source: ModelSource
    model: FrozenModel
    splits: DataSplits
    size: int


def fit_frozen(
    config: TtaSettings,
    out: str | Path,
    *,
    on_decode: OnProgress | None = None,
    on_table: OnProgress | None = None,
    on_score: OnProgress | None = None,
) -> dict[str, Any]:
    """Fit views; the folder ``out`` receives everything. Returns the results.

    A fit that was interrupted goes on where it stopped, and a finished one is not repeated.

    Arguments:
        config: Every setting.
        out: A new folder, or that of the same fit.
        on_decode: Called with the number of files decoded and of all files.
        on_table: Called with the number of images of which the model has seen every view, and of
            all images.
        on_score: Called with the number of held-out images that were predicted, and of all.
    """
    run, config = FrozenRun(out), config.with_full_paths()
    if run.path.resolve().is_relative_to(config.data.source):
        raise ArgumentError(
            f"`out` must lie outside of the images: got {str(out)!r} within "
            f"{config.data.source!r}."
        )
    is_new = not run.config_file.exists()
    run.start(config)
    if run.results_file.is_file():
        return run.read_results()
    started = time.monotonic()
    try:
        ready = _prepare(config, on_decode)
        aug = fit_views(
            config, ready.model, ready.splits.train, size=ready.size, folder=run.table,
            on_table=on_table,
        )  # fmt: skip
    except Exception:  # a slip in the settings shall not take the folder
        if is_new and not run.table.exists():
            run.withdraw()
        raise
    results = _finish(run, config, ready, aug, on_score)
    run.write_json(run.path / "timing.json", {"seconds": time.monotonic() - started})
    run.write_json(run.results_file, results)
    return results


def _prepare(config: TtaSettings, on_decode: OnProgress | None) -> _Ready:
    if config.threads:
        torch.set_num_threads(config.threads)
    source = find_model(config.model.name)
    size, side = chosen_sizes(config, source)
    channels = channels_of(source, config)
    images = load_images(config, source, side=side, channels=channels, on_decode=on_decode)
    size = images.image_shape[1] if size is None else size
    images = with_classes(images, class_order(config, source, images))
    model = build_model(source, config, len(images.classes))
    model.check_outputs(size, images.classes)
    return _Ready(source, model, split_by_hash(images, config), size)


def _finish(
    run: FrozenRun,
    config: TtaSettings,
    ready: _Ready,
    aug: InstaAug,
    on_score: OnProgress | None,
) -> dict[str, Any]:
    """Write φ and what was found out with it; return the results."""
    fit, held_out = ready.splits.train, ready.splits.test
    facts = FrozenFacts(
        size=ready.size,
        side=fit.image_shape[1],
        channels=ready.model.channels,
        classes=fit.classes,
        model_hash=model_hash(ready.model.module, aug),
        split_hash=ready.splits.hash,
    )
    run.write_facts(facts, image_hashes(fit))
    aug.save(run.augmenter_file)
    counts = (1, *config.views.counts)
    fitted = FittedViews(config, facts, ready.source, ready.model, aug, {})
    temperatures = honest_temperatures(
        config, ready.model, fit, aug, size=ready.size, counts=counts, folder=run.table
    )
    _write_policy(run, fitted, fit)
    _write_crops(run, fitted, held_out if len(held_out) else fit)
    rows: list[dict[str, Any]] = [
        {"views": count, "temperature": temperatures[count]} for count in counts
    ]
    if len(held_out):
        pictures = ready.model.pictures(held_out)
        on_batch = batch_counter(on_score, len(held_out))
        merged = merged_outputs(
            aug, ready.model, pictures, counts, select=aug.select, on_batch=on_batch
        )
        rows = [
            score(
                "the image" if count == 1 else f"{count} views", float(count), merged[count],
                held_out.targets, temperature=temperatures[count],
            ).to_dict() for count in counts
        ]  # fmt: skip
    return {
        "model": config.model.name,
        "data": config.data.source,
        "seed": config.seed,
        "n_fit": len(fit),
        "n_test": len(held_out),
        "n_views": len(all_views(aug)) if can_tabulate(aug) else None,
        "classes_from": "data"
        if config.model.classes is None and not ready.source.classes
        else "model",
        "skipped": list(fit.skipped),
        "split_hash": facts.split_hash,
        "rows": rows,
    }


def _write_policy(run: FrozenRun, fitted: FittedViews, images: LabeledImages) -> None:
    """The best views on average, where views can be listed."""
    if can_tabulate(fitted.aug):
        n = min(max(fitted.config.views.counts), len(all_views(fitted.aug)))
        batches = (x for x, _ in fitted.model.pictures(images).batches(AT_ONCE))
        average_policy(fitted.aug, batches, n).save(run.policy_file)


def _write_crops(run: FrozenRun, fitted: FittedViews, images: LabeledImages) -> None:
    """What φ chooses, where it chooses crops and figures can be drawn."""
    with suppress(MissingPlottingError):
        drawing = crops_figure(fitted, images)
        if drawing is not None:
            save_figure(drawing, run.crops_file, dpi=DOTS)
