"""Other libraries' data sets, imitated by the few attributes that count."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import IterableDataset, Subset, TensorDataset

from instaaug.data.adapters import from_dataset
from instaaug.errors import ArgumentError, DataError
from tests.support.picture_files import plain, save_rotated


@dataclass
class Names:
    """Like ``datasets.ClassLabel``."""

    names: list[str]


@dataclass
class Table:
    """Like ``datasets.Dataset``: rows are dicts."""

    rows: list[dict[str, Any]]
    features: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


@dataclass
class Pairs:
    """Like torchvision's data sets: items are pairs."""

    items: list[Any]
    classes: list[str] | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.items[index], Exception):
            raise self.items[index]
        return self.items[index]


def picture(value: int = 100, size: tuple[int, int] = (32, 32)) -> Image.Image:
    return Image.new("RGB", size, (value, 0, 0))


def as_bytes(value: int) -> bytes:
    buffer = io.BytesIO()
    picture(value).save(buffer, "PNG")
    return buffer.getvalue()


def as_tensor(value: int) -> torch.Tensor:
    return torch.tensor([value, 0, 0], dtype=torch.uint8).view(3, 1, 1).expand(3, 32, 32)


KINDS: dict[str, Callable[[int, Path], Any]] = {
    "pillow": lambda value, _: picture(value),
    "lazy pillow": lambda value, _: Image.open(io.BytesIO(as_bytes(value))),
    "bytes": lambda value, _: as_bytes(value),
    "mapping of bytes": lambda value, _: {"bytes": as_bytes(value), "path": None},
    "mapping of a path": lambda value, folder: {
        "bytes": None,
        "path": str(plain(folder / f"{value}.png", (value, 0, 0))),
    },
    "path": lambda value, folder: plain(folder / f"{value}.png", (value, 0, 0)),
    "array": lambda value, _: np.asarray(picture(value)),
    "array, channels first": lambda value, _: np.asarray(picture(value)).transpose(2, 0, 1),
    "tensor": lambda value, _: as_tensor(value),
    "unit tensor": lambda value, _: as_tensor(value) / 255,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [32, 16])
def test_images_come_in_many_forms(tmp_path: Path, kind: str, size: int) -> None:
    items = [(KINDS[kind](value, tmp_path), label) for value, label in ((10, 1), (250, 0))]
    data = from_dataset(Pairs(items), size=size, channels=3)
    assert data.images.shape == (2, size, size, 3)
    assert (data.images[0] == (10, 0, 0)).all()
    assert (data.images[1] == (250, 0, 0)).all()
    assert data.targets.tolist() == [1, 0]


def test_rows_of_a_table_have_named_classes() -> None:
    rows = [{"image": picture(), "label": i, "note": "x"} for i in (2, 0)]
    data = from_dataset(Table(rows, {"label": Names(["a", "b", "c"])}))
    assert data.classes == ("a", "b", "c")
    assert data.targets.tolist() == [2, 0]
    assert data.name(1) == "item 1"


def test_columns_can_be_chosen() -> None:
    rows = [{"scan": picture(), "fine": i, "label": 0} for i in (0, 1)]
    data = from_dataset(Table(rows), image_column="scan", target_column="fine")
    assert data.targets.tolist() == [0, 1]


def test_unknown_columns_are_answered_with_the_known_ones() -> None:
    table = Table([{"scan": picture(), "label": 0}])
    with pytest.raises(ArgumentError, match=r"`image_column` must .* the columns are scan, label"):
        from_dataset(table)
    with pytest.raises(ArgumentError, match=r"`target_column` must .*got 'kind', but the columns"):
        from_dataset(table, image_column="scan", target_column="kind")


def test_pairs_have_the_classes_of_their_data_set() -> None:
    items = [(picture(), 1), (picture(), 0), (picture(), 1)]
    whole = Pairs(items, classes=["cat", "dog"])
    assert from_dataset(whole).classes == ("cat", "dog")
    part = from_dataset(Subset(whole, [0, 1]))  # type: ignore[arg-type]
    assert part.classes == ("cat", "dog")
    assert part.targets.tolist() == [1, 0]


def test_labels_may_be_words_or_have_gaps() -> None:
    words = from_dataset(Pairs([(picture(), "dog"), (picture(), "cat")]))
    assert (words.classes, words.targets.tolist()) == (("cat", "dog"), [1, 0])
    numbers = from_dataset(Pairs([(picture(), 7), (picture(), 3)]))
    assert (numbers.classes, numbers.targets.tolist()) == (("3", "7"), [1, 0])


def test_tensors_are_a_data_set_too() -> None:
    data = from_dataset(TensorDataset(torch.rand(3, 3, 8, 8), torch.tensor([0, 1, 1])), size=8)
    assert data.targets.tolist() == [0, 1, 1]
    assert data.image_shape == (3, 8, 8)


def test_regression_targets_may_be_several() -> None:
    items = [(picture(), torch.tensor([1.0, 2.0])), (picture(), torch.tensor([3.0, 4.0]))]
    data = from_dataset(Pairs(items), task="regression")
    torch.testing.assert_close(data.targets, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert data.classes == ()


def test_the_size_and_channels_suit_the_images() -> None:
    gray = [(Image.new("L", (300, 100)), i) for i in (0, 1)]
    assert from_dataset(Pairs(gray)).image_shape == (1, 96, 96)
    mixed = [*gray, (picture(size=(300, 100)), 1)]
    assert from_dataset(Pairs(mixed)).image_shape == (3, 96, 96)


def test_lazily_opened_images_stay_as_they_are(tmp_path: Path) -> None:
    path = save_rotated(tmp_path / "a.jpg", picture(size=(640, 320)), 6)
    with Image.open(path) as image:
        from_dataset(Pairs([(image, 0), (image, 1)]), size=16)
        assert image.size == (640, 320)


def test_a_limit_takes_items_evenly() -> None:
    items = [(picture(i), i % 2) for i in range(101)]
    data = from_dataset(Pairs(items), limit=5)
    assert data.images[:, 0, 0, 0].tolist() == [0, 25, 50, 75, 100]


def test_progress_counts_to_the_end() -> None:
    calls: list[tuple[int, int]] = []
    items = [(picture(), 0), (picture(), 1)]
    from_dataset(Pairs(items), on_progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 2), (2, 2)]


def test_a_mapping_of_data_sets_is_told_to_choose() -> None:
    with pytest.raises(ArgumentError, match=r"got a mapping of train, test\. Choose one, as in"):
        from_dataset({"train": Pairs([]), "test": Pairs([])})


def test_a_stream_is_told_to_become_a_list() -> None:
    def stream() -> Iterator[int]:
        yield 0

    with pytest.raises(ArgumentError, match=r"must have a length and items: got type generator"):
        from_dataset(stream())


def test_an_empty_data_set_is_refused() -> None:
    with pytest.raises(DataError, match="`dataset` must have items: got none"):
        from_dataset(Pairs([]))


def test_the_limit_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match="`limit` must be at least 1: got 0"):
        from_dataset(Pairs([(picture(), 0)]), limit=0)


def test_items_that_are_no_pairs_are_named_by_type() -> None:
    with pytest.raises(DataError, match=r"item 0 is of type PIL\.Image\.Image\. Wrap"):
        from_dataset(Pairs([picture()]))


def test_an_item_unlike_the_first_is_named() -> None:
    with pytest.raises(DataError, match=r"like the first: item 1 is of type int and lacks"):
        from_dataset(Pairs([(picture(), 0), 5]), size=8, channels=3)


def test_an_image_of_another_kind_is_named_by_index_and_type() -> None:
    with pytest.raises(DataError, match=r"must be Pillow .*: item 1 has type set\. Convert"):
        from_dataset(Pairs([(picture(), 0), ({1}, 1)]), size=8, channels=3)


@pytest.mark.parametrize("shape", [(4,), (8, 8, 2), (5, 8, 8), (0, 8, 3)])
def test_an_array_of_another_shape_is_named(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"Images must be tensors \(C, H, W\).*: item 0 has shape"):
        from_dataset(Pairs([(np.zeros(shape, dtype=np.uint8), 0)]))


@pytest.mark.parametrize("value", [-1.0, 2.0, float("nan")])
def test_normalized_images_are_refused(value: float) -> None:
    with pytest.raises(DataError, match=r"in \[0, 1\]: item 0 is float32 .* without its norm"):
        from_dataset(Pairs([(torch.full((3, 8, 8), value), 0)]))


def test_a_target_of_another_kind_is_named() -> None:
    with pytest.raises(DataError, match="must be numbers or strings: item 1 has type NoneT"):
        from_dataset(Pairs([(picture(), 0), (picture(), None)]), size=8, channels=3)


def test_targets_of_several_lengths_are_refused() -> None:
    items = [(picture(), [1.0]), (picture(), [1.0, 2.0])]
    with pytest.raises(DataError, match="Targets must have the same length in all items"):
        from_dataset(Pairs(items), task="regression")


def test_one_hot_targets_are_told_what_to_do() -> None:
    with pytest.raises(DataError, match=r"one per image: item 0 has \(2,\)\. Turn one-hot"):
        from_dataset(Pairs([(picture(), [0, 1]), (picture(), [1, 0])]))


def test_a_label_beyond_the_classes_is_named() -> None:
    with pytest.raises(DataError, match=r"must lie in \[0, 1\].* item 1 has label 2"):
        from_dataset(Pairs([(picture(), 0), (picture(), 2)], classes=["a", "b"]))


def test_unlabeled_rows_are_named() -> None:
    rows = [{"image": picture(), "label": i} for i in (0, -1)]
    with pytest.raises(DataError, match="whole numbers from 0: item 1 has -1"):
        from_dataset(Table(rows, {"label": Names(["a", "b"])}))


def test_items_that_fail_to_load_follow_the_policy() -> None:
    items = [(picture(1), 0), OSError("broken data stream"), (picture(3), 1), (b"no image", 1)]
    with pytest.raises(DataError, match=r"item 1 does not \(OSError: broken data stream\)"):
        from_dataset(Pairs(items))
    data = from_dataset(Pairs(items), on_bad_image="skip")
    assert data.images[:, 0, 0, 0].tolist() == [1, 3]
    assert data.name(1) == "item 2"
    assert len(data.skipped) == 2


def test_only_bad_items_are_refused_even_when_skipping() -> None:
    items = [(b"", 0), (b"", 1)]
    with pytest.raises(DataError, match=r"None of the 2 images can be used\. 'item 0' cannot"):
        from_dataset(Pairs(items), size=8, channels=3, on_bad_image="skip")
    with pytest.raises(DataError, match="cannot be read as an image: it is empty"):
        from_dataset(Pairs(items), on_bad_image="skip")


def test_the_fingerprint_follows_the_pixels() -> None:
    prints = {
        from_dataset(Pairs([(picture(value), 0), (picture(), 1)])).fingerprint
        for value in (1, 2, 1)
    }
    assert len(prints) == 2


class Stream(IterableDataset[Any]):
    """Like webdataset's, and like ``datasets.IterableDataset``, which knows its features."""

    features = {"label": Names(["cat", "dog"])}  # noqa: RUF012

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return ({"image": picture(i), "label": i % 2} for i in count())  # never ends


def test_the_first_items_of_a_stream_are_taken() -> None:
    found = from_dataset(Stream(), limit=5)
    assert found.classes == ("cat", "dog")
    assert found.targets.tolist() == [0, 1, 0, 1, 0]
    assert found[3][0][0].unique().tolist() == [3]
    from_pairs = from_dataset(((row["image"], row["label"]) for row in Stream()), limit=4)
    assert len(from_pairs) == 4


def test_a_stream_without_a_limit_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"length and items: got .*Stream\. Of a stream, say"):
        from_dataset(Stream())
