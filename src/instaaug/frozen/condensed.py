"""A table with the classes that matter; all others are one class, "something else"."""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from instaaug.frozen.table import ViewTable

__all__ = ["N_CANDIDATES", "condensed"]

N_CANDIDATES = 40
ROWS_AT_ONCE = 64


def condensed(table: ViewTable, *, n_candidates: int = N_CANDIDATES) -> ViewTable:
    r"""Keep, for each image, its true class and those that some view takes most seriously.

    The true class comes first, so that every target is 0. All other classes become one, with the
    score :math:`\log \sum_c e^{z_c}` of each view, which is then averaged over views like that of
    any class. By convexity the cross-entropy of the result lies between that of the mean output
    and the mean of those of single views: a view that sees something else altogether is held
    against it, though its vote would be outvoted. φ chooses better views so, and learns many
    times faster.

    Arguments:
        table: Class scores ``(N, K, C)``; one with few classes comes back as it is.
        n_candidates: Classes that are kept apart.

    Example:
        >>> scores = np.zeros((2, 3, 1000), np.float16)
        >>> small = condensed(ViewTable(scores, torch.tensor([7, 999])))
        >>> small.outputs.shape, small.targets
        ((2, 3, 41), tensor([0, 0]))
    """
    if table.outputs.ndim != 3 or table.outputs.shape[2] <= n_candidates + 1:
        return table
    parts = []
    for index in torch.arange(len(table)).split(ROWS_AT_ONCE):
        outputs = table.outputs_of(index)
        classes = _candidates(outputs, table.targets[index], n_candidates)
        parts.append(_gathered(outputs, classes).numpy().astype(table.outputs.dtype))
    return ViewTable(np.concatenate(parts), torch.zeros_like(table.targets), table.seen)


def _candidates(
    outputs: Float[Tensor, "batch k classes"], targets: Int[Tensor, " batch"], n: int
) -> Int[Tensor, "batch n"]:
    largest = outputs.softmax(dim=2).amax(dim=1)
    largest.scatter_(1, targets.long()[:, None], 2.0)  # more than any probability
    return largest.topk(n, dim=1).indices


def _gathered(
    outputs: Float[Tensor, "batch k classes"], classes: Int[Tensor, "batch n"]
) -> Float[Tensor, "batch k n_and_one"]:
    index = classes[:, None].expand(-1, outputs.shape[1], -1)
    rest = outputs.scatter(2, index, -torch.inf).logsumexp(dim=2, keepdim=True)
    return torch.cat([outputs.gather(2, index), rest], dim=2)
