"""Draws without replacement, mutual information, evenly spread points, generators."""

import math
from itertools import permutations
from typing import Any

import pytest
import torch
from scipy import stats
from scipy.stats import qmc
from torch import Tensor

from instaaug.functional.probability import (
    gumbel_top_k,
    host_generator,
    mutual_information,
    quasi_random,
)
from instaaug.methods.distortions import Distortions
from tests.support.fake_device import DEVICE, DeviceGenerator
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p

PROBS = (0.7, 0.2, 0.07, 0.03)
LOG_PROBS = torch.tensor(PROBS).log()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_draws_follow_sequential_draws_without_replacement(
    n: int, generator: torch.Generator
) -> None:
    # A right sampler fails with probability 1e-4. The official code's exponential noise draws
    # (0.80, 0.136, 0.045, 0.019) and fails for certain.
    n_draws = 20_000
    draws = gumbel_top_k(LOG_PROBS.expand(n_draws, 4), n, generator=generator)
    orders = list(permutations(range(4), n))
    counts = [int((torch.tensor(order) == draws.T).all(dim=1).sum()) for order in orders]
    assert sum(counts) == n_draws
    expected = [n_draws * _probability(order) for order in orders]
    assert stats.chisquare(counts, expected).pvalue > 1e-4


def _probability(order: tuple[int, ...]) -> float:
    """Of drawing this order when each draw is removed and the rest is normalized."""
    left, probability = 1.0, 1.0
    for k in order:
        probability *= PROBS[k] / left
        left -= PROBS[k]
    return probability


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
def test_draws_are_distinct_and_lead_with_the_sample_axis(
    batch: tuple[int, ...], generator: torch.Generator
) -> None:
    log_probs = torch.randn(*batch, 7, generator=generator).log_softmax(-1)
    draws = gumbel_top_k(log_probs, 7, generator=generator)
    assert draws.shape == (7, *batch)
    everything = torch.arange(7).view(7, *[1] * len(batch)).expand(7, *batch)
    assert torch.equal(draws.sort(dim=0).values, everything)


def test_an_impossible_choice_is_drawn_last(generator: torch.Generator) -> None:
    log_probs = torch.tensor([0.5, 0.0, 0.5]).log().expand(200, 3)
    draws = gumbel_top_k(log_probs, 3, generator=generator)
    assert (draws[2] == 1).all()


def test_one_seed_gives_one_draw() -> None:
    draws = [
        gumbel_top_k(LOG_PROBS.expand(50, 4), 2, generator=torch.Generator().manual_seed(seed))
        for seed in (3, 3, 4)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_mutual_information_of_equal_rows_is_zero() -> None:
    assert float(mutual_information(torch.tensor(PROBS).expand(6, 4))) == pytest.approx(
        0.0, abs=1e-6
    )


@pytest.mark.parametrize("k", [2, 5])
def test_mutual_information_of_certain_and_different_choices_is_log_k(k: int) -> None:
    assert float(mutual_information(torch.eye(k))) == pytest.approx(math.log(k))


def test_mutual_information_is_the_mean_divergence_from_the_average(
    generator: torch.Generator,
) -> None:
    probs = torch.randn(9, 5, generator=generator, dtype=torch.float64).softmax(-1)
    average = probs.mean(dim=0)
    divergence = sum(stats.entropy(p, average) for p in probs.numpy()) / 9
    assert float(mutual_information(probs)) == pytest.approx(divergence)


@pytest.mark.parametrize("n", [1, 4, 10])
def test_one_dimension_has_the_midpoints(n: int) -> None:
    points = quasi_random(n, 1, like=torch.zeros(1, dtype=torch.float64))[:, 0]
    assert points.tolist() == pytest.approx([(2 * i + 1) / (2 * n) for i in range(n)])


@pytest.mark.parametrize("dimensions", [1, 2, 3, 6])
@pytest.mark.parametrize("n", [1, 7, 128])
def test_points_lie_in_the_unit_cube(n: int, dimensions: int) -> None:
    points = quasi_random(n, dimensions, like=torch.zeros(1))
    assert points.shape == (n, dimensions)
    assert points.min() >= 0
    assert points.max() < 1


@pytest.mark.parametrize("dimensions", [2, 3, 6])
def test_points_are_spread_more_evenly_than_random_ones(
    dimensions: int, generator: torch.Generator
) -> None:
    even = quasi_random(256, dimensions, like=torch.zeros(1, dtype=torch.float64))
    random = torch.rand(256, dimensions, generator=generator, dtype=torch.float64)
    assert qmc.discrepancy(even.numpy()) < 0.25 * qmc.discrepancy(random.numpy())


@pytest.mark.parametrize("n", [5, 16, 50, 128])
def test_the_golden_coordinate_has_no_wide_gap(n: int) -> None:
    # Three gaps theorem: multiples of the golden ratio leave gaps below 2 / n; random numbers
    # leave one of about log n / n.
    points = quasi_random(n, 2, like=torch.zeros(1, dtype=torch.float64))[:, 1].sort().values
    gaps = torch.cat([points.diff(), 1 - points[-1:] + points[:1]])
    assert gaps.max() <= 2 / n


@pytest.fixture(autouse=True)
def _draws_move_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a real device; on the fake one nothing is drawn."""
    rand = torch.rand

    def moving(*shape: Any, generator: Any = None, device: Any = None, **settings: Any) -> Tensor:
        on_device = rand(*shape, device=device, **settings)
        return on_device if generator is None else rand(*shape, generator=generator).to(on_device)

    monkeypatch.setattr(torch, "rand", moving)


def device_generator(seed: int = 0) -> DeviceGenerator:
    generator = DeviceGenerator()
    generator.manual_seed(seed)
    return generator


def drawn(generator: torch.Generator | None) -> float:
    return float(torch.rand((), generator=host_generator(generator)))


def test_randomness_of_the_host_is_used_as_it_is() -> None:
    generator = torch.Generator().manual_seed(0)
    assert host_generator(generator) is generator
    assert host_generator(None) is None


def test_a_device_gives_a_generator_of_the_host() -> None:
    generator = host_generator(device_generator())
    assert generator is not None
    assert generator.device.type == "cpu"


def test_the_same_state_gives_the_same_numbers() -> None:
    first, second = device_generator(), device_generator()
    assert [drawn(first) for _ in range(3)] == [drawn(second) for _ in range(3)]
    state = first.get_state()
    expected = drawn(first)
    torch.manual_seed(1)  # the global randomness must not matter
    first.set_state(state)
    assert drawn(first) == expected


def test_calls_and_seeds_give_different_numbers() -> None:
    generator = device_generator()
    numbers = [drawn(generator) for _ in range(50)]
    numbers += [drawn(device_generator(seed)) for seed in range(1, 50)]
    assert len(set(numbers)) == 99


def test_a_device_draws_all_orders_of_the_jitter_equally_often() -> None:
    """Pearson's test on 24 orders; a right sampler fails with ERROR_PROBABILITY."""
    generator, counts = device_generator(), dict[tuple[str, ...], int]()
    x, distortions = torch.empty(1, 3, 1, 1, device=DEVICE), Distortions()
    for _ in range(720):
        order = tuple(distortions.draw(x, generator).amounts)
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    p = chi_square_p(torch.tensor(list(counts.values())), torch.ones(24) / 24)
    assert p > ERROR_PROBABILITY
