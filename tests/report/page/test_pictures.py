"""Pictures in the page: the right ones, and never too many bytes."""

from base64 import b64decode
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from instaaug.report.page.build import (
    ENCODINGS,
    Encoding,
    best_encoding,
    data_uris,
    side_by_side,
)

GENERATOR = torch.Generator().manual_seed(0)
PHOTOS = torch.nn.functional.interpolate(
    torch.rand(30, 3, 8, 8, generator=GENERATOR), (64, 48), mode="bicubic"
).clamp(0, 1)
PICTURES = (PHOTOS * 255).byte().permute(0, 2, 3, 1)


def decoded(uri: str) -> np.ndarray:
    kind, text = uri.split(",", 1)
    assert kind == "data:image/webp;base64"
    return np.asarray(Image.open(BytesIO(b64decode(text, validate=True))))


def test_a_picture_comes_back_nearly_as_it_was() -> None:
    uris = list(data_uris(PICTURES, Encoding(quality=95)))
    assert len(uris) == 30
    off = np.abs(decoded(uris[7]).astype(float) - PICTURES[7].numpy())
    assert off.mean() < 4
    assert np.abs(decoded(uris[8]).astype(float) - PICTURES[7].numpy()).mean() > 20


def test_tiny_pictures_lose_nothing() -> None:
    (uri,) = data_uris(PICTURES[:1, :32, :32], Encoding(quality=30))
    assert np.array_equal(decoded(uri), PICTURES[0, :32, :32].numpy())


def test_gray_pictures_are_welcome() -> None:
    (uri,) = data_uris(PICTURES[:1, ..., :1].contiguous(), Encoding())
    assert decoded(uri).shape[:2] == (64, 48)


def test_a_scale_makes_them_smaller() -> None:
    (uri,) = data_uris(PICTURES[:1], Encoding(scale=0.5))
    assert decoded(uri).shape == (32, 24, 3)


@pytest.mark.parametrize("most", [1e6, 4e4, 2e4])
def test_all_of_them_keep_to_the_size(most: float) -> None:
    strips = side_by_side(PICTURES.unflatten(0, (3, 10)))
    encoding = best_encoding([PICTURES, strips], most)
    total = sum(len(uri) for group in (PICTURES, strips) for uri in data_uris(group, encoding))
    assert total <= 1.1 * most  # by a sample of them
    better = [e for e in ENCODINGS if ENCODINGS.index(e) < ENCODINGS.index(encoding)]
    if better:  # no better one would have done
        larger = sum(len(uri) for g in (PICTURES, strips) for uri in data_uris(g, better[-1]))
        assert larger > 0.9 * most


def test_the_least_is_the_least() -> None:
    assert best_encoding([PICTURES], 1.0) == ENCODINGS[-1]
    assert best_encoding([PICTURES[:0]], 1.0) == ENCODINGS[0]


def test_views_stand_side_by_side_in_their_order() -> None:
    views = torch.arange(3, dtype=torch.uint8).view(3, 1, 1, 1, 1).expand(3, 2, 4, 5, 3)
    wide = side_by_side(views)
    assert wide.shape == (2, 4, 15, 3)
    assert wide[1, 0, :, 0].tolist() == [0] * 5 + [1] * 5 + [2] * 5
