"""Small pictures that look like photos of things, and pieces of them."""

import io
from base64 import b64encode
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

__all__ = ["Pixels", "cut", "data_uri", "picture_of"]

Pixels = NDArray[np.uint8]


def picture_of(
    kind: int, side: int, random: np.random.Generator
) -> tuple[Pixels, NDArray[np.float64]]:
    """A thing on a sky above a ground, and where its center is."""
    big = 3 * side
    sky, ground, color = random.integers(40, 230, (3, 3))
    t = np.linspace(0, 1, big)[:, None, None]
    scene = (1 - t) * sky + t * (0.6 * sky + 80)
    scene = np.repeat(np.where(t > 0.68, ground * (1.25 - 0.6 * t), scene), big, axis=1)
    image = Image.fromarray(scene.clip(0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    x, y = random.uniform(0.3, 0.7, 2) * big
    r = random.uniform(0.16, 0.3) * big
    fill, dark = tuple(color.tolist()), tuple((color // 3).tolist())
    if kind % 3 == 0:
        pen.ellipse((x - r, y - 0.7 * r, x + r, y + 0.7 * r), fill=fill)
        pen.polygon(
            [(x + 0.8 * r, y), (x + 1.5 * r, y - 0.5 * r), (x + 1.5 * r, y + 0.5 * r)], fill
        )
        pen.ellipse((x - 0.65 * r, y - 0.2 * r, x - 0.45 * r, y), fill=dark)
    elif kind % 3 == 1:
        pen.rounded_rectangle((x - 0.5 * r, y - r, x + 0.5 * r, y + r), 0.4 * r, fill=dark)
        pen.ellipse((x - 0.3 * r, y - 0.6 * r, x + 0.3 * r, y + 0.9 * r), fill=(240, 240, 235))
        pen.ellipse((x - 0.3 * r, y - 1.4 * r, x + 0.3 * r, y - 0.75 * r), fill=dark)
    else:
        pen.rectangle((x - r, y - 0.55 * r, x + r, y + 0.5 * r), fill=(235, 235, 230))
        for k in range(6):
            left = x - r + k * r / 3
            pen.polygon(
                [(left, y - 0.55 * r), (left + r / 6, y - 0.55 * r), (left, y + 0.5 * r)], dark
            )
        pen.rectangle((x - 0.8 * r, y + 0.5 * r, x - 0.6 * r, y + 1.2 * r), fill=dark)
        pen.rectangle((x + 0.6 * r, y + 0.5 * r, x + 0.8 * r, y + 1.2 * r), fill=dark)
    small = np.asarray(image.resize((side, side), Image.Resampling.LANCZOS), float)
    small = small + random.normal(0, 7, small.shape)
    return small.clip(0, 255).astype(np.uint8), np.array([x, y]) / big * 2 - 1


def cut(picture: Pixels, box: Sequence[float]) -> Pixels:
    """What a box holds, at the size of the picture."""
    side = len(picture)
    x, y, w, h = ((float(v) + (k < 2)) / 2 * side for k, v in enumerate(box))
    area = np.clip((x - w / 2, y - h / 2, x + w / 2, y + h / 2), 0, side).tolist()
    cut = Image.fromarray(picture).resize((side, side), Image.Resampling.BILINEAR, box=area)
    return np.asarray(cut)


def data_uri(pictures: Sequence[Pixels]) -> str:
    """Pictures side by side as JPEG."""
    buffer = io.BytesIO()
    Image.fromarray(np.concatenate(pictures, axis=1)).save(buffer, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{b64encode(buffer.getvalue()).decode()}"
