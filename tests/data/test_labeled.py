"""Labeled images: batches, subsets, and what they refuse."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from instaaug.data.labeled import LabeledImages, channel_statistics
from instaaug.errors import DataError


@pytest.fixture
def data() -> LabeledImages:
    pixels = np.arange(5 * 2 * 3 * 3, dtype=np.uint8).reshape(5, 2, 3, 3)
    return LabeledImages(
        pixels,
        torch.tensor([0, 1, 0, 1, 1]),
        classes=("cat", "dog"),
        names=tuple(f"{i}.png" for i in range(5)),
        fingerprint="print",
    )


def test_an_item_is_one_image_channels_first(data: LabeledImages) -> None:
    x, y = data[3]
    assert x.shape == data.image_shape == (3, 2, 3)
    np.testing.assert_array_equal(x.permute(1, 2, 0).numpy(), data.images[3])
    assert y == 1


def test_a_batch_is_its_items(data: LabeledImages) -> None:
    x, y = data.__getitems__([4, 0, 4])
    assert torch.equal(x, torch.stack([data[4][0], data[0][0], data[4][0]]))
    assert y.tolist() == [1, 0, 1]
    assert x.is_contiguous(memory_format=torch.channels_last)


def test_a_subset_of_a_subset_shares_pixels(data: LabeledImages) -> None:
    part = data.subset([4, 2, 0]).subset(np.array([2, 0]))
    assert len(part) == 2
    assert part.images is data.images
    assert part.targets.tolist() == [0, 1]
    assert [part.name(i) for i in range(2)] == ["0.png", "4.png"]
    assert torch.equal(part[1][0], data[4][0])
    assert part.fingerprint == "print"


def test_an_empty_subset_is_allowed(data: LabeledImages) -> None:
    assert len(data.subset([])) == 0


def test_a_batch_may_be_changed_without_changing_the_data(data: LabeledImages) -> None:
    before = data.images.copy()
    data.__getitems__([0, 1])[0].zero_()
    np.testing.assert_array_equal(data.images, before)


def test_a_loader_fetches_whole_batches(data: LabeledImages) -> None:
    batches = list(DataLoader(data, batch_size=2, collate_fn=lambda batch: batch))
    assert [len(y) for _, y in batches] == [2, 2, 1]


def test_without_names_images_go_by_number(data: LabeledImages) -> None:
    bare = LabeledImages(data.images, data.targets)
    assert bare.subset([3]).name(0) == "image 3"


@pytest.mark.parametrize(
    "images",
    [np.zeros((2, 4, 4), dtype=np.uint8), np.zeros((2, 4, 4, 3), dtype=np.float32)],
)
def test_pixels_must_be_bytes_with_four_axes(images: np.ndarray) -> None:
    with pytest.raises(DataError, match=r"`images` must be 8-bit pixels \(N, H, W, C\): got"):
        LabeledImages(images, torch.tensor([0, 1]))


def test_targets_must_be_as_many_as_images() -> None:
    with pytest.raises(DataError, match="`targets` must have one entry per image: got 3 for 2"):
        LabeledImages(np.zeros((2, 4, 4, 3), dtype=np.uint8), torch.tensor([0, 1, 0]))


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_must_be_classes(data: LabeledImages, label: int) -> None:
    targets = torch.tensor([0, 1, label, 1, 1])
    with pytest.raises(
        DataError, match=rf"lie in \[0, 1\], .* 2 classes: 2\.png has label {label}"
    ):
        LabeledImages(data.images, targets, classes=data.classes, names=data.names)


def test_a_memory_map_is_pickled_by_its_name(data: LabeledImages, tmp_path: Path) -> None:
    np.save(tmp_path / "pixels.npy", np.repeat(data.images, 1000, axis=0))
    mapped = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    whole = LabeledImages(mapped, data.targets.repeat_interleave(1000), classes=data.classes)
    part = whole.subset([4500, 17])
    dump = pickle.dumps(part)
    assert len(dump) < 2000
    copy = pickle.loads(dump)  # noqa: S301 our own bytes
    assert torch.equal(copy[0][0], data[4][0])
    assert copy.targets.tolist() == [1, 0]


def test_a_piece_of_a_memory_map_is_pickled_as_it_is(data: LabeledImages, tmp_path: Path) -> None:
    np.save(tmp_path / "pixels.npy", data.images)
    mapped = np.load(tmp_path / "pixels.npy", mmap_mode="r")
    part = LabeledImages(mapped[2:4], data.targets[2:4])
    copy = pickle.loads(pickle.dumps(part))  # noqa: S301 our own bytes
    assert torch.equal(copy[0][0], data[2][0])


def labeled(pixels: np.ndarray) -> LabeledImages:
    return LabeledImages(pixels, torch.zeros(len(pixels)))


def test_statistics_agree_with_numpy() -> None:
    pixels = np.random.default_rng(0).integers(0, 200, (600, 5, 7, 3), dtype=np.uint8)
    mean, std = channel_statistics(labeled(pixels))
    np.testing.assert_allclose(mean, (pixels / 255).mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(std, (pixels / 255).std(axis=(0, 1, 2)))


def test_a_constant_channel_can_be_divided_by() -> None:
    mean, std = channel_statistics(labeled(np.full((3, 2, 2, 1), 51, dtype=np.uint8)))
    assert mean == pytest.approx((0.2,))
    assert std == (1 / 255,)


def test_a_subset_has_its_own_statistics() -> None:
    pixels = np.repeat(np.array([0, 255], dtype=np.uint8), 4).reshape(8, 1, 1, 1)
    assert channel_statistics(labeled(pixels).subset([4, 5]))[0] == (1.0,)


def test_of_many_images_some_are_looked_at_evenly() -> None:
    pixels = (np.arange(20_000) % 256).astype(np.uint8).reshape(-1, 1, 1, 1)
    (mean,), (std,) = channel_statistics(labeled(pixels))
    assert mean == pytest.approx(0.5, abs=0.02)
    assert std == pytest.approx(12**-0.5, abs=0.02)


def test_groups_follow_their_images(data: LabeledImages) -> None:
    grouped = replace(data, groups=("b", "a", "b", "a", "a"))
    assert {k: v.tolist() for k, v in grouped.group_indices().items()} == {
        "a": [1, 3, 4],
        "b": [0, 2],
    }
    some = grouped.subset([4, 2]).group_indices()
    assert {k: v.tolist() for k, v in some.items()} == {"a": [0], "b": [1]}
    assert data.group_indices() == {}
    with pytest.raises(DataError, match=r"`groups` must have one entry per image.*got 1 for 5"):
        replace(data, groups=("a",))
