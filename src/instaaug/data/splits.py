"""Splits into training, validation and test images."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from instaaug.data.labeled import LabeledImages
from instaaug.data.labels import natural_order
from instaaug.data.similarity import cluster, describe_colors, resemblance
from instaaug.errors import ArgumentError, DataError, UnknownNameError

__all__ = ["DataSplits", "SplitBy", "deal_folds", "split", "split_off_validation"]

SplitBy = Literal["random", "block", "similar"]
N_BLOCKS = 10
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class DataSplits:
    """A data set in two or three parts.

    Arguments:
        train: Images to learn from.
        validation: Images to choose settings by; None if there are none.
        test: Images for the final number.
        name: What the data set is called.
    """

    train: LabeledImages
    validation: LabeledImages | None
    test: LabeledImages
    name: str = ""

    @property
    def hash(self) -> str:
        """Sixteen hex digits that change when the images of any part do, or their order."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            if part is None:
                digest.update(b"none;")
                continue
            rows = np.arange(len(part)) if part.rows is None else part.rows
            digest.update(f"{part.fingerprint} {part.image_shape} {len(rows)};".encode())
            digest.update(rows.astype("<i8").tobytes())
            targets = part.targets.numpy()
            digest.update(targets.astype(targets.dtype.newbyteorder("<")).tobytes())
        return digest.hexdigest()[:16]

    @property
    def resemblance(self) -> float | None:
        """How far validation images are from training images, as a multiple of how far others are.

        The others are the test images: :func:`~instaaug.data.similarity.resemblance`. None where
        validation images were not taken from the training images, or images are few.
        """
        if self.validation is None or self.validation.images is not self.train.images:
            return None
        return resemblance(self.train, self.validation, self.test)


def split(
    data: LabeledImages,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    seed: int = 0,
    by: SplitBy = "random",
    name: str = "",
) -> DataSplits:
    """Split images into parts, the same ones for the same seed and pixels.

    ``"random"`` is stratified: each class gives each part its share to within one image, and the
    shares add up to the fraction of the whole. ``"block"`` sorts each class by name, cuts it into
    ten blocks of neighbors and deals out whole blocks, those of a part next to one another:
    where neighboring numbers show the same object, as in texture sets or frames of a video, a
    random split would test on near-duplicates of training images. ``"similar"`` finds such images
    by their colors, whatever they are called: each class is cut into as many clusters as parts of
    the smallest size would fit in, of two images at least on average, and whole clusters are dealt
    out, so that shares are roughly kept. Every class keeps at least one image, block or cluster
    for training. Regression data are one class.

    Arguments:
        data: The images.
        test_fraction: Share of the test set, in [0, 1).
        validation_fraction: Share of the validation set; 0 for none.
        seed: Which of the possible splits.
        by: ``"random"``, ``"block"`` or ``"similar"``.
        name: What the data set is called.

    Raises:
        ArgumentError: If the fractions leave nothing for training.
        DataError: If there are too few images for a part that was asked for.
    """
    _check(seed, by, test_fraction=test_fraction, validation_fraction=validation_fraction)
    test, validation = _deal(data, (test_fraction, validation_fraction), seed, by)
    rest = np.setdiff1d(np.arange(len(data)), np.concatenate([test, validation]))
    return DataSplits(
        train=data.subset(rest),
        validation=data.subset(validation) if validation_fraction else None,
        test=data.subset(test),
        name=name,
    )


def split_off_validation(
    splits: DataSplits, *, fraction: float = 0.1, seed: int = 0, by: SplitBy = "random"
) -> DataSplits:
    """Take validation images from the training images; the test set stays as it is.

    Raises:
        ArgumentError: If there is a validation set already.
    """
    if splits.validation is not None:
        raise ArgumentError(
            "`splits` must be without validation images: got "
            f"{len(splits.validation)} of them. Use these."
        )
    parts = split(splits.train, test_fraction=fraction, seed=seed, by=by)
    return replace(splits, train=parts.train, validation=parts.test)


def deal_folds(
    data: LabeledImages, fraction: float, n_folds: int, *, seed: int = 0, by: SplitBy = "random"
) -> list[np.ndarray]:
    """The indices of some disjoint parts of the images, each with its share of every class.

    Arguments:
        data: The images.
        fraction: Share of the images in each part.
        n_folds: How many parts; one image, block or cluster of a class may be in none of them.
        seed: Which of the possible parts.
        by: As in :func:`split`.
    """
    _check(seed, by, fraction=fraction)
    return _deal(data, (fraction,) * n_folds, seed, by)


def _check(seed: int, by: str, **fractions: float) -> None:
    for name, value in fractions.items():
        if not 0 <= value < 1:
            raise ArgumentError(f"`{name}` must lie in [0, 1): got {value}. A fifth, say, is 0.2.")
    if sum(fractions.values()) >= 1:
        raise ArgumentError(
            f"`test_fraction` and `validation_fraction` must leave images for training: they "
            f"add up to {sum(fractions.values()):g}. Lower one of them."
        )
    if seed < 0:
        raise ArgumentError(f"`seed` must not be negative: got {seed}. Choose 0, 1, 2, …")
    if by not in get_args(SplitBy):
        raise UnknownNameError("way to split `by`", by, get_args(SplitBy))


def _deal(
    data: LabeledImages, fractions: tuple[float, ...], seed: int, by: SplitBy
) -> list[np.ndarray]:
    """The indices of each held-out part, in order."""
    # Only `random` is drawn, whose stream is the same everywhere; `permutation` promises less.
    generator = np.random.Generator(np.random.PCG64(seed))
    groups = _groups(data)
    if by == "block":
        parts = _deal_blocks(data, groups, fractions, generator)
    elif by == "similar":
        parts = _deal_clusters(data, groups, fractions, generator)
    else:
        parts = _deal_images(groups, fractions, generator)
    for fraction, part in zip(fractions, parts, strict=True):
        if fraction > 0 and len(part) == 0:
            raise DataError(
                f"A part of {fraction:g} of the data must get an image: got none, with "
                f"{len(data)} images in {len(groups)} classes. Raise it, or set it to 0."
            )
    return parts


def _groups(data: LabeledImages) -> list[np.ndarray]:
    """The indices of each class that occurs; of everything for regression."""
    if not data.classes:
        return [np.arange(len(data))]
    labels = data.targets.numpy()
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _deal_images(
    groups: list[np.ndarray], fractions: tuple[float, ...], generator: np.random.Generator
) -> list[np.ndarray]:
    sizes = np.array([len(group) for group in groups])
    left = sizes - 1  # one image stays for training
    counts = []
    for fraction in fractions:
        counts.append(_shares(sizes, fraction, left, generator))
        left = left - counts[-1]
    parts: list[list[np.ndarray]] = [[] for _ in fractions]
    for g, group in enumerate(groups):
        shuffled = group[np.argsort(generator.random(len(group)), kind="stable")]
        start = 0
        for part, count in zip(parts, counts, strict=True):
            part.append(shuffled[start : start + count[g]])
            start += count[g]
    return [_join_sorted(part) for part in parts]


def _shares(
    sizes: np.ndarray, fraction: float, most: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """How many images each class gives: rounded down or up, so that the sum is right.

    The classes with the largest remainders round up; equal remainders draw lots.
    """
    exact = fraction * sizes
    counts = np.minimum(np.floor(exact).astype(np.int64), most)
    missing = round(float(exact.sum())) - int(counts.sum())
    lots = generator.random(len(sizes))
    order = np.lexsort((lots, np.floor(exact) - exact))
    willing = [g for g in order if counts[g] < most[g] and counts[g] < exact[g]]
    counts[willing[: max(missing, 0)]] += 1
    return counts


def _deal_blocks(
    data: LabeledImages,
    groups: list[np.ndarray],
    fractions: tuple[float, ...],
    generator: np.random.Generator,
) -> list[np.ndarray]:
    parts: list[list[np.ndarray]] = [[] for _ in fractions]
    for group in groups:
        ordered = np.array(sorted(group, key=lambda i: natural_order(data.name(int(i)))))
        blocks = np.array_split(ordered, min(N_BLOCKS, len(ordered)))
        place = int(generator.random() * len(blocks))
        left = len(blocks) - 1
        for part, fraction in zip(parts, fractions, strict=True):
            wanted = max(1, round(fraction * len(blocks))) if fraction > 0 else 0
            count = min(wanted, left)
            part += [blocks[(place + i) % len(blocks)] for i in range(count)]
            place, left = place + count, left - count
    return [_join_sorted(part) for part in parts]


def _deal_clusters(
    data: LabeledImages,
    groups: list[np.ndarray],
    fractions: tuple[float, ...],
    generator: np.random.Generator,
) -> list[np.ndarray]:
    colors = describe_colors(data)
    parts: list[list[np.ndarray]] = [[] for _ in fractions]
    for group in filter(len, groups):
        labels = cluster(colors[group], _number_of_clusters(len(group), fractions))
        if labels.max() == 0:  # colors do not tell these images apart
            labels = np.arange(len(group))
        _for_training, *lots = np.argsort(generator.random(labels.max() + 1), kind="stable")
        left = [group[labels == lot] for lot in lots]
        for part, fraction in zip(parts, fractions, strict=True):
            taken = _fill([len(cluster) for cluster in left], fraction * len(group))
            part += [left[i] for i in taken]
            left = [cluster for i, cluster in enumerate(left) if i not in taken]
    return [_join_sorted(part) for part in parts]


def _number_of_clusters(n_images: int, fractions: tuple[float, ...]) -> int:
    """As many as the smallest part would fit in, of two images at least, and two for each part."""
    shares = [share for share in (*fractions, 1 - sum(fractions)) if share > ROUNDING]
    n_parts = len(fractions) + 1
    return max(n_parts, min(n_images // 2, max(round(1 / min(shares)), 2 * n_parts)))


def _fill(sizes: list[int], wanted: float) -> list[int]:
    """Those clusters, in order, each of which brings the sum of sizes closer to what is wanted.

    At least the smallest, where anything is wanted.

    Example:
        >>> _fill([5, 9, 2, 1], 6.5), _fill([8, 3], 1.0)
        ([0, 2], [1])
    """
    taken: list[int] = []
    count = 0
    for i, size in enumerate(sizes):
        if abs(count + size - wanted) < abs(count - wanted):
            taken.append(i)
            count += size
    if not taken and sizes and wanted > 0:
        taken.append(int(np.argmin(sizes)))
    return taken


def _join_sorted(pieces: Iterable[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *pieces]))
