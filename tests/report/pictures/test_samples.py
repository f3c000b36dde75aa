"""Labeled pictures of images and their samples."""

import numpy as np
import pytest
import torch
from PIL import Image

from instaaug.report.pictures.samples import (
    BELOW,
    GAP,
    LINE,
    MARGIN,
    TILE,
    TITLE,
    SampleRow,
    draw_samples,
)

FRAME_COLOR = (230, 159, 0)  # the first of the colors


def row(title: str = "cat", *, n: int = 3, boxes: bool = False, side: int = 16) -> SampleRow:
    random = torch.Generator().manual_seed(0)
    image, samples = (torch.rand(*shape, side, side, generator=random) for shape in ((3,), (n, 3)))
    box = torch.tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return SampleRow(title, image, samples, box.expand(n, 4, 2) if boxes else None)


def pixels(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture).astype(int)


def test_each_row_has_the_image_and_its_samples() -> None:
    one = row()
    found = pixels(draw_samples([one, row("dog")], "x"))
    assert found.shape == (
        2 * MARGIN + 2 * (TITLE + TILE + BELOW) + LINE, 2 * MARGIN + 4 * (TILE + GAP) + GAP, 3
    )  # fmt: skip
    tiles = [one.image, *one.samples]
    lefts = [MARGIN, *(MARGIN + (k + 1) * (TILE + GAP) + GAP for k in range(3))]
    for left, tile in zip(lefts, tiles, strict=True):
        shown = found[MARGIN + TITLE :, left:][4:TILE:8, 4:TILE:8]  # 8 pixels show one
        assert np.abs(shown - (tile * 255).permute(1, 2, 0).numpy()).max() <= 1


def test_frames_have_the_color_of_their_sample() -> None:
    plain, marked = (pixels(draw_samples([row(boxes=b)], "x")) for b in (False, True))
    top, left = MARGIN + TITLE, MARGIN
    on_image = marked[top + TILE // 4, left + TILE // 2]
    beside = marked[top + TILE // 2, left + TILE + 2 * GAP]
    assert tuple(on_image) == tuple(beside) == FRAME_COLOR
    assert tuple(plain[top + TILE // 4, left + TILE // 2]) != FRAME_COLOR


@pytest.mark.parametrize("title", ["", "Ελληνικά · 日本", "long " * 200, "<b>\n$x$"])
def test_any_title_stays_on_its_line(title: str) -> None:
    found = pixels(draw_samples([row(title)], "caption " * 40))
    assert (found[:, -MARGIN + 2 :] == 255).all()
    assert (found[MARGIN + TITLE - 4 : MARGIN + TITLE] == 255).all()


def test_gray_and_large_images_are_welcome() -> None:
    large = SampleRow("a", torch.rand(1, 300, 200), torch.rand(2, 1, 40, 40))
    assert draw_samples([large], "x").size[1] > TILE
