"""Pictures inside of the page: small enough that all of them together stay within a size."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

__all__ = ["TINY", "Encoding", "data_uris", "fitting_encoding", "side_by_side"]

N_TRIED = 12
BASE64 = 4 / 3  # characters per byte

TINY = 48  # pixels: pictures so low lose nothing, and take little room all the same

Pictures = UInt8[Tensor, "_ _ _ _"]
"""N pictures of h × w pixels, ``(N, h, w, C)``."""


class Encoding(NamedTuple):
    """How pictures are written.

    Arguments:
        scale: Of their sides, at most 1.
        quality: Of WebP, in percent.
    """

    scale: float = 1.0
    quality: int = 82


ENCODINGS = tuple(
    Encoding(scale, quality)
    for scale, quality in (
        (1.0, 88), (1.0, 80), (1.0, 70), (0.8, 75), (0.8, 65), (0.65, 70), (0.5, 70), (0.5, 50),
        (0.35, 50), (0.25, 40), (0.18, 35), (0.12, 30),
    )
)  # fmt: skip


def fitting_encoding(groups: Sequence[Pictures], most_bytes: float) -> Encoding:
    """The best encoding with which all pictures take no more than so many characters.

    A dozen of each group are tried.
    """
    for encoding in ENCODINGS:
        if sum(_expected(group, encoding) for group in groups) <= most_bytes:
            return encoding
    return ENCODINGS[-1]


def _expected(pictures: Pictures, encoding: Encoding) -> float:
    if not pictures.numel():
        return 0.0
    chosen = np.linspace(0, len(pictures) - 1, min(N_TRIED, len(pictures))).astype(int)
    sizes = [len(_webp(pictures[int(i)], encoding)) for i in chosen]
    return BASE64 * float(np.mean(sizes)) * len(pictures)


def data_uris(pictures: Pictures, encoding: Encoding) -> Iterator[str]:
    """Each picture as an address that holds it."""
    for picture in pictures:
        text = b64encode(_webp(picture, encoding)).decode("ascii")
        yield f"data:image/webp;base64,{text}"


def side_by_side(views: UInt8[Tensor, "m n h w c"]) -> UInt8[Tensor, "n h mw c"]:
    """The m views of each input as one wide picture."""
    return views.permute(1, 2, 0, 3, 4).flatten(2, 3)


def _webp(picture: UInt8[Tensor, "h w c"], encoding: Encoding) -> bytes:
    from PIL import Image

    image = Image.fromarray(
        picture.numpy().squeeze(-1) if picture.shape[-1] == 1 else picture.numpy()
    )
    is_tiny = encoding.scale == 1 and image.height <= TINY
    if encoding.scale < 1:
        size = tuple(max(1, round(side * encoding.scale)) for side in image.size)
        image = image.resize((size[0], size[1]), Image.Resampling.LANCZOS)
    file = BytesIO()
    image.save(file, format="webp", quality=encoding.quality, method=4, lossless=is_tiny)
    return file.getvalue()
