"""Images for a frozen model: their size, their classes, their side of the split."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from instaaug.data import LabeledImages
from instaaug.errors import ArgumentError, DataError
from instaaug.runs.frozen import (
    ModelSource,
    choose_sizes,
    drop_hashes,
    find_class_names,
    find_model,
    image_hashes,
    load_images,
    split_by_hash,
)
from instaaug.runs.settings import TtaSettings
from tests.support.picture_files import class_folders
from tests.support.picture_folders import gray_levels

UNKNOWN = find_model("tests.support.spots:spotter")
SMALL = replace(UNKNOWN, size=20)


def settings(data: str | Path = "photos", **others: Any) -> TtaSettings:
    return TtaSettings.from_mapping(
        {"model": "tests.support.spots:spotter", "data": str(data), **others}
    )


def labeled(n: int, seed: int = 0) -> LabeledImages:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (n, 4, 4, 3), dtype=np.uint8)
    return LabeledImages(pixels, torch.arange(n) % 2, classes=("a", "b"))


# Sizes


@pytest.mark.parametrize(
    ("source", "given", "wanted"),
    [
        (UNKNOWN, {}, (64, 70)),  # the nearest usual size, and no more pixels than there are
        (SMALL, {}, (20, 40)),
        (SMALL, {"size": 50}, (50, 70)),
        (SMALL, {"size": 90}, (90, 90)),
        (SMALL, {"side": 32}, (20, 32)),
    ],
)
def test_files_are_decoded_to_twice_the_size_but_not_enlarged(
    tmp_path: Path, source: ModelSource, given: dict[str, int], wanted: tuple[int, int]
) -> None:
    folder = class_folders(tmp_path / "photos", {"a": 2, "b": 3}, size=(110, 70))
    assert choose_sizes(settings(folder, **given), source) == wanted


def test_arrays_and_named_sets_are_as_they_are_and_tables_name_files() -> None:
    assert choose_sizes(settings("sprites"), SMALL) == (20, None)
    assert choose_sizes(settings("a.npz"), UNKNOWN) == (None, None)
    assert choose_sizes(settings("t.csv"), SMALL) == (20, 40)


def test_arrays_are_loaded_whole(tmp_path: Path) -> None:
    gray_levels(tmp_path / "a.npz", n=21)
    images = load_images(settings(tmp_path / "a.npz"), UNKNOWN, side=None, channels=3)
    assert (len(images), images.image_shape) == (21, (3, 16, 16))


def test_of_data_in_parts_the_test_part_is_taken(tmp_path: Path) -> None:
    class_folders(tmp_path / "train", {"a": 3, "b": 3})
    class_folders(tmp_path / "test", {"a": 1, "b": 1})
    assert len(load_images(settings(tmp_path), UNKNOWN, side=16, channels=3)) == 2


# Classes


def test_classes_come_from_a_file_the_model_or_the_data(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("b\n\n ünï \na\n")
    file = str(tmp_path / "names.txt")
    images, known = labeled(4), replace(UNKNOWN, classes=("b", "a"))
    assert find_class_names(settings(classes=file), known, images) == ("b", "ünï", "a")
    assert find_class_names(settings(), known, images) == ("b", "a")
    assert find_class_names(settings(), UNKNOWN, images) == ("a", "b")


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"a\nb\na\n", "'a' more than once"), (b"\n", "nothing"), (b"\xff\xfe", "not UTF-8")],
)
def test_a_file_of_classes_that_is_none_is_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(ArgumentError, match=f"`classes` must be a .*{words}"):
        find_class_names(settings(classes=str(tmp_path / "names.txt")), UNKNOWN, labeled(4))


# The split


def test_pixels_decide_the_side_wherever_an_image_stands() -> None:
    images = labeled(40)
    splits = split_by_hash(images, settings())
    assert (len(splits.train), len(splits.test)) == (20, 20)
    shuffled = images.subset(np.random.default_rng(1).permutation(40))
    again = split_by_hash(shuffled, settings())
    assert set(image_hashes(again.test)) == set(image_hashes(splits.test))
    assert set(image_hashes(splits.train)) | set(image_hashes(splits.test)) == set(
        image_hashes(images)
    )


def test_the_seed_chooses_the_split() -> None:
    images = labeled(40)
    tests = [split_by_hash(images, settings(seed=seed)).test for seed in (0, 1)]
    assert set(image_hashes(tests[0])) != set(image_hashes(tests[1]))


def test_an_image_that_is_there_twice_is_on_one_side() -> None:
    images = labeled(30)
    doubled = images.subset(list(range(30)) * 3)
    splits = split_by_hash(doubled, settings())
    assert not set(image_hashes(splits.train)) & set(image_hashes(splits.test))
    assert not len(drop_hashes(doubled, image_hashes(images)))


def test_all_may_be_learned_from_and_a_limit_takes_some_of_all() -> None:
    splits = split_by_hash(labeled(40), settings(test_fraction=0.0, limit=10))
    assert (len(splits.train), len(splits.test)) == (10, 0)
    assert splits.train.rows is not None
    assert (splits.train.rows[0], splits.train.rows[-1]) == (0, 39)


@pytest.mark.parametrize(
    ("n", "fraction", "words"),
    [(4, 0.1, "got 4, 0 of them held out"), (3, 0.6, "got 3, 2 of them")],
)
def test_too_few_images_for_a_side_are_an_error(n: int, fraction: float, words: str) -> None:
    with pytest.raises(DataError, match=f"`data` must have .* both sides of the split: {words}"):
        split_by_hash(labeled(n), settings(test_fraction=fraction))
