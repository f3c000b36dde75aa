"""Arrays: every usual layout and range, and errors that name the row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instaaug.data import arrays as arrays_module
from instaaug.data.arrays import read_arrays
from instaaug.errors import ArgumentError, DataError, UnknownNameError
from tests.support.unhooked import unhooked


def images(n: int = 6, shape: tuple[int, ...] = (8, 8, 3), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


LABELS = np.array([0, 1, 2, 0, 1, 2])


def test_bytes_are_taken_as_they_are() -> None:
    x = images()
    data = read_arrays((x, LABELS))["all"]
    np.testing.assert_array_equal(data.images, x)
    assert data.targets.tolist() == LABELS.tolist()
    assert data.classes == ("0", "1", "2")


def test_channels_may_stand_first() -> None:
    x = images()
    data = read_arrays((x.transpose(0, 3, 1, 2), LABELS))["all"]
    np.testing.assert_array_equal(data.images, x)


def test_gray_images_need_no_channel_axis() -> None:
    x = images(shape=(8, 8))
    assert read_arrays((x, LABELS))["all"].image_shape == (1, 8, 8)
    np.testing.assert_array_equal(read_arrays((x, LABELS))["all"].images[..., 0], x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_unit_floats_become_the_bytes_they_came_from(dtype: type) -> None:
    x = images()
    data = read_arrays(((x / 255).astype(dtype), LABELS))["all"]
    np.testing.assert_allclose(data.images.astype(int), x, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint16])
def test_numbers_up_to_255_are_rounded(dtype: type) -> None:
    x = images()
    np.testing.assert_array_equal(read_arrays((x.astype(dtype), LABELS))["all"].images, x)
    near = x.astype(np.float32).clip(1, 254) + 0.4
    np.testing.assert_array_equal(read_arrays((near, LABELS))["all"].images, x.clip(1, 254))


def test_the_range_is_judged_by_all_parts_together() -> None:
    """A dark test set on the scale of 255 must not be taken for one on the scale of 1."""
    bright, dark = np.full((2, 4, 4), 200.0), np.full((2, 4, 4), 1.0)
    parts = read_arrays(
        {"x_train": bright, "y_train": [0, 1], "x_test": dark, "y_test": [0, 1]},
    )
    assert (parts["test"].images == 1).all()


def test_truth_values_are_black_and_white() -> None:
    x = images(shape=(4, 4)) > 100
    np.testing.assert_array_equal(read_arrays((x, LABELS))["all"].images[..., 0], x * 255)


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [
        (np.linspace(-1, 1, 128).reshape(2, 8, 8), "-1", "1"),
        (np.linspace(0, 65535, 128).reshape(2, 8, 8).astype(np.uint16), "0", "65535"),
    ],
)
def test_other_ranges_are_refused(x: np.ndarray, low: str, high: str) -> None:
    message = rf"`images` must be in \[0, 1\] or \[0, 255\]: got numbers from {low} to {high}\."
    with pytest.raises(DataError, match=message):
        read_arrays((x, [0, 1]))


def test_pixels_must_be_numbers() -> None:
    with pytest.raises(DataError, match="`images` must hold numbers: got <U1"):
        read_arrays((np.full((2, 4, 4), "x"), [0, 1]))


@pytest.mark.parametrize("shape", [(6,), (6, 8), (6, 8, 8, 4), (6, 2, 8, 8), (6, 1, 3, 8, 8)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"`images` must be images \(N, H, W, C\).*got shape \(6,"):
        read_arrays((np.zeros(shape, dtype=np.uint8), LABELS))


def test_no_images_are_refused() -> None:
    with pytest.raises(DataError, match=r"`images` must be images .*got shape \(0, 8, 8, 3\)"):
        read_arrays((images(0), []))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_images_that_are_not_finite_are_counted(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays_module, "CHUNK", 2)
    x = images() / 255
    x[2, 0, 0, 0] = x[5, 1, 1, 1] = value
    with pytest.raises(DataError, match=r"`images` must be finite: image 2 has .* 2 of 6 images"):
        read_arrays((x, LABELS))
    data = read_arrays((x, LABELS), on_bad_image="skip")["all"]
    assert data.targets.tolist() == [0, 1, 0, 1]
    assert data.name(2) == "image 3 of `images`"
    assert len(data.skipped) == 2
    assert data.skipped[0] == "Image 2 of `images` was left out: it has NaN or infinite pixels."
    np.testing.assert_array_equal(data.images, images()[[0, 1, 3, 4]])


def test_only_images_that_are_not_finite_are_refused_even_when_skipping() -> None:
    with pytest.raises(DataError, match="as 2 of 2 images have"):
        read_arrays((np.full((2, 4, 4), np.nan), [0, 1]), on_bad_image="skip")


def test_labels_with_gaps_become_classes_of_their_names() -> None:
    data = read_arrays((images(), np.array([7, 3, 10, 7, 3, 10])))["all"]
    assert data.classes == ("3", "7", "10")
    assert data.targets.tolist() == [1, 0, 2, 1, 0, 2]


def test_labels_may_be_words() -> None:
    data = read_arrays((images(3), np.array(["cat", "dog", "cat"])))["all"]
    assert data.classes == ("cat", "dog")
    assert data.targets.tolist() == [0, 1, 0]


def test_labels_may_be_whole_floats_and_a_column() -> None:
    data = read_arrays((images(), LABELS[:, None].astype(np.float32)))["all"]
    assert data.targets.tolist() == LABELS.tolist()


def test_classes_can_be_named() -> None:
    for data in (
        read_arrays({"x": images(), "y": LABELS, "classes": np.array(["a", "b", "c", "d"])}),
        read_arrays((images(), LABELS), classes=["a", "b", "c", "d"]),
    ):
        assert data["all"].classes == ("a", "b", "c", "d")
        assert data["all"].targets.tolist() == LABELS.tolist()


def test_named_classes_may_be_the_labels() -> None:
    data = read_arrays((images(2), np.array(["b", "a"])), classes=["a", "b"])["all"]
    assert data.targets.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 5, 0, 1, 0], r"must be one of the 2 classes: row 2 of `labels` is 5\."),
        (list("abxaba"), r"must be one of the 2 classes: row 2 of `labels` is 'x'\."),
    ],
)
def test_labels_beyond_the_classes_are_named(labels: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_arrays((images(), np.array(labels)), classes=["a", "b"])


@pytest.mark.parametrize("value", [-1, 0.5, np.nan])
def test_labels_that_are_no_class_are_named(value: float) -> None:
    labels = np.array([0, 1, 2, value, 1, 2])
    with pytest.raises(DataError, match=r"whole numbers from 0: row 3 of `labels` has .*regress"):
        read_arrays((images(), labels))


def test_one_hot_labels_are_told_what_to_do() -> None:
    with pytest.raises(DataError, match=r"`labels` must be one class .*\(6, 3\)\. Turn one-hot"):
        read_arrays((images(), np.eye(3)[LABELS]))


def test_labels_of_another_kind_are_refused() -> None:
    with pytest.raises(DataError, match="Class labels must be numbers or strings: got complex128"):
        read_arrays((images(), LABELS.astype(complex)))


@pytest.mark.parametrize("labels", [[0, 1], 3])
def test_labels_must_be_as_many_as_images(labels: Any) -> None:
    with pytest.raises(DataError, match=r"`labels` must have one entry per image: .* for 6 im"):
        read_arrays((images(), labels))


def test_one_class_is_not_enough() -> None:
    with pytest.raises(DataError, match=r"at least two classes: got 1 \('4'\)"):
        read_arrays((images(), [4] * 6))


@pytest.mark.parametrize(
    "names",
    [
        ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test"),
        ("X_train", "Y_train", "X_valid", "Y_valid", "X_test", "Y_test"),
        ("train_images", "train_labels", "val_images", "val_labels", "test_images", "test_labels"),
        (
            "images",
            "labels",
            "images_validation",
            "labels_validation",
            "images_test",
            "labels_test",
        ),
    ],
)
def test_parts_go_by_many_names(tmp_path: Path, names: tuple[str, ...]) -> None:
    arrays = [images(), LABELS, images(4, seed=1), LABELS[:4], images(2, seed=2), LABELS[:2]]
    named: dict[str, Any] = dict(zip(names, arrays, strict=True))
    np.savez(tmp_path / "a.npz", extra=np.zeros(3), **named)
    parts = read_arrays(tmp_path / "a.npz")
    assert {name: len(part) for name, part in parts.items()} == {
        "train": 6,
        "validation": 4,
        "test": 2,
    }
    np.testing.assert_array_equal(parts["test"].images, arrays[4])
    assert parts["test"].classes == ("0", "1", "2")


def test_a_class_only_in_the_test_set_is_named() -> None:
    arrays = {"x_train": images(2), "y_train": [0, 1], "x_test": images(2), "y_test": [0, 9]}
    with pytest.raises(DataError, match="Every class must have training images: '9' has none"):
        read_arrays(arrays)


def test_parts_must_have_one_shape() -> None:
    small = images(2, shape=(4, 4, 3))
    arrays = {"x_train": images(2), "y_train": [0, 1], "x_test": small, "y_test": [0, 1]}
    with pytest.raises(DataError, match=r"one shape: `x_test` has .*\(4, 4, 3\), and `x_train`"):
        read_arrays(arrays)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["a", "b"], "`source` must have images and targets, .*: got a, b. Rename"),
        (["x"], "got x, where x stands alone"),
        (["x_train", "y_train", "y_test"], "where y_test stands alone"),
        ([], "got nothing"),
    ],
)
def test_arrays_without_a_known_name_are_listed(keys: list[str], message: str) -> None:
    arrays = {key: LABELS if key.startswith("y") else images() for key in keys}
    with pytest.raises(ArgumentError, match=message):
        read_arrays(arrays)


def test_regression_targets_are_numbers() -> None:
    one = read_arrays((images(2), [0.5, -1]), task="regression")["all"]
    assert one.classes == ()
    torch.testing.assert_close(one.targets, torch.tensor([0.5, -1.0]))
    two = read_arrays((images(2), [[1, 2], [3, 4]]), task="regression")["all"]
    torch.testing.assert_close(two.targets, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))


def test_regression_targets_must_be_finite_numbers() -> None:
    with pytest.raises(DataError, match="must be finite: row 1 of `labels` has nan"):
        read_arrays((images(2), [0.5, np.nan]), task="regression")
    with pytest.raises(DataError, match=r"must be numbers \(N,\) or \(N, D\): got <U1"):
        read_arrays((images(2), ["a", "b"]), task="regression")


@pytest.mark.parametrize(
    ("first", "second"),
    [("x.npy", "y.npy"), ("images.npy", "labels.npy"), ("x_train.npy", "y_train.npy")],
)
def test_targets_are_found_beside_an_npy_file(tmp_path: Path, first: str, second: str) -> None:
    np.save(tmp_path / first, images())
    np.save(tmp_path / second, LABELS)
    data = read_arrays(tmp_path / first)["all"]
    assert data.targets.tolist() == LABELS.tolist()
    assert isinstance(data.images, np.memmap)


def test_a_pair_of_files_needs_no_names(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", images())
    np.save(tmp_path / "two.npy", LABELS)
    assert len(read_arrays((tmp_path / "one.npy", str(tmp_path / "two.npy")))["all"]) == 6


def test_an_npy_file_without_targets_is_told_what_to_do(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images())
    with pytest.raises(ArgumentError, match=r"no file of labels beside '.*x\.npy'\. Name them"):
        read_arrays(tmp_path / "x.npy")


@pytest.mark.parametrize("ending", [".npz", ".npy"])
def test_pickled_objects_are_never_loaded(tmp_path: Path, ending: str) -> None:
    labels = np.array(["a", None], dtype=object)
    if ending == ".npz":
        np.savez(tmp_path / "x.npz", x=images(2), y=labels)
    else:
        np.save(tmp_path / "x.npy", images(2))
        np.save(tmp_path / "y.npy", labels)
    with pytest.raises(DataError, match="must hold plain arrays: got pickled Python objects"):
        read_arrays(tmp_path / f"x{ending}")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 half an archive"])
def test_what_is_no_numpy_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npz' must be a NumPy file: it cannot be read"):
        read_arrays(tmp_path / "a.npz")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=images(), y=LABELS)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[200:400] = bytes(200)
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.npz' must be a NumPy file: it cannot be read as one"):
        read_arrays(tmp_path / "a.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a file that exists: there is no '.*none\.npz'"):
        read_arrays(tmp_path / "none.npz")


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ArgumentError, match=r"`source` must be an \.npz or \.npy file.*data\.mat'"
    ):
        read_arrays(tmp_path / "data.mat")


def test_unknown_tasks_are_refused() -> None:
    with unhooked(), pytest.raises(UnknownNameError, match="no task called 'classify'"):
        read_arrays((images(), LABELS), task="classify")  # type: ignore[arg-type]


def test_the_fingerprint_follows_pixels_and_targets() -> None:
    first = read_arrays((images(), LABELS))["all"].fingerprint
    assert read_arrays((images() / 255, LABELS))["all"].fingerprint == first
    changed = images()
    changed[5, 7, 7, 2] ^= 1
    prints = {
        first,
        read_arrays((changed, LABELS))["all"].fingerprint,
        read_arrays((images(), LABELS[::-1].copy()))["all"].fingerprint,
    }
    assert len(prints) == 3
