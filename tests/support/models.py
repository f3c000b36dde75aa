"""Small models and data for tests of augmenters."""

import torch
from torch import Tensor, nn
from typing_extensions import override

__all__ = ["CountingNetwork", "OwnNetwork", "images", "labels", "small_classifier"]


def images(
    batch: int = 4, channels: int = 3, height: int = 16, width: int = 16, *, seed: int = 0
) -> Tensor:
    """Random images in [0, 1]."""
    random = torch.Generator().manual_seed(seed)
    return torch.rand(batch, channels, height, width, generator=random)


def labels(batch: int = 4, num_classes: int = 3) -> Tensor:
    """0, 1, 2, 0, 1, 2, ..."""
    return torch.arange(batch) % num_classes


def small_classifier(num_classes: int = 3, channels: int = 3) -> nn.Module:
    """Has a BatchNorm, whose buffers tell whether it was run in training mode."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(channels, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, num_classes),
        )


class OwnNetwork(nn.Module):
    """A feature network as a user might bring one: two maps, finest first."""

    def __init__(self, in_channels: int = 3) -> None:
        super().__init__()
        self.fine = nn.Conv2d(in_channels, 4, 3, stride=2, padding=1)
        self.coarse = nn.Conv2d(4, 6, 3, stride=2, padding=1)

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        fine = self.fine(x)
        return [fine, self.coarse(fine.relu())]


class CountingNetwork(OwnNetwork):
    """Counts the images it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.n_seen = 0

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        self.n_seen += len(x)
        return super().forward(x)
