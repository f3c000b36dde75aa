"""One door for all data."""

import gzip
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from instaaug.data import DataSplits, LabeledImages, load_data
from instaaug.errors import ArgumentError, UnknownNameError
from tests.support.picture_folders import gray_levels, plain_folder


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / ".cache"))
    monkeypatch.delenv("INSTAAUG_DATA", raising=False)
    monkeypatch.setattr("instaaug.data.sprites.N_TRAIN", 40)
    monkeypatch.setattr("instaaug.data.sprites.N_TEST", 20)


def sizes(splits: DataSplits) -> tuple[int, int, int]:
    validation = 0 if splits.validation is None else len(splits.validation)
    return len(splits.train), validation, len(splits.test)


def pixels(data: LabeledImages) -> torch.Tensor:
    return data.__getitems__(range(len(data)))[0]


# Where data come from


@dataclass
class Pairs:
    """As torchvision's data sets are."""

    items: list[tuple[Any, int]]
    classes: tuple[str, ...] = ("no", "yes")

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.items[index]


@dataclass
class Rows:
    """As Hugging Face's data sets are."""

    rows: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]


def picture(value: int) -> Image.Image:
    return Image.new("RGB", (16, 16), (value, value, value))


def pairs(_: Path) -> Any:
    return Pairs([(picture(i), i % 2) for i in range(20)])


def rows(_: Path) -> Any:
    return Rows([{"image": picture(i), "label": ("no", "yes")[i % 2]} for i in range(20)])


def folder(place: Path) -> Any:
    for i in range(20):
        target = place / "pictures" / ("no", "yes")[i % 2]
        target.mkdir(parents=True, exist_ok=True)
        picture(i).save(target / f"{i}.png")
    return place / "pictures"


def table(place: Path) -> Any:
    folder(place)
    lines = [f"pictures/{('no', 'yes')[i % 2]}/{i}.png,{('no', 'yes')[i % 2]}" for i in range(20)]
    (place / "t.csv").write_text("\n".join(["path,label", *lines]))
    return str(place / "t.csv")


def archive(place: Path) -> Any:
    images = np.stack([np.asarray(picture(i)) for i in range(20)])
    labels = np.array(["no", "yes"])[np.arange(20) % 2]
    np.savez(place / "a.npz", images=images, labels=labels)
    return place / "a.npz"


SOURCES = pytest.mark.parametrize("make", [pairs, rows, folder, table, archive])


@SOURCES
def test_the_same_images_come_in_by_every_door(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    size = None if make is archive else 16
    splits = load_data(make(tmp_path), size=size, test_fraction=0.25, validation_fraction=0.2)
    assert sizes(splits) == (12, 3, 5)
    assert splits.train.classes == ("no", "yes")
    assert splits.validation is not None
    parts = (splits.train, splits.validation, splits.test)
    values = torch.cat([pixels(part)[:, 0, 0, 0] for part in parts])
    labels = torch.cat([part.targets for part in parts])
    assert sorted(values.tolist()) == list(range(20))  # each image once, in one part
    assert torch.equal(labels, values.long() % 2)


@SOURCES
def test_the_seed_decides_the_split(make: Callable[[Path], Any], tmp_path: Path) -> None:
    source = make(tmp_path)
    first, again, other = (load_data(source, seed=seed) for seed in (0, 0, 1))
    assert first.hash == again.hash != other.hash


def test_without_validation_there_is_none(tmp_path: Path) -> None:
    splits = load_data(archive(tmp_path), validation_fraction=0.0)
    assert splits.validation is None
    assert sizes(splits) == (16, 0, 4)


def test_a_test_set_of_its_own_stays_as_it_is(tmp_path: Path) -> None:
    x, y = np.zeros((20, 16, 16), dtype=np.uint8), np.arange(20) % 2
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x[:6], y_test=y[:6])
    splits = load_data(tmp_path / "a.npz", test_fraction=0.5, validation_fraction=0.1)
    assert sizes(splits) == (18, 2, 6)


def test_a_validation_set_of_its_own_is_not_added_to(tmp_path: Path) -> None:
    for part, n in (("train", 6), ("val", 2), ("test", 3)):
        plain_folder(tmp_path / "pets" / part, n=n)
    assert sizes(load_data(tmp_path / "pets", size=16)) == (18, 6, 9)


# Named sets


def test_a_name_is_a_named_set() -> None:
    splits = load_data("sprites", size=16)
    assert (splits.name, sizes(splits)) == ("sprites", (36, 4, 20))


def test_a_folder_of_that_name_goes_first(tmp_path: Path) -> None:
    plain_folder(tmp_path / "sprites", n=5)
    assert load_data("sprites", size=16).train.classes == ("cat", "dog", "ibis")


def cifar10(place: Path) -> Path:
    place.mkdir()
    for k, stem in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        records = np.random.default_rng(k).integers(0, 256, (10, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(10)
        (place / f"{stem}.bin").write_bytes(records.tobytes())
    return place


def mnist(place: Path) -> Path:
    place.mkdir()
    for prefix, n in (("train", 40), ("t10k", 20)):
        images = np.random.default_rng(n).integers(0, 256, (n, 28, 28), dtype=np.uint8)
        labels = (np.arange(n) % 10).astype(np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, array.ndim])
            header += b"".join(side.to_bytes(4, "big") for side in array.shape)
            with gzip.open(place / f"{prefix}-{kind}-ubyte.gz", "wb") as file:
                file.write(header + array.tobytes())
    return place


@pytest.mark.parametrize(
    ("make", "place", "name", "expected"),
    [
        (cifar10, "downloads", "cifar10", (45, 5, 10)),
        (mnist, "fashion", "fashion-mnist", (36, 4, 20)),
        (mnist, "digits", "idx", (36, 4, 20)),
    ],
)
def test_the_layout_of_a_folder_tells_the_set(
    make: Callable[[Path], Path],
    place: str,
    name: str,
    expected: tuple[int, int, int],
    tmp_path: Path,
) -> None:
    splits = load_data(make(tmp_path / place))
    assert (splits.name, sizes(splits)) == (name, expected)


def test_the_root_says_where_a_named_set_is(tmp_path: Path) -> None:
    cifar10(tmp_path / "downloads")
    assert sizes(load_data("cifar10", root=tmp_path / "downloads")) == (45, 5, 10)


# How data are split


def test_blocks_hold_out_neighbors_together(tmp_path: Path) -> None:
    images = np.arange(40, dtype=np.uint8)[:, None, None].repeat(16, 1).repeat(16, 2)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(40) // 20)
    splits = load_data(tmp_path / "a.npz", split="block", validation_fraction=0.0)
    held_out = sorted(pixels(splits.test)[:, 0, 0, 0].tolist())
    assert len(held_out) == 8
    per_class = [[v for v in held_out if v // 20 == label] for label in (0, 1)]
    for label, values in enumerate(per_class):  # four in a row; the last is next to the first
        starts = [v for v in values if (v - 1 - 20 * label) % 20 + 20 * label not in values]
        assert len(values) == 4
        assert len(starts) == 1


# Functions


def write_source(folder: Path, body: str) -> None:
    (folder / "my_source.py").write_text(body)


@pytest.fixture(autouse=True)
def forget_source() -> Iterator[None]:
    yield
    sys.modules.pop("my_source", None)


def test_a_function_gives_splits_as_they_are(tmp_path: Path) -> None:
    write_source(
        tmp_path,
        "from instaaug.data import load_data\n"
        "def load(path, share=0.5):\n"
        "    return load_data(path, test_fraction=share, validation_fraction=0.0)\n",
    )
    gray_levels(tmp_path / "a.npz")
    options = {"path": "a.npz", "share": 0.25}
    splits = load_data("my_source:load", options=options, validation_fraction=0.0)
    expected = load_data("a.npz", test_fraction=0.25, validation_fraction=0.0)
    assert splits.hash == expected.hash
    assert load_data("my_source:load", options={"path": "a.npz"}).validation is not None


def test_a_function_that_takes_a_seed_is_handed_the_seed_of_the_run(tmp_path: Path) -> None:
    write_source(
        tmp_path,
        "from instaaug.data import load_data\n"
        "def load(path, seed=0): return load_data(path, seed=seed, validation_fraction=0.0)\n",
    )
    gray_levels(tmp_path / "a.npz")
    splits = load_data("my_source:load", options={"path": "a.npz"}, seed=3)
    assert splits.hash == load_data("a.npz", seed=3).hash
    options = {"path": "a.npz", "seed": 4}
    other = load_data("my_source:load", options=options, seed=3, validation_fraction=0.0)
    assert other.hash == load_data("a.npz", seed=4, validation_fraction=0.0).hash


@pytest.mark.parametrize(
    ("returned", "name"),
    [
        ("'sprites'", "sprites"),
        ("'a.npz'", "a.npz"),
        ("load_data('a.npz').train", "my_source:load"),
    ],
)
def test_a_function_may_return_whatever_can_be_loaded(
    returned: str, name: str, tmp_path: Path
) -> None:
    write_source(tmp_path, f"from instaaug.data import load_data\ndef load(): return {returned}\n")
    gray_levels(tmp_path / "a.npz")
    splits = load_data("my_source:load")
    assert splits.name == name
    assert len(splits.test) > 0


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("no_such:load", {}, "`source` 'no_such:load' must name a module that Python can import"),
        ("my_source:gone", {}, "`source` 'my_source:gone' must name a function: the module"),
        ("my_source:NUMBER", {}, "`source` 'my_source:NUMBER' must name a function: got int"),
        ("my_source:load", {"sizel": 3}, r"`options` must fit .*load\(size=1\).*Got sizel"),
        ("my_source:load", {}, "'my_source:load' must return a DataSplits.*got None"),
        ("sprites", {"size": 3}, "`options` must be those .*'sprites', which has none: got size"),
    ],
)
def test_a_function_that_is_none_is_refused(
    source: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write_source(tmp_path, "NUMBER = 3\ndef load(size=1): return None\n")
    with pytest.raises(ArgumentError, match=words):
        load_data(source, options=options)


# What is refused


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("sprits", UnknownNameError, "no data set, folder or file called 'sprits'.*'sprites'"),
        ("shaps", UnknownNameError, "called 'shaps'. Did you mean 'shapes'"),
        ("shapes/circels", FileNotFoundError, "'shapes/circels'. Did you mean 'shapes/circles'"),
        ("no/folder", FileNotFoundError, r"There is no folder or file 'no/folder'\.$"),
        ("no.csv", FileNotFoundError, r"There is no folder or file 'no\.csv'"),
        ("cat.png", ArgumentError, r"got 'cat\.png'\. A single image is for `instaaug predict`"),
    ],
)
def test_what_is_no_data_set_is_refused(
    source: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    picture(0).save(tmp_path / "cat.png")
    (tmp_path / "shapes" / "circles").mkdir(parents=True)
    with pytest.raises(error, match=words):
        load_data(source)


@pytest.mark.parametrize(
    ("source", "task", "words"),
    [
        ("sprites", "regression", "'sprites' has classes as targets. .* task=\"classification\""),
        ("sprite-angle", "classification", 'has numbers as targets. .* task="regression"'),
        ("pictures", "regression", "`task` must be classification for a folder of classes"),
    ],
)
def test_a_task_that_does_not_fit_the_data_is_refused(
    source: str, task: Any, words: str, tmp_path: Path
) -> None:
    folder(tmp_path)
    with pytest.raises(ArgumentError, match=words):
        load_data(source, task=task, size=16)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 20}, "have 16 pixels and 3 channels, got 20 and 3"),
        ({"channels": 1}, "have 16 pixels and 3 channels, got 16 and 1"),
    ],
)
def test_arrays_are_not_silently_of_another_shape(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    gray_levels(tmp_path / "a.npz")
    with pytest.raises(ArgumentError, match=words):
        load_data(tmp_path / "a.npz", **options)
    assert load_data(tmp_path / "a.npz", size=16, channels=3).train.image_shape == (3, 16, 16)


def test_a_named_set_is_not_silently_in_color() -> None:
    with pytest.raises(ArgumentError, match="`size` and `channels` must be those of 'sprites'"):
        load_data("sprites", size=16, channels=1)
