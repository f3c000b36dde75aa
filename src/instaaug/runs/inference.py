"""Use a finished run: score it on images, or predict files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instaaug.data import LabeledImages, load_data
from instaaug.runs.class_names import with_classes
from instaaug.runs.data_facts import DataFacts
from instaaug.runs.predicted_files import class_columns, predicted_rows
from instaaug.runs.run_directory import RunDirectory
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import evaluate_task, load_splits
from instaaug.tasks import make_predictor

__all__ = ["predict_files", "run_device", "score_run"]


def score_run(
    path: str | Path,
    *,
    data: str | None = None,
    n_samples: int | None = None,
    on_decode: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Scores of a run on its own test images, or on other images with the same classes.

    Arguments:
        path: The run's folder.
        data: Anything that ``instaaug train`` takes; its test part, or all of it without parts.
        n_samples: Samples per image; what the run was trained to use by default.
        on_decode: Called with the number of files decoded and of all files.
    """
    run = RunDirectory(path)
    config, facts = run.read_config(), run.read_facts()
    task = run.load_task().to(run_device(config))
    if data is None:
        splits = load_splits(config, on_decode)
        run.check_split(splits.hash)  # or training images might be among those of the test
        images = splits.test
    else:
        images = _other_images(data, config, facts, on_decode)
    return evaluate_task(task, images, config, n_samples=n_samples)


def _other_images(
    data: str,
    config: TrainSettings,
    facts: DataFacts,
    on_decode: Callable[[int, int], None] | None,
) -> LabeledImages:
    splits = load_data(
        data,
        root=config.data.root,
        task=config.target_kind,
        path_column=config.data.path_column,
        target_column=config.data.target_column,
        size=facts.image_size,
        channels=facts.channels,
        test_fraction=0.0,
        validation_fraction=0.0,
        seed=config.seed,
        needs_labels=config.task != "contrastive",
        on_bad_image=config.data.on_bad_image,
        cache_dir=config.data.cache_dir,
        on_progress=on_decode,
    )
    images = splits.test if len(splits.test) else splits.train
    return with_classes(images, facts.classes)


def predict_files(
    path: str | Path,
    images: Sequence[str | Path],
    *,
    n_samples: int | None = None,
    n_top: int = 1,
    skip_bad: bool = False,
) -> Iterator[dict[str, Any]]:
    """Predict image files one chunk at a time.

    Arguments:
        path: The run's folder.
        images: Files, or folders whose images are taken.
        n_samples: Samples per image; what the run was trained to use by default.
        n_top: Most probable classes to list.
        skip_bad: Whether a file that cannot be read gets a row with the reason, not an error.
    """
    run = RunDirectory(path)
    config, facts = run.read_config(), run.read_facts()
    task = run.load_task().to(run_device(config))
    usual = config.views.n_views if task.augmenter.averages_views else 0
    predict = make_predictor(
        task,
        n_samples=usual if n_samples is None or config.method.name == "none" else n_samples,
        merge=config.views.merge,
        select=config.views.select,
        seed=config.seed,
    )

    def rows_of(pixels: Tensor) -> list[dict[str, Any]]:
        return [_row(output, facts, n_top) for output in predict(pixels)]

    yield from predicted_rows(
        images,
        rows_of,
        without=_row(None, facts, n_top),
        size=facts.image_size,
        channels=facts.channels,
        skip_bad=skip_bad,
    )


def run_device(config: TrainSettings) -> str:
    """Where the models of a run belong on this machine."""
    wanted = config.trainer.accelerator in ("auto", "cuda", "gpu")
    return "cuda" if wanted and torch.cuda.is_available() else "cpu"


def _row(output: Tensor | None, facts: DataFacts, n_top: int) -> dict[str, Any]:
    if facts.classes:
        return class_columns(output, facts.classes, n_top)
    n = facts.n_targets
    values = [None] * n if output is None else [float(v) for v in output.reshape(-1)]
    return {"prediction" if n == 1 else f"prediction_{i + 1}": v for i, v in enumerate(values)}
