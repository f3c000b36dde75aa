"""Splits: disjoint, complete, stratified, and the same everywhere."""

import random
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from instaaug.data.labeled import LabeledImages
from instaaug.data.splits import DataSplits, SplitBy, deal_folds, split, split_off_validation
from instaaug.errors import ArgumentError, DataError, UnknownNameError
from tests.support.unhooked import unhooked


def labeled(counts: list[int]) -> LabeledImages:
    """So many images of each class, the classes mixed."""
    labels = np.repeat(np.arange(len(counts)), counts)
    np.random.default_rng(0).shuffle(labels)
    n = len(labels)
    return LabeledImages(
        np.arange(n, dtype=np.uint8).reshape(n, 1, 1, 1),
        torch.from_numpy(labels),
        classes=tuple(f"class {c}" for c in range(len(counts))),
        fingerprint="print",
    )


def numbers(n: int) -> LabeledImages:
    return LabeledImages(np.zeros((n, 1, 1, 1), dtype=np.uint8), torch.arange(n) / 7)


def rows(part: LabeledImages | None) -> list[int]:
    return [] if part is None or part.rows is None else part.rows.tolist()


def all_rows(splits: DataSplits) -> list[int]:
    return [*rows(splits.train), *rows(splits.validation), *rows(splits.test)]


def count(part: LabeledImages, num_classes: int) -> np.ndarray:
    return torch.bincount(part.targets, minlength=num_classes).numpy()


COUNTS = st.lists(st.integers(1, 30), min_size=1, max_size=6).filter(lambda c: sum(c) >= 20)


@settings(max_examples=25, deadline=None)
@given(counts=COUNTS, seed=st.integers(0, 2**40), by=st.sampled_from(get_args(SplitBy)))
def test_parts_are_disjoint_and_complete(counts: list[int], seed: int, by: SplitBy) -> None:
    data = labeled(counts)
    try:
        splits = split(data, test_fraction=0.3, validation_fraction=0.2, seed=seed, by=by)
    except DataError:
        assert max(counts) <= 2  # nothing but single images, which stay for training
        return
    assert sorted(all_rows(splits)) == list(range(len(data)))
    assert (count(splits.train, len(counts)) >= 1).all()


@settings(max_examples=25, deadline=None)
@given(counts=COUNTS, seed=st.integers(0, 1000), fraction=st.floats(0.1, 0.8))
def test_every_class_gives_its_share_within_one_image(
    counts: list[int], seed: int, fraction: float
) -> None:
    data = labeled(counts)
    if all(c == 1 for c in counts):
        return
    splits = split(data, test_fraction=fraction, seed=seed)
    share = count(splits.test, len(counts))
    assert (np.abs(share - fraction * np.array(counts)) < 1 + 1e-9).all()


def test_small_classes_together_give_the_whole_share() -> None:
    """A tenth of three images is none, but a tenth of three hundred is thirty."""
    splits = split(labeled([3] * 100), test_fraction=0.1)
    assert len(splits.test) == 30


@pytest.mark.parametrize("by", get_args(SplitBy))
def test_the_same_seed_gives_the_same_split(by: SplitBy) -> None:
    data = labeled([20, 30])

    def make(seed: int) -> DataSplits:
        torch.manual_seed(random.randrange(1000))  # noqa: S311 the global state has no say
        np.random.seed(random.randrange(1000))  # noqa: S311, NPY002
        return split(data, validation_fraction=0.1, seed=seed, by=by)

    assert make(3).hash == make(3).hash
    assert all_rows(make(3)) == all_rows(make(3))
    assert make(3).hash != make(4).hash


def test_a_split_is_the_same_on_every_machine() -> None:
    """PCG64's doubles are fixed by its definition, and so is the split; a change is a break."""
    draws = np.random.Generator(np.random.PCG64(0)).random(11)
    order = np.argsort(draws[1:], kind="stable")  # the first draw breaks ties among classes
    splits = split(numbers(10), test_fraction=0.2, seed=0)
    expected = np.random.Generator(np.random.PCG64(0))
    expected.random(2)  # lots for the test share and the validation share of the only class
    order = np.argsort(expected.random(10), kind="stable")
    assert rows(splits.test) == sorted(order[:2].tolist())


def test_the_hash_is_short_and_follows_every_part() -> None:
    data = labeled([6, 6])
    splits = split(data, test_fraction=0.25, validation_fraction=0.25)
    assert len(splits.hash) == 16
    int(splits.hash, 16)
    assert splits.validation is not None
    others = [
        DataSplits(splits.train, splits.test, splits.validation),
        DataSplits(splits.train, None, splits.test),
        DataSplits(splits.train.subset([0, 1]), splits.validation, splits.test),
        split(labeled([6, 6, 1]).subset(range(12)), test_fraction=0.25, validation_fraction=0.25),
    ]
    assert len({splits.hash, *(other.hash for other in others)}) == 5
    assert DataSplits(splits.train, splits.validation, splits.test, name="x").hash == splits.hash


def test_the_hash_follows_the_fingerprint() -> None:
    data = labeled([6, 6])
    other = LabeledImages(data.images, data.targets, data.classes, fingerprint="another")
    assert split(data).hash != split(other).hash


def test_blocks_are_neighbors_in_natural_order() -> None:
    """Hundred images of one object each ten: a part has whole objects only."""
    n = 100
    data = LabeledImages(
        np.zeros((2 * n, 1, 1, 1), dtype=np.uint8),
        torch.arange(2 * n) % 2,
        classes=("a", "b"),
        names=tuple(f"{i // 2}.png" for i in range(2 * n)),
    )
    splits = split(data, test_fraction=0.2, validation_fraction=0.1, seed=5, by="block")
    assert splits.validation is not None
    for label in (0, 1):
        objects = [
            {row // 2 // 10 for row in rows(part) if row % 2 == label}
            for part in (splits.train, splits.validation, splits.test)
        ]
        assert [len(group) for group in objects] == [7, 1, 2]
        assert not objects[0] & objects[1] | objects[0] & objects[2] | objects[1] & objects[2]
        first, second = sorted(objects[2])
        assert second - first in (1, 9)  # next to one another, the last next to the first


def test_blocks_of_a_small_class_are_single_images() -> None:
    splits = split(labeled([3, 2]), test_fraction=0.2, by="block")
    assert count(splits.test, 2).tolist() == [1, 1]


def scenes(n_scenes: int, n_photos: int, n_classes: int = 1) -> LabeledImages:
    """Photos of scenes, in turn: each scene has its own colors, each photo its own noise."""
    generator = np.random.default_rng(0)
    colors = np.stack(np.unravel_index(generator.permutation(64), (4, 4, 4)), axis=-1)
    walls = 32 + 64 * colors[: n_classes * n_scenes, None, None, None]
    noise = generator.integers(-3, 4, (n_classes * n_scenes, n_photos, 8, 8, 3))
    shape = (n_classes, n_scenes, n_photos, 8, 8, 3)
    pixels = (walls + noise).astype(np.uint8).reshape(shape).swapaxes(1, 2)
    return LabeledImages(
        pixels.reshape(-1, 8, 8, 3),
        torch.arange(n_classes).repeat_interleave(n_scenes * n_photos),
        classes=tuple(f"class {c}" for c in range(n_classes)),
    )


def scenes_of(part: LabeledImages | None, n_scenes: int, n_photos: int) -> set[tuple[int, int]]:
    """Class and number of each scene that a part has photos of."""
    return {(row // (n_scenes * n_photos), row % n_scenes) for row in rows(part)}


@pytest.mark.parametrize("seed", range(3))
def test_photos_of_one_scene_are_on_one_side(seed: int) -> None:
    data = scenes(n_scenes=10, n_photos=6, n_classes=3)
    splits = split(data, test_fraction=0.2, validation_fraction=0.1, seed=seed, by="similar")
    parts = (splits.train, splits.validation, splits.test)
    in_parts = [scenes_of(part, 10, 6) for part in parts]
    assert [len(some) for some in in_parts] == [21, 3, 6]
    assert len(set.union(*in_parts)) == 30
    assert splits.validation is not None
    assert count(splits.validation, 3).tolist() == [6, 6, 6]


def test_scenes_of_small_classes_are_kept_together_too() -> None:
    data = scenes(n_scenes=3, n_photos=3, n_classes=4)
    splits = split(data, test_fraction=0.1, seed=1, by="similar")
    assert not scenes_of(splits.train, 3, 3) & scenes_of(splits.test, 3, 3)


@pytest.mark.parametrize(("fraction", "n_folds"), [(0.1, 10), (0.2, 5), (0.25, 4), (0.5, 2)])
def test_similar_images_make_folds_of_about_one_size(fraction: float, n_folds: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (600, 4, 4, 3)).astype(np.uint8)
    data = LabeledImages(pixels, torch.arange(600) % 10, classes=tuple("abcdefghij"))
    folds = deal_folds(data, fraction, n_folds, by="similar")
    assert len(np.unique(np.concatenate(folds))) == sum(map(len, folds))
    assert min(map(len, folds)) > 0.4 * fraction * 600


def test_images_that_colors_do_not_tell_apart_are_split_one_by_one() -> None:
    data = LabeledImages(np.zeros((20, 4, 4, 3), dtype=np.uint8), torch.arange(20) % 2, ("a", "b"))
    assert len(split(data, test_fraction=0.2, by="similar").test) == 4


def test_clusters_of_any_size_give_about_their_share() -> None:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (400, 4, 4, 3)).astype(np.uint8)
    data = LabeledImages(pixels, torch.arange(400) % 4, classes=tuple("abcd"))
    shares = [len(split(data, seed=seed, by="similar").test) / 400 for seed in range(8)]
    assert all(0.1 < share < 0.3 for share in shares)
    assert len(set(shares)) > 1
    assert 0.8 < len(split(data, test_fraction=0.9, by="similar").test) / 400 < 0.97


@pytest.mark.parametrize("by", get_args(SplitBy))
def test_a_class_of_one_image_stays_for_training(by: SplitBy) -> None:
    splits = split(labeled([1, 20]), test_fraction=0.5, by=by)
    assert count(splits.test, 2)[0] == 0


def test_regression_data_are_split_as_one_class() -> None:
    splits = split(numbers(50), test_fraction=0.2, validation_fraction=0.1)
    assert [len(part) for part in (splits.train, splits.test)] == [35, 10]
    assert splits.validation is not None
    assert len(splits.validation) == 5


def test_a_subset_can_be_split_again() -> None:
    data = labeled([20, 20]).subset(range(10, 40))
    assert set(all_rows(split(data))) == set(range(10, 40))


def test_without_a_fraction_there_is_no_part() -> None:
    splits = split(labeled([4, 4]), test_fraction=0.0)
    assert splits.validation is None
    assert len(splits.test) == 0
    assert len(splits.train) == 8


def test_validation_is_carved_from_training_images() -> None:
    given_splits = split(labeled([20, 20]), test_fraction=0.25, name="squares")
    carved = split_off_validation(given_splits, fraction=0.2, seed=1)
    assert carved.test is given_splits.test
    assert carved.name == "squares"
    assert sorted(all_rows(carved)) == list(range(40))
    assert carved.validation is not None
    assert count(carved.validation, 2).tolist() == [3, 3]


def test_validation_is_not_carved_twice() -> None:
    splits = split(labeled([20, 20]), validation_fraction=0.1)
    with pytest.raises(ArgumentError, match="`splits` must be without validation images: got 4"):
        split_off_validation(splits)


@pytest.mark.parametrize("value", [-0.1, 1.0, 7.0, float("nan")])
@pytest.mark.parametrize("name", ["test_fraction", "validation_fraction"])
def test_fractions_lie_below_one(name: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=rf"`{name}` must lie in \[0, 1\): got {value}"):
        split(labeled([4, 4]), **{name: value})  # type: ignore[arg-type]


def test_fractions_leave_something_for_training() -> None:
    with pytest.raises(ArgumentError, match=r"must leave images for training: they add up to 1\."):
        split(labeled([4, 4]), test_fraction=0.5, validation_fraction=0.5)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ArgumentError, match="`seed` must not be negative: got -1"):
        split(labeled([4, 4]), seed=-1)


def test_an_unknown_way_to_split_is_refused() -> None:
    with (
        unhooked(),
        pytest.raises(UnknownNameError, match=r"called 'blocks'\. Did you mean 'block'"),
    ):
        split(labeled([4, 4]), by="blocks")  # type: ignore[arg-type]


@pytest.mark.parametrize("by", get_args(SplitBy))
def test_too_few_images_for_a_part_are_refused(by: SplitBy) -> None:
    with pytest.raises(DataError, match="must get an image: got none, with 2 images in 2 classes"):
        split(labeled([1, 1]), by=by)


def test_resemblance_is_that_of_validation_images_that_were_split_off() -> None:
    data = scenes(n_scenes=20, n_photos=18, n_classes=3)
    mixed = split(data, test_fraction=0.2, validation_fraction=0.2)
    assert mixed.resemblance == pytest.approx(1.0, abs=0.1)
    apart = split(data, test_fraction=0.2, by="similar")
    assert split_off_validation(apart, fraction=0.2).resemblance < 0.5  # type: ignore[operator]
    assert apart.resemblance is None
    assert DataSplits(apart.train, scenes(4, 60), apart.test).resemblance is None
