"""Callbacks that write down what happens: a table of epochs, and pictures of what φ does."""

import csv
import io
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from instaaug.augmentation import InstaAug
from instaaug.distributions import UniformBox
from instaaug.files import write_text
from instaaug.tasks.after_task import AfterTask
from instaaug.tasks.task import AugmentedTask

__all__ = ["MetricsTable", "SamplePictures", "sample_sheet"]

GAP = 1  # pixels of white around every image


class MetricsTable(AfterTask):
    """Writes a CSV with a row per epoch.

    The rows are part of the run's state: a resumed run ends with the table of an uninterrupted
    one.

    Arguments:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or not isinstance(pl_module, AugmentedTask):
            return
        names = list(dict.fromkeys(name for row in pl_module.history for name in row))
        text = io.StringIO()
        table = csv.DictWriter(text, names, lineterminator="\n")
        table.writeheader()
        table.writerows(pl_module.history)
        write_text(self.path, text.getvalue())


class SamplePictures(AfterTask):
    """Shows TensorBoard, after every epoch, samples of some images and how they are distributed.

    Widths of intervals go in as curves, sides of boxes as histograms, samples as a sheet with an
    image and its samples in each row.

    Arguments:
        images: The images to show, as the data set gives them.
        n_samples: Samples of each.
        every: Epochs between pictures.
    """

    def __init__(self, images: Tensor, *, n_samples: int = 7, every: int = 1) -> None:
        self.images, self.n_samples, self.every = images, n_samples, every

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        boards = [b for b in trainer.loggers if isinstance(b, TensorBoardLogger)]
        if not boards or not isinstance(pl_module, AugmentedTask) or not trainer.is_global_zero:
            return
        if (trainer.current_epoch + 1) % self.every:
            return
        board, step = boards[0].experiment, pl_module.n_steps
        board.add_image("samples", sample_sheet(pl_module, self.images, self.n_samples), step)
        if isinstance(pl_module.augmenter, InstaAug):
            self._add_distributions(pl_module, pl_module.augmenter, board, step)

    @torch.no_grad()
    def _add_distributions(
        self, task: AugmentedTask, augmenter: InstaAug, board: Any, step: int
    ) -> None:
        if augmenter.settings.conditioning == "class":
            return
        joint = augmenter.distribution(task.prepared(self.images.to(task.device)))
        for name, factor in joint.factors.items():
            if isinstance(factor, UniformBox):
                widths = (factor.high - factor.low).mean(dim=0)
                for i, width in enumerate(widths):
                    board.add_scalar(f"width/{name}/{i}", width, step)
            elif name in augmenter.phi.grids:
                draws = factor.theta(factor.draw(64, generator=_seeded(task)))
                board.add_histogram(f"box side/{name}", draws[..., 2] / 2, step)


@torch.no_grad()
def sample_sheet(task: AugmentedTask, images: Tensor, n_samples: int) -> Tensor:
    """Each image followed by its samples, one row per image, on white, ``(C, height, width)``."""
    x = task.prepared(images.to(task.device))
    training = task.augmenter.training
    task.augmenter.eval()
    theta = task.augmenter.draw(x, n_samples, replace=True, generator=_seeded(task))
    samples = task.augmenter.render(x.repeat(n_samples, 1, 1, 1), theta.flatten(0, 1))
    task.augmenter.train(training)
    cells = torch.cat([x[None], samples.unflatten(0, (n_samples, len(x)))])
    shown = (cells * task.std + task.mean).clamp(0, 1)
    framed = functional.pad(shown, (GAP, GAP, GAP, GAP), value=1.0)
    columns = framed.permute(0, 2, 1, 3, 4).flatten(2, 3)
    image, samples = columns[0], columns[1:].permute(1, 2, 0, 3).flatten(2, 3)
    return torch.cat([functional.pad(image, (0, 4 * GAP), value=1.0), samples], dim=2)


def _seeded(task: AugmentedTask) -> torch.Generator:
    return torch.Generator(task.mean.device).manual_seed(0)
