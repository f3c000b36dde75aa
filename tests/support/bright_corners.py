"""Images whose class is the brightness of one corner, and a model that believes what it sees."""

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.data import DataSplits, LabeledImages

__all__ = ["CORNER", "SIDE", "Brightness", "bright_corners", "load", "make_model"]

SIDE = 20
CORNER = (-0.6, -0.6, 0.8, 0.8)  # the box that shows what tells the class


class Brightness(nn.Module):
    """A classifier of two classes that goes by the mean brightness of what it sees."""

    def __init__(self, sureness: float) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(sureness * torch.tensor([[-1.0], [1.0]]))

    @override
    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(x.mean(dim=(1, 2, 3))[:, None])
        return outputs


def make_model(num_classes: int) -> nn.Module:
    assert num_classes == 2
    return Brightness(4.0)


def bright_corners(n: int, *, seed: int = 0) -> LabeledImages:
    """The upper left corner is bright or dark; the rest is noise."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(2, size=n)
    blocks = generator.integers(256, size=(n, 5, 5))
    blocks[:, :2, :2] = np.where(targets, 200, 55)[:, None, None]
    pixels = blocks.repeat(4, axis=1).repeat(4, axis=2)[..., None].repeat(3, axis=3)
    return LabeledImages(
        pixels.astype(np.uint8), torch.from_numpy(targets), classes=("dark", "bright")
    )


def load(seed: int) -> DataSplits:
    train, validation, test = (
        bright_corners(n, seed=3 * seed + k) for k, n in enumerate((64, 160, 100))
    )
    return DataSplits(train, validation, test, name="corners")
