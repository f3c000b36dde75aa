"""Small tables of views, and a process that dies while it makes one."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from instaaug.augmentation.settings import as_composition
from instaaug.frozen import FrozenViews, NormalizedImages, table
from instaaug.networks import FrozenFeatures
from instaaug.transforms import Crop
from tests.support.frozen_models import Counting
from tests.support.models import images, labels

__all__ = ["AT_ONCE", "CROP", "N", "data", "model_and_views", "tabulate_and_die"]

N, AT_ONCE = 20, 8  # images, and how many of them make a batch of a table
CROP = Crop(levels=((1.0, 1), (0.5, 2)), max_outside=0.0)
ROWS = torch.tensor([[0, 0, 2, 2], [-0.5, -0.5, 1, 1], [0.5, 0.5, 1, 1]], dtype=torch.float32)


def data(n: int = N, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images and labels; by default, two and a half batches of a table."""
    return images(n, height=32, width=32, seed=seed), labels(n, 5)


def model_and_views(
    model: nn.Module | None = None, *, reads: bool = True, **changes: Any
) -> tuple[Counting, FrozenViews]:
    """A model that counts, and three views of 32 pixels."""
    counting = Counting(model)
    features = None
    if reads:
        with torch.random.fork_rng(devices=[]):
            features = FrozenFeatures(counting, size=32, output=changes.get("output"))
    counting.n_seen = counting.largest = 0
    views = FrozenViews(counting, as_composition(CROP), ROWS, features)
    return counting, replace(views, **changes)


def tabulate_and_die(folder: Path, at: int) -> None:
    """Make a table and be killed, as if by ``kill -9``, when so many images are done."""
    report: Callable[[int, int], None] = lambda done, _: (  # noqa: E731
        os.kill(os.getpid(), signal.SIGKILL) if done >= at else None
    )
    table.AT_ONCE = AT_ONCE
    _, views = model_and_views()
    table.tabulate(views, NormalizedImages(data()), folder=folder, on_progress=report)
