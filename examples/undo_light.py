"""Learn, without labels, to undo the light of photos, and draw what comes out.

``python examples/undo_light.py FOLDER`` takes the images of any folder; without one, sprites.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image

from instaaug import InstaAug
from instaaug.data import RotatedSprites

SMOKE = bool(os.environ.get("SMOKE"))
SIZE, N_STEPS, ENDINGS = 96, 3 if SMOKE else 800, (".jpg", ".jpeg", ".png")
LIGHTS = {  # what red, green and blue are multiplied with
    "as it is": (1.0, 1.0, 1.0),
    "a lamp": (1.0, 0.75, 0.5),
    "shade": (0.6, 0.75, 1.0),
    "dusk": (0.45, 0.4, 0.55),
    "neon": (0.8, 1.0, 0.75),
}


def read(path: Path) -> torch.Tensor:
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    square = image.crop((left, top, left + side, top + side)).resize((SIZE, SIZE))
    return torch.from_numpy(np.asarray(square).copy()).permute(2, 0, 1) / 255


is_script = Path(sys.argv[0]).name == Path(__file__).name
if is_script and len(sys.argv) > 1:
    files = sorted(f for f in Path(sys.argv[1]).rglob("*") if f.suffix.lower() in ENDINGS)
    if not files:
        raise SystemExit(f"There is no image in {sys.argv[1]}.")
    photos = torch.stack([read(path) for path in files])
else:
    sprites = RotatedSprites(64, generator=torch.Generator().manual_seed(0))
    photos = torch.stack([sprites[i][0] for i in range(len(sprites))])

torch.manual_seed(0)
aug = InstaAug("white_balance", undo=1.0)
optimizer = torch.optim.Adam(aug.undoing.parameters(), 2e-3)  # type: ignore[union-attr]
for step in range(N_STEPS):
    batch = aug(photos[torch.randint(len(photos), (32,))])
    assert batch.added_loss is not None  # noqa: S101
    optimizer.zero_grad()
    batch.added_loss.backward()  # two changes of a photo must be undone to the same
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {float(batch.added_loss.detach()):.4f}")

n_shown = min(len(photos), 4)
shown = photos[:: len(photos) // n_shown][:n_shown]
figure, axes = plt.subplots(2 * n_shown, len(LIGHTS), figsize=(6.6, 2.65 * n_shown))
for column, (name, gains) in enumerate(LIGHTS.items()):
    lit = shown * torch.tensor(gains).view(3, 1, 1)
    with torch.no_grad():
        undone = aug.eval().canonical(lit)
    axes[0, column].set_title(name)
    for row in range(n_shown):
        axes[2 * row, column].imshow(lit[row].permute(1, 2, 0).numpy())
        axes[2 * row + 1, column].imshow(undone[row].permute(1, 2, 0).clamp(0, 1).numpy())
for ax in axes.flat:
    ax.set_axis_off()
figure.tight_layout(pad=0.3)
figure.savefig("undone.jpg", dpi=100)
print("See undone.jpg: photos in every light, and below what they are undone to.")
