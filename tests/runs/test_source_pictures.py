"""Pictures for the page come from the files where these have more pixels."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from instaaug.data import LabeledImages
from instaaug.data.decode import decode_image
from instaaug.runs.source_pictures import larger_pictures

SIZE = 16


def folder_images(folder: Path, sides: list[int]) -> LabeledImages:
    random = np.random.default_rng(0)
    files = []
    for i, side in enumerate(sides):
        pixels = random.integers(0, 256, (side, side + 4, 3), dtype=np.uint8)
        files.append(folder / f"{i}.png")
        Image.fromarray(pixels).save(files[-1])
    small = np.stack([decode_image(file, size=SIZE, channels=3) for file in files])
    names = [str(file) for file in files]
    return LabeledImages(small, torch.zeros(len(files)).long(), classes=("a",), names=names)


def pictures_of(images: LabeledImages) -> torch.Tensor:
    return torch.from_numpy(images.images)


def test_a_picture_is_as_large_as_its_file_up_to_a_bound(tmp_path: Path) -> None:
    images = folder_images(tmp_path, [8, 24, 100])
    found = larger_pictures(images, pictures_of(images), most=64)
    assert [len(picture) for picture in found] == [SIZE, 24, 64]
    assert np.array_equal(found[2].numpy(), decode_image(images.name(2), size=64, channels=3))


def test_a_file_that_has_changed_or_is_gone_is_not_shown(tmp_path: Path) -> None:
    images = folder_images(tmp_path, [32, 32, 32])
    Image.fromarray(np.zeros((40, 40, 3), dtype=np.uint8)).save(images.name(0))
    Path(images.name(1)).unlink()
    Path(images.name(2)).write_bytes(b"no picture")
    found = larger_pictures(images, pictures_of(images), most=64)
    assert torch.equal(torch.stack(found), pictures_of(images))
