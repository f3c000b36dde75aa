"""Which images look alike: photos of one object, one place, one day."""

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from instaaug.data.labeled import LabeledImages, evenly_spaced_indices

__all__ = ["cluster", "describe_colors", "resemblance"]

N_COLORS = 64
ENOUGH = 64  # pixels on a side, to know the colors
MOST_CLUSTERED = 2000  # images; Ward's linkage takes the square of it
FEWEST_COMPARED, MOST_COMPARED = 100, 500
CHUNK = 256


def describe_colors(data: LabeledImages) -> Float[np.ndarray, "n 64"]:
    """How much of every color each image has.

    The roots of the shares of 64 colors (four shades of red, green and blue) or of 64 grays, so
    that distances are Hellinger's. Photos of one scene have nearly the same, wherever the camera
    points. No network is needed; where there is one, its features are better.
    """
    step = max(1, min(data.image_shape[1:]) // ENOUGH)
    pixels = data.images[:, ::step, ::step]
    rows = np.arange(len(data)) if data.rows is None else data.rows
    chunks = [_count_colors(pixels[rows[i : i + CHUNK]]) for i in range(0, len(rows), CHUNK)]
    counts = np.concatenate([np.zeros((0, N_COLORS)), *chunks])
    return np.sqrt(counts / (pixels.shape[1] * pixels.shape[2]))


def _count_colors(pixels: UInt8[np.ndarray, "n h w c"]) -> Float[np.ndarray, "n 64"]:
    """Pixels of each of 64 colors, as the first bits of every channel tell them apart."""
    bits = 6 // pixels.shape[-1]
    colors = np.zeros(pixels.shape[:3], dtype=np.uint8)
    for channel in np.moveaxis(pixels, -1, 0):
        colors = (colors << bits) | (channel >> (8 - bits))
    cells = colors.reshape(len(pixels), -1) + N_COLORS * np.arange(len(pixels))[:, None]
    counts = np.bincount(cells.ravel(), minlength=N_COLORS * len(pixels))
    return counts.reshape(len(pixels), N_COLORS).astype(np.float64)


def cluster(features: Float[np.ndarray, "n e"], n_clusters: int) -> Int[np.ndarray, " n"]:
    """The cluster of each row, from 0, by Ward's linkage.

    Of thousands of rows, some are clustered, and the others join the cluster with the nearest
    mean. Equal rows stay together, so that there may be fewer clusters than were asked for.

    Arguments:
        features: One row for each image.
        n_clusters: The most that there can be.

    Example:
        >>> cluster(np.array([[0.0], [5.0], [0.1], [5.1]]), 2).tolist()
        [0, 1, 0, 1]
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if n_clusters >= len(features):
        _, labels = np.unique(features, axis=0, return_inverse=True)
        return _by_appearance(labels.ravel())
    if n_clusters < 2:
        return np.zeros(len(features), dtype=np.int64)
    some = features[evenly_spaced_indices(len(features), MOST_CLUSTERED)]
    labels = fcluster(linkage(some, "ward"), n_clusters, "maxclust")
    if len(some) < len(features):
        means = np.stack([some[labels == label].mean(axis=0) for label in np.unique(labels)])
        labels = _distances(features, means).argmin(dim=1).numpy()
    return _by_appearance(labels)


def _by_appearance(labels: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The same clusters, numbered in the order of their first rows."""
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]


def resemblance(
    known: LabeledImages, held_out: LabeledImages, others: LabeledImages
) -> float | None:
    """How far held-out images are from the nearest known one, as a multiple of how far others are.

    About 1 if they are as new as the others. Well below, many are near copies of known images,
    and what is chosen by them is chosen for copies. None where images are too few to tell.

    Arguments:
        known: Training images.
        held_out: Images like them, to choose settings by.
        others: Test images.
    """
    if min(len(held_out), len(others)) < FEWEST_COMPARED:
        return None
    near = _describe_some(known, MOST_CLUSTERED)
    ours, theirs = (
        _distances(_describe_some(part, MOST_COMPARED), near).amin(dim=1).median().item()
        for part in (held_out, others)
    )
    return ours / theirs if theirs > 0 else 1.0


def _describe_some(data: LabeledImages, limit: int) -> Float[np.ndarray, "n 64"]:
    return describe_colors(data.subset(evenly_spaced_indices(len(data), limit)))


def _distances(a: Float[np.ndarray, "n e"], b: Float[np.ndarray, "m e"]) -> Float[Tensor, "n m"]:
    """Between all rows; 0 for equal ones, which products of matrices would not give."""
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(torch.from_numpy(a), torch.from_numpy(b), compute_mode=exact)
