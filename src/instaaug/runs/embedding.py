"""Features of image files, by the model of any run: what its last linear layer reads."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation import Augmenter
from instaaug.networks.encoders import PenultimateFeatures
from instaaug.networks.model_interface import Output
from instaaug.runs.build import load_task
from instaaug.runs.folder import Run
from instaaug.runs.inference import CHUNK, decode_files, image_paths
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import run_device
from instaaug.runs.transfer import load_frozen
from instaaug.shapes import Images
from instaaug.tasks import ContrastiveTask

__all__ = ["embed_files"]


def embed_files(
    path: str | Path,
    images: Sequence[str | Path],
    *,
    n_views: int = 0,
    skip_bad: bool = False,
) -> Iterator[tuple[list[Path], np.ndarray]]:
    """Features of image files, some dozen at a time: their paths, and a row for each.

    A contrastive run gives those of its encoder, others what the last linear layer of their model
    reads; of a run on a frozen backbone, these are the features of the backbone.

    Arguments:
        path: The run's folder.
        images: Files, or folders whose images are taken.
        n_views: Views whose features are averaged; 0 for the image alone.
        skip_bad: Whether files that cannot be read are left out, not an error.

    Raises:
        ArgumentError: If the model does not end in a linear layer.
    """
    embedder = _load_embedder(Run(path))
    files = iter(image_paths(images))
    while chunk := list(islice(files, CHUNK)):
        pixels, errors = decode_files(
            chunk, size=embedder.size, channels=embedder.channels, skip_bad=skip_bad
        )
        if len(pixels):
            read = [file for file, error in zip(chunk, errors, strict=True) if not error]
            yield read, embedder.features(pixels, n_views).numpy()


@dataclass(frozen=True)
class _Embedder:
    """What turns pixels into features.

    Arguments:
        encoder: From inputs to features.
        augmenter: Makes views.
        prepare: From 8-bit pixels to inputs.
        size: Side that image files are decoded to.
        channels: Of the images.
        device: Where inputs must be.
        seed: Decides the draws.
    """

    encoder: nn.Module
    augmenter: Augmenter
    prepare: Callable[[Tensor], Tensor]
    size: int
    channels: int
    device: str
    seed: int

    @torch.no_grad()
    def features(self, pixels: Tensor, n_views: int) -> Tensor:
        x = self.prepare(pixels.to(self.device))
        encoder = self.encoder.eval()
        if not n_views:
            return encoder(self.augmenter.eval().canonical(x)).float().cpu()
        wrapped = self.augmenter.wrap(encoder, n_views, merge="logit").eval()
        generator = torch.Generator(x.device).manual_seed(self.seed)
        return wrapped(x, generator).float().cpu()


class _Penultimate(nn.Module):
    """A model that returns what its last linear layer reads."""

    def __init__(self, model: nn.Module, output: Output | None = None) -> None:
        super().__init__()
        self.model = model
        self.read = PenultimateFeatures(model, output=output)

    @override
    def forward(self, x: Images) -> Tensor:
        return self.read(x)


def _load_embedder(run: Run) -> _Embedder:
    config, facts = run.read_settings(), run.read_facts()
    encoder: nn.Module
    if not isinstance(config, TrainSettings):
        fitted = load_frozen(run)
        encoder = _Penultimate(fitted.model.module, fitted.model.output)
        device = str(next(fitted.aug.parameters()).device)
        return _Embedder(
            encoder, fitted.aug, fitted.model.prepare, facts.decode_size, facts.channels, device,
            fitted.config.seed,
        )  # fmt: skip
    device = run_device(config)
    task = load_task(run).to(device)
    encoder = (
        task.model.encoder if isinstance(task, ContrastiveTask) else _Penultimate(task.predictor)
    )
    return _Embedder(
        encoder, task.augmenter, task.normalize, facts.decode_size, facts.channels, device,
        config.seed,
    )  # fmt: skip
