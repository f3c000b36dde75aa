"""``samples.png``: test images with their classes, predictions and samples, kept up to date."""

import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor
from typing_extensions import override

from instaaug.augmentation import Augmenter, InstaAug
from instaaug.data import LabeledImages
from instaaug.files import write_atomically
from instaaug.functional.affine import inverse
from instaaug.functional.boxes import move_points
from instaaug.networks.model_interface import evaluation_mode
from instaaug.report.pictures.samples import SampleRow, describe_prediction, draw_samples
from instaaug.shapes import repeat_batch
from instaaug.tasks.callbacks import AfterTask
from instaaug.tasks.supervised import SupervisedTask
from instaaug.tasks.task import AugmentedTask
from instaaug.transforms import Composition, Crop

__all__ = ["LatestSamples", "write_samples"]

SECONDS_BETWEEN = 30.0


@torch.no_grad()
def write_samples(task: AugmentedTask, images: LabeledImages, file: Path, n_samples: int) -> None:
    """Draw the images with samples of what augments them; the same draws at every call.

    Arguments:
        task: With the model and the augmenter, which come back as they were.
        images: A few.
        file: Where the picture goes, whole or not at all.
        n_samples: Samples of each.
    """
    aug = task.augmenter
    pixels, targets = images.__getitems__(range(len(images)))
    generator = torch.Generator(task.mean.device).manual_seed(0)
    with evaluation_mode(task):
        x = task.normalize(pixels.to(task.mean.device))
        theta = aug.draw(x, n_samples, replace=True, generator=generator)
        rendered = aug.render(repeat_batch(x, n_samples), theta.flatten(0, 1))
        outlines = _outlines(aug, x, theta)
        titles = _titles(task, images, pixels, targets)
    shown = (rendered * task.std + task.mean).clamp(0, 1).cpu()
    samples = shown.unflatten(0, (n_samples, len(images))).transpose(0, 1)
    rows = [
        SampleRow(
            title, pixels[i].float() / 255, samples[i], None if outlines is None else outlines[i]
        )
        for i, title in enumerate(titles)
    ]
    picture = draw_samples(rows, _caption(aug, n_samples, has_boxes=outlines is not None))
    write_atomically(file, lambda stream: picture.save(stream, format="png"))


def _outlines(aug: Augmenter, x: Tensor, theta: Tensor) -> Float[Tensor, "b n 4 2"] | None:
    """The corners of what each sample shows of its image, if it is a crop."""
    transform = getattr(aug, "transform", None)
    if not isinstance(transform, Composition) or not any(
        isinstance(part, Crop) for part in transform.transforms
    ):
        return None
    corners = theta.new_tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    matrix = transform.matrix(theta.flatten(0, 1), aspect=x.shape[-1] / x.shape[-2])
    seen = move_points(corners.expand(len(matrix), 4, 2), inverse(matrix))
    return seen.unflatten(0, theta.shape[:2]).transpose(0, 1).cpu()


def _titles(
    task: AugmentedTask, images: LabeledImages, pixels: Tensor, targets: Tensor
) -> list[str]:
    if not images.classes:
        return [_name(images, i) for i in range(len(images))]
    true = [images.classes[int(target)] for target in targets]
    if not isinstance(task, SupervisedTask):
        return true
    best = task(pixels.to(task.mean.device)).float().softmax(dim=-1).max(dim=-1)
    told = zip(true, best.indices.tolist(), best.values.tolist(), strict=True)
    return [describe_prediction(name, images.classes[index], p) for name, index, p in told]


def _name(images: LabeledImages, i: int) -> str:
    return Path(images.name(i)).name


def _caption(aug: Augmenter, n: int, *, has_boxes: bool) -> str:
    first = "Left: a test image with its class, and what the model says of the image alone. "
    drawn = f"Right: {n} samples of what augments it"
    boxes = (
        "; frames on the image, in the same colors, show what each is cut from. "
        if has_boxes
        else ". "
    )
    keeps = isinstance(aug, InstaAug) and aug.settings.keep_original
    kept = (
        "At test time the first view is the image itself, and these complement it."
        if keeps
        else ""
    )
    return first + drawn + boxes + kept


class LatestSamples(AfterTask):
    """Keeps ``samples.png`` up to date while training runs, not more often than every half minute.

    Arguments:
        images: The images to show.
        file: The picture.
        n_samples: Samples of each.
    """

    def __init__(self, images: LabeledImages, file: Path, n_samples: int) -> None:
        self.images, self.file, self.n_samples = images, file, n_samples
        self._written_at = -SECONDS_BETWEEN

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        now: Any = time.monotonic()
        if not trainer.is_global_zero or now - self._written_at < SECONDS_BETWEEN:
            return
        if isinstance(pl_module, AugmentedTask):
            write_samples(pl_module, self.images, self.file, self.n_samples)
            self._written_at = now
