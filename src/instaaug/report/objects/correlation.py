"""Spearman's rank correlation, with an interval from the bootstrap."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from instaaug.errors import ShapeError

__all__ = ["RankCorrelation", "rank_correlation"]

N_RESAMPLES = 2000
AT_ONCE = 2_000_000  # numbers in memory
CONFIDENCE = 0.95
DIGITS = 6  # values that agree in so many decimals are equal, or rounding would be ranked
FEWEST = 3


@dataclass(frozen=True)
class RankCorrelation:
    """Whether two things grow together.

    Arguments:
        value: Spearman's ρ; None if one of the two never changes.
        interval: Of 95 %, by the percentiles of the bootstrap.
    """

    value: float | None
    interval: tuple[float, float] | None


def rank_correlation(
    x: Float[Tensor, " n"], y: Float[Tensor, " m"], *, seed: int = 0
) -> RankCorrelation:
    """Spearman's ρ: Pearson's correlation of ranks, equal values having their mean rank.

    Resamples are drawn as counts of each pair, and ranked by adding these up.

    Arguments:
        x: A number per image.
        y: Another, in the same order.
        seed: Decides the resamples.

    Example:
        >>> rank_correlation(
        ...     torch.tensor([1.0, 2.0, 3.0, 9.0]), torch.tensor([0.1, 0.2, 0.4, 0.3])
        ... )
        RankCorrelation(value=0.8, interval=(..., 1.0))
    """
    n = len(x)
    if n != len(y) or n < FEWEST:
        raise ShapeError(
            f"`x` and `y` must be of the same images, at least {FEWEST}: got {n} and {len(y)}."
        )
    groups = [v.double().round(decimals=DIGITS).unique(return_inverse=True)[1] for v in (x, y)]
    if min(int(group.max()) for group in groups) == 0:
        return RankCorrelation(None, None)
    generator = Generator().manual_seed(seed)
    found = []
    step = max(1, AT_ONCE // n)
    for start in range(0, N_RESAMPLES, step):
        rows = min(step, N_RESAMPLES - start)
        drawn = torch.randint(n, (rows, n), generator=generator)
        ones = torch.ones_like(drawn, dtype=torch.float64)
        counts = torch.zeros(rows, n, dtype=torch.float64).scatter_add_(1, drawn, ones)
        found.append(_correlations(groups, counts))
    resampled = torch.cat(found)
    resampled = resampled[resampled.isfinite()]  # all but those in which one thing never changes
    tails = torch.tensor([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], dtype=torch.float64)
    low, high = (round(v, 12) for v in resampled.quantile(tails).tolist())
    value = _correlations(groups, torch.ones(1, n, dtype=torch.float64))
    return RankCorrelation(round(float(value), 12), (low, high))


def _correlations(
    groups: list[Int[Tensor, " n"]], counts: Float[Tensor, "b n"]
) -> Float[Tensor, " b"]:
    """ρ of every resample; NaN where one of the two never changes."""
    a, b = (_centered_ranks(group, counts) for group in groups)
    both, of_a, of_b = ((counts * u * v).sum(dim=1) for u, v in ((a, b), (a, a), (b, b)))
    return both / (of_a * of_b).sqrt()


def _centered_ranks(group: Int[Tensor, " n"], counts: Float[Tensor, "b n"]) -> Tensor:
    """The mean rank of each value among what was drawn, less the mean of all."""
    sizes = counts.new_zeros(len(counts), int(group.max()) + 1).index_add(1, group, counts)
    ranks = sizes.cumsum(dim=1) - sizes / 2 + 0.5
    return ranks[:, group] - (counts.sum(dim=1, keepdim=True) + 1) / 2
