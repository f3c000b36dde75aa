"""What each model says of the views of each photo; computed once, kept in ``runs/frozen``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.imagenet import SIZE, Photos
from instaaug import Augmenter
from instaaug.augmentation.settings import as_composition
from instaaug.frozen import DEFAULT_CROPS, FrozenViews, NormalizedImages, ViewTable, tabulate
from instaaug.methods import (
    AutoAugment,
    FixedViews,
    LearnedLoss,
    RandAugment,
    RandomAugmentation,
)
from instaaug.networks import FrozenFeatures
from instaaug.parameterizations import CropGrid

__all__ = [
    "BASELINES",
    "RUNS",
    "baseline_outputs",
    "box_table",
    "boxes",
    "candidate_outputs",
]

RUNS = Path(__file__).parents[1] / "runs" / "frozen"
N_VIEWS = 10
BASELINES: dict[str, Augmenter] = {
    "ten crop": FixedViews.ten_crop(size=SIZE),
    "random crops, side 0.28 to 1": RandomAugmentation(
        DEFAULT_CROPS, sizes=(0.28, 1.0), size=SIZE
    ),
    "random crops, side 0.5 to 1": RandomAugmentation(DEFAULT_CROPS, sizes=(0.5, 1.0), size=SIZE),
    "AutoAugment": AutoAugment(size=SIZE),
    "RandAugment": RandAugment(size=SIZE),
}


def boxes() -> Tensor:
    """The whole image first, then the 29 other boxes."""
    grid = CropGrid(DEFAULT_CROPS.levels, max_outside=DEFAULT_CROPS.max_outside)
    return grid.boxes


def box_table(name: str, model: nn.Module, photos: Photos) -> ViewTable:
    """Outputs for the 30 boxes of all photos."""
    transform = as_composition(DEFAULT_CROPS, size=SIZE)
    views = FrozenViews(model, transform, boxes(), FrozenFeatures(model, size=SIZE))
    folder = RUNS / name.lower()
    return tabulate(views, NormalizedImages(photos.data), folder=folder, on_progress=_say(name))


def baseline_outputs(name: str, model: nn.Module, photos: Photos) -> np.ndarray:
    """Outputs for ten views of the photos that are scored, ``(N, 10, 1000)``."""
    generator = torch.Generator().manual_seed(0)
    augmenter = BASELINES[name]

    def theta(x: Tensor) -> Tensor:
        return augmenter.draw(x, N_VIEWS, select="top", generator=generator)

    rows = photos.scored.nonzero().flatten().numpy()
    return _outputs(name, augmenter, theta, model, NormalizedImages(photos.data.subset(rows)))


def candidate_outputs(model: nn.Module, photos: Photos) -> np.ndarray:
    """Outputs for the twelve candidates of Kim et al. of all photos, ``(N, 12, 1000)``."""
    augmenter = LearnedLoss(size=SIZE)
    return _outputs(
        "learned loss", augmenter, augmenter.candidate_theta, model, NormalizedImages(photos.data)
    )


@torch.no_grad()
def _outputs(
    name: str,
    augmenter: Augmenter,
    theta: Callable[[Tensor], Tensor],
    model: nn.Module,
    images: NormalizedImages,
) -> np.ndarray:
    path = RUNS / f"{name.replace(' ', '_').replace(',', '')}.npy"
    if not path.is_file():
        say, parts = _say(name), []
        for x, _ in images.batches(32):
            views = [model(augmenter.render(x, row)) for row in theta(x)]
            parts.append(torch.stack(views, dim=1).half().numpy())
            say(sum(map(len, parts)), len(images))
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.concatenate(parts))
    return np.load(path)


def _say(name: str) -> Callable[[int, int], None]:
    def say(done: int, n: int) -> None:
        if done % 320 < 32 or done == n:
            print(f"{name}: {done} of {n} photos", flush=True)

    return say
