"""Transforms of torchvision may stand before ours in the loader; without it, this is skipped."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from typing_extensions import override

from instaaug import InstaAug
from instaaug.transforms import Crop
from tests.support.tiny_training import labeled_halves

v2: Any = pytest.importorskip(
    "torchvision.transforms.v2",
    reason="torchvision is not installed, or its compiled part does not load",
    exc_type=(ImportError, RuntimeError),  # type: ignore[arg-type]  # pytest passes it to except
)


class Photos(Dataset[Any]):
    def __init__(self) -> None:
        self.images = labeled_halves(8, side=20).images
        self.prepare = v2.Compose(
            [v2.ToImage(), v2.RandomCrop(16), v2.ToDtype(torch.float32, scale=True)]
        )

    def __len__(self) -> int:
        return len(self.images)

    @override
    def __getitem__(self, i: int) -> Any:
        return self.prepare(self.images[i]), i % 2


def test_what_they_make_is_what_we_take() -> None:
    aug = InstaAug(Crop(levels=((1.0, 1), (0.5, 2))))
    for x, y in DataLoader(Photos(), batch_size=4):
        batch = aug(x, targets=y)
        assert type(batch.inputs) is torch.Tensor
        assert batch.inputs.shape == (4, 3, 16, 16)
        aug.objective(batch.inputs.mean(dim=(1, 2, 3)), batch).backward()
