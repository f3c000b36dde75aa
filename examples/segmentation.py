"""A small network finds ink in photos of 48 pixels: its maps of several views become one map."""

import os
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug import fit_tta
from instaaug.functional.warp import warp
from instaaug.methods import FixedViews, RandomResizedCrop
from instaaug.stats import t_interval
from instaaug.transforms import Crop

SIDE, SEEN, STEPS, N = 128, 48, *((2, 4) if "SMOKE" in os.environ else (250, 40))
FILES = Path(str(distribution("foolbox").locate_file("foolbox/data")))  # 20 photos, 20 digits
torch.manual_seed(0)


def read(pattern: str, side: int) -> list[Tensor]:
    files = [Image.open(path).resize((side, side)) for path in sorted(FILES.glob(pattern))]
    return [torch.from_numpy(np.array(f)).view(side, side, -1).movedim(2, 0) / 255 for f in files]


def scenes(n: int, part: slice) -> tuple[Tensor, Tensor]:
    """Four digits written over a part of each photo, and where their ink is."""
    x, masks = torch.empty(n, 3, SIDE, SIDE), torch.zeros(n, SIDE, SIDE, dtype=torch.long)
    for i, (image, mask) in enumerate(zip(x, masks, strict=True)):
        top, left = torch.randint(SIDE, (2,)).tolist()
        image.copy_(photos[part][i % len(photos[part])][:, top:, left:][:, :SIDE, :SIDE])
        for digit in (digits[part][j] for j in torch.randint(len(digits[part]), (4,))):
            side = int(14 * 4 ** torch.rand(()))
            top, left = torch.randint(SIDE - side, (2,)).tolist()
            place = (..., slice(top, top + side), slice(left, left + side))
            ink = F.interpolate(digit[None], (side, side), mode="bilinear")[0]
            image[place] = torch.lerp(image[place], torch.ones(()), ink)
            mask[place] |= (ink[0] > 0.4).long()
    return x, masks


def layer(i: int, d: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(i, 16, 3, 1, d, d), nn.BatchNorm2d(16), nn.ReLU())


photos, digits = read("imagenet_*", 2 * SIDE), read("mnist_*", 28)
layers = (layer(3, 1), *(layer(16, d) for d in (2, 4, 8, 1)), nn.Conv2d(16, 2, 1))
model, crops = nn.Sequential(*layers), RandomResizedCrop(smallest=0.1, size=SEEN)
optimizer = torch.optim.Adam(model.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=STEPS)
x, masks = scenes(5 * N, slice(0, 10))
for _ in range(STEPS):
    i = torch.randint(len(x), (16,))
    theta = crops.draw(x[i], 1)[0]
    target = warp(masks[i, None].float(), crops.matrix(theta), mode="nearest", size=(SEEN, SEEN))
    F.cross_entropy(model(crops.render(x[i], theta)), target[:, 0].long()).backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()

others, boxes = scenes(N, slice(10, 14)), Crop(((1.0, 1), (0.5, 3), (0.33, 4)), max_outside=0.0)
aug = fit_tta(model.eval(), others, boxes, dense=True, size=SEEN, features="none", steps=100)
halves = [(x, y, 1.0, 1.0) for y in (-0.5, 0.0, 0.5) for x in (-0.5, 0.0, 0.5)]
grid = FixedViews([(0.0, 0.0, 2.0, 2.0), *halves], size=SEEN)
(x, masks), whole = scenes(N, slice(14, 20)), None
for name, predictor in {
    "the photo at 48 px": grid.wrap(model, 1, select="top", dense=True),
    "and 9 boxes of half its side": grid.wrap(model, 10, select="top", dense=True),
    "and 9 learned boxes": aug.wrap(model, 10, dense=True),
    "one pass at 128 px, the cost of 7": model,
}.items():
    with torch.no_grad():
        found, true = predictor(x).argmax(dim=1).bool(), masks.bool()
    iou = (found & true).sum(dim=(1, 2)) / (found | true).sum(dim=(1, 2)).clamp(min=1)
    low, high = t_interval((iou - (whole := iou if whole is None else whole)).tolist())
    print(f"{name:34} mean IoU {iou.mean():.3f}, to the first [{low:+.3f}, {high:+.3f}]")
