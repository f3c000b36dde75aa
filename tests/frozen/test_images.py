"""Images from whatever a user has: always the same ones, in the same order."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)
from typing_extensions import override

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError, DataError
from instaaug.frozen import NormalizedImages

N = 7
PIXELS = torch.randint(0, 256, (N, 3, 6, 5), generator=torch.Generator().manual_seed(0)).byte()
TARGETS = torch.arange(N) % 3
X = PIXELS.float() / 255


class Own(Dataset[Any]):
    """A data set as a user writes it."""

    def __len__(self) -> int:
        return N

    @override
    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return X[index], int(TARGETS[index])


def labeled() -> LabeledImages:
    return LabeledImages(PIXELS.permute(0, 2, 3, 1).numpy(), TARGETS, ("a", "b", "c"))


SOURCES: dict[str, Any] = {
    "tensors": (X, TARGETS),
    "a list of targets": (X, TARGETS.tolist()),
    "bytes": (PIXELS, TARGETS),
    "double": (X.double(), TARGETS),
    "tensor data set": TensorDataset(X, TARGETS),
    "own data set": Own(),
    "list of pairs": [(x, int(y)) for x, y in zip(X, TARGETS, strict=True)],
    "more than pairs": TensorDataset(X, TARGETS, torch.arange(N)),
    "two data sets": ConcatDataset([Subset(Own(), range(3)), Subset(Own(), range(3, N))]),
    "labeled images": labeled(),
    "part of labeled images": Subset(labeled(), range(N)),
    "shuffled loader": DataLoader(Own(), batch_size=3, shuffle=True, drop_last=True),
    "loader": DataLoader(Own(), batch_size=2),
    "loader of single images": DataLoader(Own(), batch_size=None),
    "loader of labeled images": DataLoader(
        labeled(), batch_size=4, shuffle=True, collate_fn=lambda batch: batch
    ),
    "loader of bytes": DataLoader(
        list(zip(PIXELS, TARGETS.tolist(), strict=True)),  # type: ignore[arg-type]
        batch_size=4,
        collate_fn=lambda pairs: (
            torch.stack([x for x, _ in pairs]), torch.tensor([y for _, y in pairs])
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_the_images_come_in_order_whatever_holds_them(source: str) -> None:
    images = NormalizedImages(SOURCES[source])
    assert len(images) == N
    batches = list(images.batches(3))
    assert [len(x) for x, _ in batches] == [3, 3, 1]
    torch.testing.assert_close(torch.cat([x for x, _ in batches]), X)
    assert torch.cat([y for _, y in batches]).tolist() == TARGETS.tolist()
    assert batches[0][0].dtype == torch.float32
    assert images.image_shape == (3, 6, 5)
    x, y = images.at(torch.tensor([5, 0, 5]))
    torch.testing.assert_close(x, X[[5, 0, 5]])
    assert y.tolist() == TARGETS[[5, 0, 5]].tolist()
    torch.testing.assert_close(images.first(2), X[:2])


def test_they_start_where_they_are_told_to() -> None:
    images = NormalizedImages((X, TARGETS))
    assert torch.equal(torch.cat([x for x, _ in images.batches(2, start=3)]), X[3:])
    assert not list(images.batches(2, start=N))


@pytest.mark.parametrize("source", ["tensors", "bytes", "labeled images"])
@pytest.mark.parametrize("mean", [(0.4, 0.5, 0.6), (0.5,)])
def test_they_are_normalized(source: str, mean: tuple[float, ...]) -> None:
    x = NormalizedImages(SOURCES[source], mean=mean, std=(0.25,)).first(N)
    torch.testing.assert_close(x, (X - torch.tensor(mean)[:, None, None]) / 0.25)


def test_the_random_state_is_left_alone() -> None:
    state = torch.get_rng_state()
    images = NormalizedImages(DataLoader(Own(), batch_size=3, shuffle=True))
    list(images.batches(2))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_loader_of_a_part_gives_that_part_only() -> None:
    """Held-out images must not slip in."""
    loader = DataLoader(Own(), batch_size=2, sampler=SubsetRandomSampler([6, 0, 3]))
    assert torch.equal(NormalizedImages(loader).first(9), X[[0, 3, 6]])
    part, _ = random_split(Own(), [3, 4], torch.Generator().manual_seed(0))
    assert torch.equal(
        NormalizedImages(DataLoader(part, shuffle=True)).first(9), X[list(part.indices)]
    )


class Stream(IterableDataset[Any]):
    @override
    def __iter__(self) -> Iterator[Any]:
        return iter(Own())

    def __len__(self) -> int:
        return N


class Pairs(list[list[int]]):
    """A sampler of batches."""


NOT_DATA: dict[str, tuple[Any, str]] = {
    "iterator": (iter([(X[0], 0)]), r"got list_iterator\. It is read more than once"),
    "generator": (((x, 0) for x in X), "got generator"),
    "stream": (Stream(), "got Stream"),
    "loader of a stream": (DataLoader(Stream()), "got Stream"),
    "path": ("photos/", r"got str.*a folder is read by instaaug\.data\.load_data"),
    "dict": ({"x": X, "y": TARGETS}, "got dict"),
    "nothing": (None, "got NoneType"),
    "empty": ([], "hold at least one image: got none"),
    "empty tensors": ((X[:0], TARGETS[:0]), "hold at least one image: got none"),
    "too few targets": ((X, TARGETS[:3]), "a target per image: got 7 images and 3 targets"),
    "drawn with weights": (
        DataLoader(Own(), sampler=WeightedRandomSampler([1.0] * N, N)),
        "got one with a WeightedRandomSampler. Give the data set itself",
    ),
    "own batches": (DataLoader(Own(), batch_sampler=Pairs([[0, 1]])), "got one with a Pairs"),
}


@pytest.mark.parametrize("kind", NOT_DATA)
def test_what_is_no_data_is_refused_at_the_door(kind: str) -> None:
    data, message = NOT_DATA[kind]
    with pytest.raises(DataError, match=f"`data` must .*{message}"):
        NormalizedImages(data)


BAD_ITEMS: dict[str, tuple[Any, str]] = {
    "tensor": (X, r"pairs \(image, target\): got Tensor"),
    "no targets": (TensorDataset(X), r"pairs \(image, target\): got list"),
    "other sizes": ([(X[0], 0), (X[1, :, :4], 1)], ".*one shape: got items .*equal size.* Resize"),
    "arrays": ([(np.zeros((3, 6, 5)), "cat")], "targets that are numbers: got .* of str"),
    "objects": ([(object(), 0)], ".*one shape: got items .* and convert them"),
    "names": ([(X[0], "cat"), (X[1], "dog")], "targets that are numbers: got .* of str. Number"),
    "no channels": ((X[:, 0], TARGETS), r"images \(C, H, W\): .* shape \(7, 6, 5\)"),
    "flat": ((X.flatten(1), TARGETS), r"images \(C, H, W\): .* shape \(7, 90\)"),
}


@pytest.mark.parametrize("kind", BAD_ITEMS)
def test_items_that_are_no_labeled_images_are_refused(kind: str) -> None:
    data, message = BAD_ITEMS[kind]
    images = NormalizedImages(data)
    with pytest.raises(DataError, match=f"`data` must give {message}"):
        images._fetch(list(range(len(images))))
    with pytest.raises(DataError, match="`data` must give"):
        list(images.batches(100))


def test_rows_with_columns_are_read_as_hugging_face_has_them() -> None:
    """Neither their own library nor a conversion is needed; a collate of one's own goes first."""
    rows: Any = [{"image": x, "label": int(y)} for x, y in zip(X, TARGETS, strict=True)]
    images = NormalizedImages(rows)
    assert images.image_shape == (3, 32, 32), "squares, in a size that is chosen as for a folder"
    assert images.at(torch.arange(N))[1].tolist() == TARGETS.tolist()

    def collate(items: list[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        return torch.stack([i["image"] for i in items]), torch.tensor([i["label"] for i in items])

    collated = NormalizedImages(DataLoader(rows, collate_fn=collate))
    assert collated.image_shape == (3, 6, 5)


def test_another_size_in_a_later_batch_is_seen_too() -> None:
    images = NormalizedImages([(X[0], 0), (X[1], 1), (X[2, :, :4], 2)])
    with pytest.raises(DataError, match=r"of one shape: got \(3, 4, 5\) after \(3, 6, 5\)"):
        list(images.batches(1))


def test_a_mean_needs_a_deviation() -> None:
    with pytest.raises(ArgumentError, match="`mean` and `std` must be given together"):
        NormalizedImages((X, TARGETS), mean=(0.5,))
