"""Pictures that a fixed model gets wrong as a whole and right in one quarter, and such models."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from typing_extensions import override

__all__ = [
    "COLORS",
    "Spotter",
    "as_dict",
    "as_pair",
    "four_outputs",
    "in_another_order",
    "no_model",
    "of_gray_levels",
    "of_pixels",
    "spot_folder",
    "spotter",
    "spotter_for",
    "untrained",
    "without_weights",
]

COLORS = ("blue", "green", "red")  # sorted, and so the model's order
CHANNELS = {"red": 0, "green": 1, "blue": 2}
STRONG, WEAK, FAINT = 90, 60, 10


class Spotter(nn.Module):
    """Adds up, over the picture, how much of each color there is."""

    def __init__(self, num_classes: int = 3) -> None:
        super().__init__()
        self.opponent = nn.Conv2d(3, num_classes, 1)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(num_classes, num_classes)
        with torch.no_grad():
            rows = torch.full((num_classes, 3), -0.5)
            for number, name in enumerate(COLORS):
                rows[number, CHANNELS[name]] = 1.0
            self.opponent.weight.copy_(rows[:, :, None, None])
            self.opponent.bias.zero_()  # type: ignore[union-attr]
            self.head.weight.copy_(30 * torch.eye(num_classes))
            self.head.bias.zero_()

    @override
    def forward(self, x: Tensor) -> Tensor:
        seen = self.relu(self.opponent(x))
        result: Tensor = self.head(self.pool(seen).flatten(1))
        return result


class _Returning(nn.Module):
    """A model that wraps its logits."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self.inner, self.kind = Spotter(), kind

    @override
    def forward(self, x: Tensor) -> object:
        logits = self.inner(x)
        return {"scores": logits, "loss": 0.0} if self.kind is dict else ("extra", logits)


def spotter() -> nn.Module:
    return Spotter()


def spotter_for(num_classes: int) -> nn.Module:
    return Spotter(num_classes)


def as_dict() -> nn.Module:
    return _Returning(dict)


def as_pair() -> nn.Module:
    return _Returning(tuple)


def four_outputs() -> nn.Module:
    return Spotter(4)


def of_pixels() -> nn.Module:
    """Has no feature map, and takes 16 pixels only."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 3))


def in_another_order() -> nn.Module:
    """Says the same, but red, green, blue."""
    model = Spotter()
    with torch.no_grad():
        model.head.weight.copy_(model.head.weight.flip(0))
    return model


def of_gray_levels() -> nn.Module:
    """Says the same of images with mean 0.5 and standard deviation 0.25, the differences alone."""
    model = Spotter()
    with torch.no_grad():
        model.opponent.weight.mul_(0.25)
    return model


def untrained() -> nn.Module:
    """Another model each time."""
    model = Spotter()
    nn.init.normal_(model.head.weight)
    return model


def without_weights() -> nn.Module:
    model = Spotter()
    model.load_state_dict(torch.load("nowhere.pt", weights_only=True))
    return model


def no_model() -> str:
    return "a model"


def spot_folder(root: Path, n: int, *, seed: int = 0) -> Path:
    """``n`` pictures of each class: a quarter of the picture has its color, the others another's.

    In one of three pictures the other color is so strong that it prevails on the whole.
    """
    random = np.random.default_rng(seed)
    for number, name in enumerate(COLORS):
        (root / name).mkdir(parents=True)
        for i in range(n):
            pixels = random.integers(60, 100, (32, 32, 1)).repeat(3, axis=2)
            other = COLORS[(number + 1 + i % 2) % 3]
            pixels[..., CHANNELS[other]] += WEAK if i % 3 == 2 else FAINT
            row, column = random.integers(0, 2, 2)
            quarter = (slice(16 * row, 16 * row + 16), slice(16 * column, 16 * column + 16))
            pixels[(*quarter, CHANNELS[other])] = pixels[(*quarter, CHANNELS[name])]
            pixels[(*quarter, CHANNELS[name])] += STRONG
            Image.fromarray(pixels.astype(np.uint8)).save(root / name / f"{i}.png")
    return root
