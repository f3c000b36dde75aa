"""Goodness of fit: does what was drawn follow what the density says?"""

import torch
from scipy import stats
from torch import Tensor

__all__ = ["ERROR_PROBABILITY", "chi_square_p", "uniform_p"]

ERROR_PROBABILITY = 1e-5
"""Chance that a right sampler fails a comparison; the seeds of the tests are fixed."""

LEAST_EXPECTED = 5.0  # Pearson's approximation is trusted from here on


def chi_square_p(counts: Tensor, probs: Tensor) -> float:
    """p-value of Pearson's test that ``counts`` were drawn with ``probs``.

    Cells that are expected fewer than five times are pooled. If even the pool is too small for
    Pearson, it is held against the Poisson tail, so that a draw of the impossible is noticed.
    """
    counts, probs = counts.double(), probs.double()
    n = counts.sum()
    expected = probs / probs.sum() * n
    rare = expected < LEAST_EXPECTED
    pool, pool_count = float(expected[rare].sum()), float(counts[rare].sum())
    expected, counts = expected[~rare], counts[~rare]
    p_of_pool = 1.0
    if pool >= LEAST_EXPECTED:
        expected = torch.cat([expected, expected.new_tensor([pool])])
        counts = torch.cat([counts, counts.new_tensor([pool_count])])
    elif pool_count > 0:
        p_of_pool = float(stats.poisson.sf(pool_count - 1, pool))
    if len(expected) < 2:
        return p_of_pool
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return min(p_of_pool, float(stats.chi2.sf(statistic, len(expected) - 1)))


def uniform_p(values: Tensor) -> float:
    """p-value of the Kolmogorov-Smirnov test that ``values`` are uniform on [0, 1]."""
    return float(stats.kstest(values.double().flatten().numpy(), "uniform").pvalue)
