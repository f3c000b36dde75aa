"""Observed inputs with known distributions, for tests of figures."""

from dataclasses import replace

import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug.augmentation.observed import Observed, ObservedFactor, observe
from instaaug.transforms import Transform

__all__ = ["looked_at", "photos", "without_learning"]


def photos(n: int = 2, *, channels: int = 3, height: int = 16, width: int = 16) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.rand(n, channels, height, width, generator=random)


def looked_at(
    *transforms: Transform,
    images: Tensor | None = None,
    n_samples: int = 6,
    n_rendered: int | None = None,
) -> Observed:
    """What an InstaAug that has learned nothing yet makes of some photos."""
    images = photos() if images is None else images
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        aug = InstaAug(list(transforms), in_channels=images.shape[1])
    random = torch.Generator().manual_seed(0)
    return observe(aug, images, n_samples, n_rendered=n_rendered, generator=random)


def without_learning(observed: Observed) -> Observed:
    """The same as seen of a method that only draws."""
    bare = [ObservedFactor(f.name, f.space, f.theta) for f in observed.factors]
    return replace(observed, factors=tuple(bare))
