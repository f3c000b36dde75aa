"""Spearman's ρ against naive ranking; its interval against resampling pair by pair."""

from math import sqrt

import pytest
import torch
from torch import Generator, Tensor

from instaaug.errors import ShapeError
from instaaug.report.objects.correlation import _correlations, rank_correlation


def naive_ranks(values: list[float]) -> list[float]:
    """One more than the number of smaller values, and half of the other equal ones."""
    return [1 + sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]


def naive(x: Tensor, y: Tensor) -> float:
    ranks = [torch.tensor(naive_ranks(v.tolist()), dtype=torch.float64) for v in (x, y)]
    return float(torch.corrcoef(torch.stack(ranks))[0, 1])


def pairs(n: int, generator: Generator) -> tuple[Tensor, Tensor]:
    x, noise = torch.randn(2, n, generator=generator, dtype=torch.float64)
    return x, (x + noise)


@pytest.mark.parametrize("decimals", [3, 0])  # few ties, and many
def test_it_is_the_correlation_of_ranks(decimals: int, generator: Generator) -> None:
    x, y = (v.round(decimals=decimals) for v in pairs(60, generator))
    value = rank_correlation(x, y).value
    assert value == pytest.approx(naive(x, y), abs=1e-9)


def test_a_resample_is_ranked_like_what_it_holds(generator: Generator) -> None:
    x, y = (v.round(decimals=1) for v in pairs(30, generator))
    groups = [v.unique(return_inverse=True)[1] for v in (x, y)]
    drawn = torch.randint(30, (8, 30), generator=generator)
    counts = torch.stack([row.bincount(minlength=30) for row in drawn]).double()
    expected = [naive(x[row], y[row]) for row in drawn]
    torch.testing.assert_close(
        _correlations(groups, counts), torch.tensor(expected, dtype=torch.float64)
    )


def test_the_interval_is_as_wide_as_theory_says(generator: Generator) -> None:
    """Of Fisher's z: √(1 + ρ²/2) / √(n - 3), by Bonett and Wright; the bootstrap is near to it."""
    x, y = pairs(500, generator)
    found = rank_correlation(x, y)
    assert found.value is not None
    assert found.interval is not None
    low, high = torch.tensor(found.interval, dtype=torch.float64).atanh().tolist()
    error = sqrt((1 + found.value**2 / 2) / (len(x) - 3))
    assert (high - low) / (2 * 1.96 * error) == pytest.approx(1.0, abs=0.15)
    assert found.interval[0] < found.value < found.interval[1]
    assert rank_correlation(x, y) == found
    assert rank_correlation(x, y, seed=1).interval != found.interval


def test_parts_make_no_difference_to_the_value(
    monkeypatch: pytest.MonkeyPatch, generator: Generator
) -> None:
    x, y = pairs(40, generator)
    whole = rank_correlation(x, -y)
    monkeypatch.setattr("instaaug.report.objects.correlation.AT_ONCE", 40 * 300)
    parts = rank_correlation(x, -y)
    assert whole.value == parts.value
    assert whole.interval is not None
    assert parts.interval is not None
    assert parts.interval == pytest.approx(whole.interval, abs=0.1)
    assert parts.interval[1] < 0


def test_what_never_changes_has_no_correlation(generator: Generator) -> None:
    x, _ = pairs(10, generator)
    noise = 0.5 + 1e-9 * x  # what rounding leaves of a constant
    assert rank_correlation(x, noise).value is None
    assert rank_correlation(noise, x).interval is None


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ShapeError, match="must be of the same images, at least 3: got 3 and 4"):
        rank_correlation(torch.zeros(3), torch.zeros(4))
    with pytest.raises(ShapeError, match="got 2 and 2"):
        rank_correlation(torch.zeros(2), torch.zeros(2))
