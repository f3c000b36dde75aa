"""Use a finished run: score it on images, or predict files."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instaaug.data import LabeledImages, load_data
from instaaug.data.decode import decode_image
from instaaug.data.folder import image_files
from instaaug.errors import ArgumentError, DataError
from instaaug.experiments.build import DataFacts
from instaaug.experiments.config import TrainConfig
from instaaug.experiments.run_directory import RunDirectory
from instaaug.experiments.training import evaluate_task, load_splits
from instaaug.tasks import make_predictor

__all__ = ["predict_files", "score_run"]

CHUNK = 64


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
    task = run.load_task().to(_device(config))
    if data is None:
        splits = load_splits(config, on_decode)
        run.check_split(splits.hash)  # or training images might be among those of the test
        images = splits.test
    else:
        images = _other_images(data, config, facts, on_decode)
    return evaluate_task(task, images, config, n_samples=n_samples)


def _other_images(
    data: str, config: TrainConfig, facts: DataFacts, on_decode: Callable[[int, int], None] | None
) -> LabeledImages:
    splits = load_data(
        data,
        root=config.root,
        task=config.task,
        path_column=config.path_column,
        target_column=config.target_column,
        size=facts.image_size,
        channels=facts.channels,
        test_fraction=0.0,
        validation_fraction=0.0,
        seed=config.seed,
        on_bad_image=config.on_bad_image,
        cache_dir=config.cache_dir,
        on_progress=on_decode,
    )
    images = splits.test if len(splits.test) else splits.train
    unknown = sorted(set(images.classes) - set(facts.classes))
    if unknown:
        raise DataError(
            f"`data` must have the classes that the model knows: {', '.join(unknown[:3])} "
            f"{'is' if len(unknown) == 1 else 'are'} new. It knows "
            f"{', '.join(facts.classes[:10])}."
        )
    number = torch.tensor([facts.classes.index(name) for name in images.classes])
    targets = number[images.targets] if images.classes else images.targets
    return LabeledImages(
        images.images, targets, facts.classes, images.names, images.fingerprint, rows=images.rows
    )


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
    task = run.load_task().to(_device(config))
    wanted = config.test_samples if n_samples is None else n_samples
    predict = make_predictor(
        task,
        n_samples=0 if config.method == "none" else wanted,
        merge=config.merge,
        select=config.select,
        seed=config.seed,
    )
    files = iter(_files(images))
    while chunk := list(islice(files, CHUNK)):
        pixels, errors = _decoded(chunk, facts, skip_bad=skip_bad)
        outputs = iter(predict(pixels)) if len(pixels) else iter(())
        for file, error in zip(chunk, errors, strict=True):
            output = None if error else next(outputs)
            yield {"path": str(file), **_row(output, facts, n_top), "error": error}


def _device(config: TrainConfig) -> str:
    wanted = config.accelerator in ("auto", "cuda", "gpu")
    return "cuda" if wanted and torch.cuda.is_available() else "cpu"


def _files(images: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for image in map(Path, images):
        if image.is_dir():
            found += image_files(image)
        elif image.is_file():
            found.append(image)
        else:
            raise FileNotFoundError(f"There is no image {str(image)!r}.")
    if not found:
        raise ArgumentError("`images` must name at least one image: got folders without any.")
    return found


def _decoded(
    files: Sequence[Path], facts: DataFacts, *, skip_bad: bool
) -> tuple[Tensor, list[str]]:
    pixels, errors = [], []
    for file in files:
        try:
            pixels.append(decode_image(file, size=facts.image_size, channels=facts.channels))
            errors.append("")
        except DataError as error:
            if not skip_bad:
                raise
            errors.append(str(error))
    stacked = np.stack(pixels) if pixels else np.zeros((0, 1, 1, facts.channels), np.uint8)
    return torch.from_numpy(stacked).permute(0, 3, 1, 2), errors


def _row(output: Tensor | None, facts: DataFacts, n_top: int) -> dict[str, Any]:
    if not facts.classes:
        n = facts.n_targets
        values = [None] * n if output is None else [float(v) for v in output.reshape(-1)]
        return {"prediction" if n == 1 else f"prediction_{i + 1}": v for i, v in enumerate(values)}
    row: dict[str, Any] = {}
    n_top = min(n_top, len(facts.classes))
    probs = None if output is None else output.softmax(dim=0).sort(descending=True)
    for rank in range(n_top):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        row[f"label{suffix}"] = None if probs is None else facts.classes[int(probs.indices[rank])]
        row[f"probability{suffix}"] = (
            None if probs is None else round(float(probs.values[rank]), 6)
        )
    return row
