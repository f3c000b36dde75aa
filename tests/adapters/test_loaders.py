"""Transforms and streams of others stand before ours; what is not installed is skipped."""

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

from instaaug import InstaAug
from instaaug.data import from_dataset
from instaaug.errors import ShapeError
from instaaug.networks import SmallCNN
from instaaug.transforms import Crop
from tests.support.tiny_training import labeled_halves

SIDE = 32
IMAGES = labeled_halves(16, side=SIDE)


class Photos(Dataset[Any]):
    """Pairs, each after a transform of someone else."""

    def __init__(self, prepare: Any) -> None:
        self.prepare = prepare

    def __len__(self) -> int:
        return len(IMAGES)

    @override
    def __getitem__(self, i: int) -> Any:
        return self.prepare(IMAGES.images[i]), int(IMAGES.targets[i])


def learn(x: Tensor, y: Tensor) -> InstaAug:
    """A step of a model and of φ."""
    aug, model = InstaAug(Crop(levels=((1.0, 1), (0.5, 2)))), SmallCNN(2)
    batch = aug(x, targets=y)
    losses = F.cross_entropy(model(batch.inputs), y, reduction="none")
    aug.objective(losses, batch).backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in aug.parameters())
    return aug


# Albumentations


@pytest.fixture(scope="module")
def albumentations() -> Any:
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    return pytest.importorskip("albumentations", reason="Albumentations is not installed")


def test_albumentations_stands_before_ours(albumentations: Any) -> None:
    A = albumentations
    steps = A.Compose([A.RandomCrop(24, 24), A.ToFloat(max_value=255), A.ToTensorV2()])
    data = Photos(lambda image: steps(image=image)["image"])
    x, y = next(iter(DataLoader(data, batch_size=8)))
    assert (x.shape, x.dtype) == ((8, 3, 24, 24), torch.float32)
    assert 0 <= x.min() <= x.max() <= 1
    learn(x, y)


def test_a_last_step_that_is_missing_is_named(albumentations: Any) -> None:
    A = albumentations
    steps = A.Compose([A.RandomCrop(24, 24), A.ToFloat(max_value=255)])
    x, y = next(iter(DataLoader(Photos(lambda x: steps(image=x)["image"]), batch_size=8)))
    with pytest.raises(ShapeError, match=r"channels come last. Call x.permute\(0, 3, 1, 2\)"):
        learn(x, y)


# webdataset


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two tar files as webdataset has them."""
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(2):
        with tarfile.open(folder / f"s-{shard}.tar", "w") as file:
            for i in range(8 * shard, 8 * shard + 8):
                picture = io.BytesIO()
                Image.fromarray(IMAGES.images[i]).save(picture, format="jpeg")
                label = str(int(IMAGES.targets[i])).encode()
                for ending, content in (("jpg", picture.getvalue()), ("cls", label)):
                    entry = tarfile.TarInfo(f"{i:04d}.{ending}")
                    entry.size = len(content)
                    file.addfile(entry, io.BytesIO(content))
    return str(folder / "s-{0..1}.tar")


@pytest.fixture(scope="module")
def wds() -> Any:
    return pytest.importorskip("webdataset", reason="webdataset is not installed")


def test_a_stream_of_webdataset_is_taken_up_to_a_limit(wds: Any, shards: str) -> None:
    images = from_dataset(wds.WebDataset(shards, shardshuffle=False), limit=12)
    assert len(images) == 12
    assert images.classes == ("0", "1")
    assert torch.equal(images.targets, IMAGES.targets[:12])
    endless = wds.WebDataset(shards, resampled=True, shardshuffle=True).decode("pil")
    assert len(from_dataset(endless.to_tuple("jpg", "cls"), limit=40)) == 40


def test_an_epoch_of_webdataset_has_the_length_that_was_said(wds: Any, shards: str) -> None:
    stream = wds.WebDataset(shards, resampled=True, shardshuffle=True).decode("torchrgb")
    pairs = stream.to_tuple("jpg", "cls").batched(4)
    loader = wds.WebLoader(pairs, batch_size=None).with_epoch(3)
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == 3
    x, y = batches[0]
    learn(x, torch.as_tensor(y))


def test_rows_of_webdataset_need_no_library(shards: str) -> None:
    path = Path(shards.replace("{0..1}", "0"))
    with tarfile.open(path) as file:
        content = {name: file.extractfile(name).read() for name in file.getnames()}  # type: ignore[union-attr]
    rows = [
        {"__key__": f"{i:04d}", "jpg": content[f"{i:04d}.jpg"], "cls": content[f"{i:04d}.cls"]}
        for i in range(8)
    ]
    images = from_dataset(iter(rows), limit=8)
    assert torch.equal(images.targets, IMAGES.targets[:8])
