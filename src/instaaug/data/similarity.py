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
MOST_COMPARED = 500
CHUNK = 256


def describe_colors(data: LabeledImages) -> Float[np.ndarray, "n 64"]:
    """How much of every color each image has.

    The roots of the shares of 64 colors (four shades of red, green and blue) or of 64 grays, so
    that distances are Hellinger's. Photos of one scene have nearly the same, wherever the camera
    points. No network is needed; where there is one, its features are better.
    """
    found = [torch.zeros(0, N_COLORS)]
    for start in range(0, len(data), CHUNK):
        pixels, _ = data.__getitems__(range(start, min(start + CHUNK, len(data))))
        found.append(_histograms(pixels))
    return torch.cat(found).double().numpy()


def _histograms(pixels: UInt8[Tensor, "n c h w"]) -> Float[Tensor, "n 64"]:
    step = max(1, min(pixels.shape[2:]) // ENOUGH)
    pixels, channels = pixels[:, :, ::step, ::step], pixels.shape[1]
    n_shades = round(N_COLORS ** (1 / channels))
    shades = pixels.flatten(2).long() * n_shades // 256
    colors = (shades * (n_shades ** torch.arange(channels))[:, None]).sum(dim=1)
    counts = torch.zeros(len(pixels), N_COLORS)
    counts.scatter_add_(1, colors, torch.ones_like(colors, dtype=counts.dtype))
    return (counts / colors.shape[1]).sqrt()


def cluster(features: Float[np.ndarray, "n e"], n_clusters: int) -> Int[np.ndarray, " n"]:
    """The cluster of each row, from 0, by Ward's linkage.

    Of thousands of rows, some are clustered, and the others join the cluster with the nearest
    mean. No more rows than clusters are a cluster each.

    Arguments:
        features: One row for each image.
        n_clusters: The most that there can be; equal rows stay together.

    Example:
        >>> cluster(np.array([[0.0], [5.0], [0.1], [5.1]]), 2).tolist()
        [0, 1, 0, 1]
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    if n_clusters >= len(features) or n_clusters < 2:
        return np.arange(len(features)) % max(n_clusters, 1)
    some = features[evenly_spaced_indices(len(features), MOST_CLUSTERED)]
    labels = fcluster(linkage(some, "ward"), n_clusters, "maxclust")
    if len(some) < len(features):
        means = np.stack([some[labels == label].mean(axis=0) for label in np.unique(labels)])
        distances = torch.cdist(torch.from_numpy(features), torch.from_numpy(means))
        labels = distances.argmin(dim=1).numpy()
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]  # in the order of their first rows


def resemblance(known: LabeledImages, held_out: LabeledImages, others: LabeledImages) -> float:
    """How far held-out images are from the nearest known one, as a multiple of how far others are.

    About 1 if they are as new as the others. Well below, many are near copies of known images,
    and what is chosen by them is chosen for copies.

    Arguments:
        known: Training images.
        held_out: Images like them, to choose settings by.
        others: Test images.
    """
    near = _describe_some(known, MOST_CLUSTERED)
    ours, theirs = (
        torch.cdist(_describe_some(part, MOST_COMPARED), near).amin(dim=1).median().item()
        for part in (held_out, others)
    )
    return ours / theirs if theirs > 0 else 1.0


def _describe_some(data: LabeledImages, limit: int) -> Float[Tensor, "n 64"]:
    return torch.from_numpy(describe_colors(data.subset(evenly_spaced_indices(len(data), limit))))
