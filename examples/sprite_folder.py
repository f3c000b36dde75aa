"""Write a folder of pictures, one folder per class, to try `instaaug train FOLDER` on.

Files are PNG, JPEG and WebP of several sizes, some gray, as folders from real life are.
"""

import os
import sys
import tempfile
from pathlib import Path

import torch
from PIL import Image

from instaaug.data import RotatedSprites

n_images = 8 if os.environ.get("SMOKE") else 400
is_script = Path(sys.argv[0]).name == Path(__file__).name
folder = Path(sys.argv[1] if is_script and len(sys.argv) > 1 else tempfile.mkdtemp())
data = RotatedSprites(n_images, generator=torch.Generator().manual_seed(0))

for i in range(len(data)):
    x, label = data[i]
    pixels = (x * 255).byte().permute(1, 2, 0).numpy()
    side = (32, 48, 64)[i % 3]
    image = Image.fromarray(pixels).resize((side, side + 8 * (i % 2)))
    image = image.convert("L") if i % 10 == 9 else image
    ending = ("png", "jpg", "webp")[i % 3]
    path = folder / data.classes[int(label)] / f"{i:03}.{ending}"
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)

print(f"{n_images} pictures of {len(data.classes)} classes are in {folder}")
