"""The oracle's crops, on photos made up in the layout of Tiny-ImageNet."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from benchmarks import oracle
from benchmarks.oracle import OracleCrops, box_probabilities, load_photos
from instaaug.parameterizations import CropGrid

LEVELS = ((0.5, 2), (1.0, 1))
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
BOXES = {"n1_0.JPEG": (0, 0, 31, 31), "n1_1.JPEG": (40, 40, 60, 60), "n1_2.JPEG": (0, 0, 63, 63)}


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.Tensor]:
    """Three of one class, as pixels; their boxes are above."""
    root = tmp_path / "tiny-imagenet"
    (root / "train" / "n1" / "images").mkdir(parents=True)
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("n1\n")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn1\t0\t16\t63\t47\n")
    rows = ["\t".join([name, *map(str, box)]) for name, box in BOXES.items()]
    (root / "train" / "n1" / "n1_boxes.txt").write_text("\n".join(rows) + "\n")
    generator = np.random.default_rng(0)
    names = [root / "train" / "n1" / "images" / name for name in BOXES]
    for file in (*names, root / "val" / "images" / "val_0.JPEG"):
        pixels = generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path))
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / "cache"))
    for cached in (load_photos, oracle._known_boxes):
        cached.cache_clear()
    yield load_photos().train.__getitems__(range(3))[0]
    for cached in (load_photos, oracle._known_boxes):
        cached.cache_clear()


def normalize(pixels: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (pixels / 255 - mean) / std


def drawn_boxes(x: torch.Tensor, n: int = 200) -> list[set[tuple[float, ...]]]:
    """All that is drawn for each photo."""
    crops = OracleCrops(levels=LEVELS, mean=MEAN, std=STD, size=32)
    theta = crops.draw(x, n, generator=torch.Generator().manual_seed(0))
    assert crops.render(x, theta[0]).shape == (len(x), 3, 32, 32)
    return [set(map(tuple, own.tolist())) for own in theta.unbind(dim=1)]


def test_boxes_show_the_object_of_their_photo_mirrored_or_not(photos: torch.Tensor) -> None:
    """Of 200 draws, that one of several allowed boxes is missed has a probability below 1e-11."""
    upper_left, whole = (-0.5, -0.5, 1.0, 1.0), (0.0, 0.0, 2.0, 2.0)
    lower_right, upper_right = (0.5, 0.5, 1.0, 1.0), (0.5, -0.5, 1.0, 1.0)
    lower_left = (-0.5, 0.5, 1.0, 1.0)
    quarters = {upper_left, upper_right, lower_left, lower_right}  # consist of the object
    x = normalize(photos)
    assert drawn_boxes(x) == [{upper_left, whole}, {lower_right, whole}, quarters | {whole}]
    assert drawn_boxes(x.flip(3))[:2] == [{upper_right, whole}, {lower_left, whole}]


def test_all_sizes_that_are_allowed_are_equally_probable() -> None:
    grid = CropGrid(((0.25, 4), (0.5, 2), (1.0, 1)), max_outside=0.0)
    level_of = torch.arange(3).repeat_interleave(torch.tensor([16, 4, 1]))
    objects = torch.tensor([[-1.0, -1.0, 1.0, 1.0], [-0.95, -0.95, -0.05, -0.05]])
    probs = box_probabilities(grid.boxes, level_of, objects)
    sizes = torch.stack([probs[:, level_of == level].sum(dim=1) for level in range(3)], dim=1)
    torch.testing.assert_close(sizes, torch.full((2, 3), 1 / 3))
    assert (probs[1, level_of == 1] > 0).tolist() == [True, False, False, False]


def test_a_photo_that_is_not_known_is_refused(photos: torch.Tensor) -> None:
    with pytest.raises(KeyError):
        drawn_boxes(normalize(255 - photos))
