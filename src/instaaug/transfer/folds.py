"""Folds for cross-fitting that keep similar images together."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from instaaug.data.similarity import cluster

__all__ = ["similar_folds"]


def similar_folds(
    features: Float[Tensor, "n e"], targets: Int[Tensor, " n"], n_folds: int
) -> Int[Tensor, " n"]:
    """The fold of each image: every class is cut into clusters, and these are dealt out.

    Photos of a folder are rarely independent: several show one object, one place, one day. If they
    fell into different folds, a head would be judged on copies of what it has learned from, and
    all that is chosen by cross-validation would be chosen for copies. So the images of a class are
    clustered by their features (Ward's linkage of unit vectors) into as many clusters as there are
    folds, and the largest cluster goes to the fold that has the fewest images of the class.

    Of a class with fewer images than folds, every image is a cluster.

    Arguments:
        features: Of the whole images.
        targets: Their classes.
        n_folds: How many folds there will be.

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]])
        >>> folds = similar_folds(x, torch.zeros(4, dtype=torch.long), 2)
        >>> bool(folds[0] == folds[2]), bool(folds[1] == folds[3])
        (True, True)
    """
    units = F.normalize(features.float(), dim=1)
    folds = torch.zeros(len(targets), dtype=torch.long)
    n_in_fold = np.zeros(n_folds)
    for label in targets.unique():
        rows = (targets == label).nonzero()[:, 0]
        clusters = cluster(units[rows].double().numpy(), n_folds)
        sizes, n_of_class = np.bincount(clusters), np.zeros(n_folds)
        for number in np.argsort(-sizes, kind="stable"):
            fold = int(np.lexsort((n_in_fold, n_of_class))[0])
            n_of_class[fold] += sizes[number]
            folds[rows[torch.from_numpy(clusters == number)]] = fold
        n_in_fold += n_of_class
    return folds
