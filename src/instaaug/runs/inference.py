"""Use a finished run of any kind: score it, predict files, draw them, export φ."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages, load_data
from instaaug.data.cache import OnProgress
from instaaug.data.decode import decode_image
from instaaug.data.files import image_files
from instaaug.errors import ArgumentError, DataError
from instaaug.frozen import StaticPolicy, export_phi, export_predictor
from instaaug.report.pictures.inputs import draw_inputs
from instaaug.report.pictures.rows import MOST_INPUTS
from instaaug.report.theme import save_figure
from instaaug.runs.build import load_task
from instaaug.runs.folder import DataFacts, Run
from instaaug.runs.frozen_model import renumber_classes
from instaaug.runs.loaded import LoadedRun, load_run
from instaaug.runs.observing import observe_images
from instaaug.runs.settings import OtherModelSettings, TrainSettings
from instaaug.runs.training import evaluate_task, load_splits, run_device
from instaaug.runs.transfer import load_frozen
from instaaug.runs.tta_evaluation import EarlyStop, evaluate_fit

__all__ = [
    "ExportedPart",
    "decode_files",
    "evaluate_run",
    "export_run",
    "image_paths",
    "inspect_files",
    "predict_files",
]

ExportedPart = Literal["predictor", "phi"]

CHUNK = 64
N_EXAMPLES = 2


def evaluate_run(
    path: str | Path,
    *,
    data: str | None = None,
    model: OtherModelSettings | str | None = None,
    n_views: Sequence[int] | None = None,
    baselines: str | None = None,
    stops: Sequence[EarlyStop] = (),
    calibrate: bool = False,
    on_decode: OnProgress | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Scores of a run on the images it has not learned from, or on others with the same classes.

    Arguments:
        path: The run's folder.
        data: Anything that ``instaaug train`` takes; its test part, or all of it without parts.
        model: Another model to predict with, from the views that were fitted for a frozen one.
        n_views: Numbers of views per image; 0 for the image alone; what the run was made for by
            default.
        baselines: Other ways to average views to score beside those of a frozen model: names with
            commas, ``"all"``, the default, or ``"none"``.
        stops: Rules to stop early, for a frozen model.
        calibrate: Whether to fit a temperature for every row, for a frozen model.
        on_decode: Called with the number of files decoded and of all files.
        on_progress: Called with the number of images predicted, over all methods, and of all.

    Returns:
        What ``results.json`` of a training run has under ``test``, or ``eval.json`` of a fit.
    """
    run = Run(path)
    config = run.read_settings()
    if not isinstance(config, TrainSettings):
        return evaluate_fit(
            run, data=data, model=model,
            counts=(1, 4, 10) if n_views is None else sorted({max(n, 1) for n in n_views}),
            baselines="all" if baselines is None else baselines, stops=stops,
            calibrate=calibrate, on_decode=on_decode, on_progress=on_progress,
        )  # fmt: skip
    if model is not None or baselines is not None or stops or calibrate:
        raise ArgumentError(
            "`model`, `baselines`, `certainty`, `mean_views` and `calibrate` compare views of a "
            f"frozen model: {str(run.path)!r} is a training run. Fit views for its model by "
            f"`instaaug tta fit {run.path} DATA`, and evaluate that."
        )
    if n_views is not None and len(n_views) != 1:
        raise ArgumentError(f"`views` must be one number for a training run: got {list(n_views)}.")
    facts = run.read_facts()
    task = load_task(run).to(run_device(config))
    if data is None:
        splits = load_splits(config, on_decode)
        run.check_split(splits.hash)  # or training images might be among those of the test
        images = splits.test
    else:
        images = _load_other_images(data, config, facts, on_decode)
    return evaluate_task(task, images, config, n_samples=None if n_views is None else n_views[0])


def _load_other_images(
    data: str, config: TrainSettings, facts: DataFacts, on_decode: OnProgress | None
) -> LabeledImages:
    splits = load_data(
        data,
        options=config.override({"data": data}).data.options,
        root=config.data.root,
        task=config.target_kind,
        path_column=config.data.path_column,
        target_column=config.data.target_column,
        size=facts.decode_size,
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
    return renumber_classes(images, facts.classes)


def predict_files(
    path: str | Path,
    images: Sequence[str | Path],
    *,
    n_views: int | None = None,
    certainty: float | None = None,
    n_top: int = 1,
    skip_bad: bool = False,
) -> Iterator[dict[str, Any]]:
    """Predict image files, a row each: its path first, its error last.

    Arguments:
        path: The run's folder.
        images: Files, or folders whose images are taken.
        n_views: Views per image, at most; 0 for the image alone; what the run was made for by
            default.
        certainty: Probability of the top class at which an image needs no further view; the rows
            then say how many it took.
        n_top: Most probable classes to list.
        skip_bad: Whether a file that cannot be read gets a row with the reason, not an error.
    """
    loaded = load_run(path)
    predict = loaded.make_predictor(n_views, certainty)

    def columns(output: Tensor | None, count: int | None) -> dict[str, Any]:
        views = {} if certainty is None else {"views": count}
        return {**_prediction_columns(output, loaded, n_top), **views}

    files = iter(image_paths(images))
    while chunk := list(islice(files, CHUNK)):
        pixels, errors = decode_files(
            chunk, size=loaded.size, channels=loaded.channels, skip_bad=skip_bad
        )
        rows: Iterator[dict[str, Any]] = iter(())
        if len(pixels):
            outputs, counts = predict(pixels)
            rows = map(columns, outputs.cpu(), counts.tolist())
        for file, error in zip(chunk, errors, strict=True):
            yield {
                "path": str(file),
                **(columns(None, None) if error else next(rows)),
                "error": error,
            }


def _prediction_columns(
    output: Tensor | None, loaded: LoadedRun, n_top: int
) -> dict[str, str | float | None]:
    """What an image was predicted to be; None leaves every column empty."""
    row: dict[str, str | float | None] = {}
    if not loaded.classes:
        n = loaded.n_targets
        values = [None] * n if output is None else [float(v) for v in output.reshape(-1)]
        return {"prediction" if n == 1 else f"prediction_{i + 1}": v for i, v in enumerate(values)}
    probs = None if output is None else output.softmax(dim=0).sort(descending=True)
    for rank in range(min(n_top, len(loaded.classes))):
        suffix = "" if rank == 0 else f"_{rank + 1}"
        found = None if probs is None else loaded.classes[int(probs.indices[rank])]
        row[f"label{suffix}"] = found
        row[f"probability{suffix}"] = (
            None if probs is None else round(float(probs.values[rank]), 6)
        )
    return row


def image_paths(images: Sequence[str | Path]) -> list[Path]:
    """The files that are named, and those in the folders that are."""
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


def decode_files(
    files: Sequence[Path], *, size: int, channels: int, skip_bad: bool = False
) -> tuple[Tensor, list[str]]:
    """8-bit pixels of those files that can be read, and what is wrong with each of them."""
    pixels, errors = [], []
    for file in files:
        try:
            pixels.append(decode_image(file, size=size, channels=channels))
            errors.append("")
        except DataError as error:
            if not skip_bad:
                raise
            errors.append(str(error))
    stacked = np.stack(pixels) if pixels else np.zeros((0, 1, 1, channels), np.uint8)
    return torch.from_numpy(stacked).permute(0, 3, 1, 2), errors


def inspect_files(
    path: str | Path, images: Sequence[str | Path], out: str | Path | None, *, n_samples: int = 8
) -> list[Path]:
    """Draw the learned distributions of image files, and samples of them.

    Arguments:
        path: The folder of a run.
        images: Files, or folders whose images are taken.
        out: The picture; by default ``report/inspect.png`` in the run's folder.
        n_samples: Samples of each image.

    Returns:
        The pictures that were written: more than one if there are many images.
    """
    if n_samples < 1:
        raise ArgumentError(f"`n_samples` must be at least 1: got {n_samples}.")
    loaded = load_run(path)
    files = image_paths(images)
    if not loaded.augmenter.changes_single_images:
        raise ArgumentError(
            f"`run` must change single images: that in {str(path)!r} leaves them as they are. "
            "Name one of another method, such as instaaug or random."
        )
    target = Path(path) / "report" / "inspect.png" if out is None else Path(out)
    written = []
    for start in range(0, len(files), MOST_INPUTS):  # as many at a time as one figure holds
        part = files[start : start + MOST_INPUTS]
        number = start // MOST_INPUTS + 1
        name = target.name if number == 1 else f"{target.stem}-{number}{target.suffix}"
        pixels, _ = decode_files(part, size=loaded.size, channels=loaded.channels)
        seen = observe_images(loaded, pixels, n_samples)
        titles = [image.name.encode("utf-8", "replace").decode() for image in part]
        save_figure(draw_inputs(seen, titles=titles), target.with_name(name))
        written.append(target.with_name(name))
    return written


def export_run(
    path: str | Path,
    file: str | Path,
    *,
    part: ExportedPart = "predictor",
    n_views: int | None = None,
    tolerance: float = 1e-4,
) -> float | None:
    """Write the predictor of a run as a file for other programs, φ alone, or the best views.

    Arguments:
        path: The run's folder.
        file: Ends in ``.onnx`` or ``.pt2``, or in ``.json`` for the policy of a fit of views.
        part: ``"predictor"`` takes images in [0, 1] and gives calibrated logits; ``"phi"`` takes
            normalized images and gives the parameters of their distributions.
        n_views: Views per image; 0 for the image alone; what ``predict`` uses by default.
        tolerance: Largest difference of an output, relative to the largest of its values where
            that is above 1.

    Returns:
        The largest difference between what the file says and what the run says; None for a policy.
    """
    run, file = Run(path), Path(file)
    if file.suffix not in (".onnx", ".pt2", ".json"):
        raise ArgumentError(
            f"`file` must end in .onnx or .pt2, or in .json for the policy: got {str(file)!r}."
        )
    if file.suffix == ".json":
        _export_policy(run, file)
        return None
    loaded = load_run(path)
    loaded.model.cpu()
    augmenter = loaded.augmenter.cpu()
    generator = torch.Generator().manual_seed(loaded.seed)
    shape = (N_EXAMPLES, loaded.channels, loaded.size, loaded.size)
    pixels = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    if part == "predictor":
        return export_predictor(
            loaded.make_module(n_views).eval(), file, pixels / 255, mean=loaded.mean,
            std=loaded.std, classes=loaded.classes, tolerance=tolerance,
        )  # fmt: skip
    if not isinstance(augmenter, InstaAug):
        raise ArgumentError(
            f"`run` must have learned φ: that in {str(run.path)!r} has none. Name one of instaaug."
        )
    return export_phi(augmenter, file, loaded.prepare(pixels), tolerance=tolerance)


def _export_policy(run: Run, file: Path) -> None:
    load_frozen(run)  # raises unless the run is a finished fit
    if not run.policy_file.is_file():
        raise ArgumentError(
            f"`file` cannot be a policy: φ of {str(run.path)!r} gives ranges, of which none "
            "is the best. Write φ itself, to a .onnx or .pt2 file."
        )
    if file.resolve() != run.policy_file.resolve():
        StaticPolicy.load(run.policy_file).save(file)
