"""A tiny stand-in for timm: models by name, published weights, what these expect."""

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

__all__ = ["MEAN", "SIZE", "STD", "WEIGHT", "FakeModel", "install"]

SIZE, MEAN, STD = 16, (0.5, 0.4, 0.3), (0.2, 0.2, 0.25)
WEIGHT = 0.125  # every published weight


class FakeModel(nn.Module):
    """A convolution, a normalization and a classifier; ``fixed`` ones take one size only."""

    def __init__(self, name: str, num_classes: int, in_chans: int) -> None:
        super().__init__()
        self.pretrained_cfg = {"input_size": (3, SIZE, SIZE), "mean": MEAN, "std": STD}
        self.is_fixed = name == "fixed"
        self.fc = nn.Linear(4, num_classes)  # before the rest: the last one is not the classifier
        self.stem = nn.Conv2d(in_chans, 4, 3, padding=1)
        self.mix = nn.Linear(4, 4)

    def get_classifier(self) -> nn.Module:
        return self.fc

    @override
    def forward(self, x: Tensor) -> Tensor:
        if self.is_fixed and x.shape[-1] != SIZE:
            raise AssertionError(f"Input height ({x.shape[-1]}) doesn't match model ({SIZE}).")
        return self.fc(self.mix(self.stem(x).relu().mean(dim=(2, 3))))


def create_model(
    name: str, *, num_classes: int = 1000, in_chans: int = 3, pretrained: bool = False
) -> nn.Module:
    """As timm has it; the weights of the model ``offline`` cannot be had."""
    model = FakeModel(name, num_classes, in_chans)
    if pretrained and name == "offline":
        raise FileNotFoundError("We cannot find the requested files in the local cache.")
    if pretrained:
        with torch.no_grad():
            for part in (model.stem, model.mix):
                part.weight.fill_(WEIGHT)
    return model


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``import timm`` find this, until the test is over."""
    module = ModuleType("timm")
    monkeypatch.setattr(module, "create_model", create_model, raising=False)
    monkeypatch.setitem(sys.modules, "timm", module)
