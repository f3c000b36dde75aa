"""Draw docs/methods/NAME.jpg: what each method makes of two generated scenes.

``python docs/.site/method_pictures.py [NAME ...]`` trains a small network with every method on
the same scenes, as ``instaaug train`` does, and draws from what it has learned. All pictures take
about ten minutes on one core.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor

from instaaug.augmentation import Augmenter
from instaaug.data.sprites import draw_sprites
from instaaug.methods import METHODS, MixMo, UnMix
from instaaug.report.pictures.rows import mosaic
from instaaug.runs.loaded import load_run
from instaaug.runs.settings import TrainSettings
from instaaug.runs.training import train

__all__ = ["make_scenes", "write_picture"]

FOLDER = Path(__file__).parents[1] / "methods"
SIDE, N_SCENES, N_DRAWS, ZOOM = 64, 1200, 6, 2
SHOWN = [4, 2, 9, 7, 5, 3, 8, 6]  # the first two, a robot and a cactus; others to be mixed with
SETTINGS: dict[str, dict[str, Any]] = {  # what differs from the settings of all
    "instaaug": {"phi.goal": "loss", "phi.learning_rate": 3e-3, "trainer.max_epochs": 20},
    "unmix": {"task": "contrastive"},
    "viewmaker": {"method.width": 0.25, "trainer.max_epochs": 3},
    "fast_autoaugment": {"method.n_trials": 20, "method.n_images": 200, "method.fold_epochs": 2},
    "random": {
        "transforms": ["crop", "hsv_jitter"], "method.strength": 0.3, "method.sizes": [0.5, 1]
    },
    "augerino_color": {"transforms": ["hsv_jitter"]},
    "augerino_crop": {"transforms": ["uniform_crop"]},
}  # fmt: skip


def make_scenes(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """A robot or a cactus, upright or upside-down, somewhere between sky and ground; 4 classes."""
    kinds = draw_sprites(32)
    sprites = torch.stack([kinds, kinds.flip(2)], dim=1).flatten(0, 1)
    labels = torch.arange(n) % len(sprites)
    down, right = torch.meshgrid(*[torch.linspace(0, 1, SIDE)] * 2, indexing="ij")
    scenes = torch.empty(n, 3, SIDE, SIDE)
    for scene, label in zip(scenes, labels, strict=True):
        hue, horizon, sun_x, sun_y = torch.rand(4, generator=generator).tolist()
        above = torch.stack([0.35 + 0.3 * hue + 0 * down, 0.6 + 0.2 * down, 0.95 - 0.3 * down])
        below = torch.stack([0.4 + 0.2 * down, 0.75 - 0.3 * down, 0.3 + 0.2 * hue + 0 * down])
        scene[:] = torch.where(down < 0.5 + 0.3 * horizon, above, below)
        sun = (right - sun_x) ** 2 + (down - 0.4 * sun_y) ** 2 < 0.08**2
        scene[:, sun] = torch.tensor([[1.0], [0.85], [0.3]])
        top, left = torch.randint(SIDE - 31, (2,), generator=generator).tolist()
        place = scene[:, top : top + 32, left : left + 32]
        place.copy_(torch.where(sprites[label].sum(dim=0) > 0, sprites[label], place))
    return scenes, labels


def write_picture(name: str, folder: Path = FOLDER) -> Path:
    """Train with a method, and draw a row for each of two scenes: the scene, then six draws."""
    scenes, labels = make_scenes(N_SCENES, torch.Generator().manual_seed(0))
    with tempfile.TemporaryDirectory() as work:
        images = (scenes.movedim(1, 3) * 255).byte().numpy()
        np.savez(Path(work, "scenes.npz"), images=images, labels=labels.numpy())
        settings = {
            "data.source": str(Path(work, "scenes.npz")),
            "data.cache_dir": work,
            "method": name,
            "model.name": "small_cnn",
            "trainer.max_epochs": 10,
            "trainer.logger": "csv",
            **SETTINGS.get(name, {}),
        }
        train(TrainSettings.from_mapping(settings), Path(work, "run"))
        run = load_run(Path(work, "run"))
        run.augmenter.attach(run.model)
        x = run.prepare(torch.from_numpy(images[SHOWN]).movedim(3, 1))
        generator = torch.Generator().manual_seed(1)
        draws = [_drawn(run.augmenter, x, labels[SHOWN], generator) for _ in range(N_DRAWS)]
        mean, std = (
            torch.tensor(v).view(-1, 1, 1) for v in (run.mean or (0.0,), run.std or (1.0,))
        )
    rows = torch.stack([x, *draws])[:, :2] * std + mean
    picture = mosaic(rows.transpose(0, 1).flatten(0, 1), lines=2, columns=1 + N_DRAWS)
    pixels = (picture.clamp(0, 1) * 255).round().byte().movedim(0, 2).numpy()
    path = folder / f"{name}.jpg"
    shown = Image.fromarray(pixels).resize((pixels.shape[1] * ZOOM, pixels.shape[0] * ZOOM), 0)
    shown.save(path, quality=80, optimize=True)
    return path


@torch.no_grad()
def _drawn(augmenter: Augmenter, x: Tensor, targets: Tensor, generator: Generator) -> Tensor:
    batch = augmenter(x, generator=generator, targets=targets)
    if isinstance(augmenter, UnMix):
        return augmenter.mix(batch.inputs, generator)[0]
    if isinstance(augmenter, MixMo):  # mixes feature maps: its masks, drawn on the images
        mask = augmenter.masks(x, batch.theta[0])
        return mask * x + (1 - mask) * x[batch.theta[0, :, -1].long()]
    return batch.inputs


if __name__ == "__main__":
    for method in sys.argv[1:] or METHODS:
        print(write_picture(method))  # noqa: T201
