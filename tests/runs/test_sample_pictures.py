"""``samples.png`` tells classes, predictions and boxes, and is kept up to date."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instaaug.augmentation import InstaAug
from instaaug.data import LabeledImages
from instaaug.methods import NoAugmentation
from instaaug.networks import SmallCNN
from instaaug.report.pictures.samples import SampleRow, draw_samples
from instaaug.runs import sample_pictures
from instaaug.runs.sample_pictures import write_samples
from instaaug.tasks.supervised import SupervisedTask

SIDE = 16
PIXELS = np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
IMAGES = LabeledImages(PIXELS, torch.tensor([0, 1, 0]), classes=("a", "b"))


def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, augmenter: Any) -> tuple[Any, str]:
    """The rows and the caption of a picture."""
    seen: list[Any] = []

    def draw(rows: list[SampleRow], caption: str) -> Any:
        seen.extend((rows, caption))
        return draw_samples(rows, caption)

    monkeypatch.setattr(sample_pictures, "draw_samples", draw)
    task = SupervisedTask(SmallCNN(2), augmenter, num_classes=2, mean=(0.5,) * 3, std=(0.2,) * 3)
    write_samples(task.train(), IMAGES, tmp_path / "samples.png", 4)
    assert task.training
    assert task.augmenter.training
    assert (tmp_path / "samples.png").stat().st_size > 1000
    return seen[0], seen[1]


def test_crops_are_drawn_where_they_were_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows, caption = drawn(monkeypatch, tmp_path, InstaAug("crop", keep_original=True))
    assert [row.title.split("  ·  ")[0] for row in rows] == ["a", "b", "a"]
    assert all("predicted " in row.title for row in rows)
    assert "these complement it" in caption
    for row in rows:
        assert row.outlines.shape == (4, 4, 2)
        for corners, sample in zip(row.outlines, row.samples, strict=True):
            if bool((corners.abs() == 1).all()):
                torch.testing.assert_close(sample, row.image, atol=0.01, rtol=0)


def test_without_crops_there_are_no_frames(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for augmenter in (InstaAug("rotation"), NoAugmentation()):
        rows, caption = drawn(monkeypatch, tmp_path, augmenter)
        assert all(row.outlines is None for row in rows)
        assert "frames" not in caption
