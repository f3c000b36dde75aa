"""The uniform distribution on a box: intervals and arcs."""

from math import inf, log, pi

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.distributions import Independent, Uniform

from instaaug.distributions import UniformBox
from instaaug.errors import ShapeError
from tests.support.goodness_of_fit import ERROR_PROBABILITY, uniform_p

FULL_CIRCLE = [(-pi, pi, 2 * pi), (0.1, 0.1 + 2 * pi, 2 * pi), (-0.5, 0.5, 1.0), (-0.3, 0.7, 1.0)]


def box(low: Tensor | list[float], high: Tensor | list[float], *period: float) -> UniformBox:
    circumference = torch.tensor(period) if period else None
    return UniformBox(torch.as_tensor(low), torch.as_tensor(high), circumference)


@pytest.mark.parametrize("dimensions", [1, 2, 6])
@pytest.mark.parametrize("width", [1e-4, 1.0, 1e3])
def test_samples_are_uniform_along_every_axis(
    dimensions: int, width: float, generator: Generator
) -> None:
    low = torch.linspace(-1, 1, dimensions, dtype=torch.float64)
    sample = box(low, low + width).sample((10_000,), generator=generator)
    # Kolmogorov-Smirnov; a right sampler fails each axis with probability 1e-5.
    assert min(uniform_p(u) for u in ((sample - low) / width).T) > ERROR_PROBABILITY


@pytest.mark.parametrize("dimensions", [1, 2, 6])
def test_density_and_entropy_are_those_of_torch(dimensions: int, generator: Generator) -> None:
    low = -torch.rand(3, dimensions, generator=generator)
    high = torch.rand(3, dimensions, generator=generator)
    ours, theirs = box(low, high), Independent(Uniform(low, high), 1)
    sample = ours.sample((10,), generator=generator)
    torch.testing.assert_close(ours.log_prob(sample), theirs.log_prob(sample))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


@pytest.mark.parametrize("period", [None, 2 * pi])
def test_the_density_integrates_to_one_on_a_grid_that_knows_nothing(period: float | None) -> None:
    turn = box([-0.7], [1.9], *([period] if period else []))
    n = 100_000
    x = -3.1 + 2 * pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n  # one turn
    total = turn.log_prob(x[:, None]).exp().sum() * 2 * pi / n
    # The midpoint rule misses at most half a step at each of the two jumps.
    assert float(total) == pytest.approx(1.0, abs=2 * pi / n / 2.6)


@pytest.mark.parametrize("seam", [-2.0, 0.0, 1.0, 5.0, 100.0])
def test_an_arc_has_all_its_mass_in_any_turn_of_the_circle(seam: float) -> None:
    turn = box([-0.7], [1.9], 2 * pi)
    n = 100_000
    x = seam + 2 * pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n
    total = turn.log_prob(x[:, None]).exp().sum() * 2 * pi / n
    assert float(total) == pytest.approx(1.0, abs=2 * pi / n)


@given(u=st.floats(0.001, 0.999), turns=st.integers(-20, 20))
@settings(max_examples=50, deadline=None)
def test_an_angle_has_the_same_density_in_any_guise(u: float, turns: int) -> None:
    turn = box([-1.0, 0.0], [2.0, 1.0], 2 * pi, inf)
    value = torch.tensor([-1.0 + 3.0 * u + 2 * pi * turns, 0.5])
    assert float(turn.log_prob(value)) == pytest.approx(-log(3))


@given(u=st.floats(0.001, 0.999), turns=st.integers(-20, 20))
@settings(max_examples=50, deadline=None)
def test_an_angle_off_the_arc_has_no_density_in_any_guise(u: float, turns: int) -> None:
    turn = box([-1.0], [2.0], 2 * pi)
    value = torch.tensor([2.0 + (2 * pi - 3.0) * u + 2 * pi * turns])
    assert float(turn.log_prob(value)) == -inf


@pytest.mark.parametrize(("low", "high", "period"), FULL_CIRCLE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_full_circle_has_no_gap(
    low: float, high: float, period: float, dtype: torch.dtype
) -> None:
    circle = UniformBox(
        torch.tensor([low], dtype=dtype),
        torch.tensor([high], dtype=dtype),
        torch.tensor([period], dtype=dtype),
    )
    seams = low + period * torch.arange(-20, 21, dtype=dtype)  # where rounding could tear it open
    values = torch.cat([seams, torch.linspace(-50, 50, 10_001, dtype=dtype)])[:, None]
    torch.testing.assert_close(
        circle.log_prob(values), torch.full((len(values),), -log(period), dtype=dtype)
    )


@pytest.mark.parametrize("value", [-1.001, 2.001, -1.0 + 2 * pi, inf, -inf])
def test_values_outside_of_an_interval_have_no_density(value: float) -> None:
    assert float(box([-1.0], [2.0]).log_prob(torch.tensor([value]))) == -inf


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_axis_outside_is_enough(axis: int) -> None:
    cube = box([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    point = torch.full((3,), 0.5).index_fill(0, torch.tensor(axis), 1.5)
    assert float(cube.log_prob(point)) == -inf


def test_the_ends_belong_to_the_interval() -> None:
    ends = torch.tensor([[-1.0], [2.0]])
    torch.testing.assert_close(box([-1.0], [2.0]).log_prob(ends), torch.full((2,), -log(3)))


def test_a_narrow_box_has_an_entropy_below_zero() -> None:
    assert float(box([0.0, 0.0], [0.1, 0.01]).entropy()) == pytest.approx(log(1e-3), rel=1e-5)


@pytest.mark.parametrize("n", [1, 4, 10])
def test_a_spread_on_one_axis_is_the_midpoints_of_n_cells(n: int) -> None:
    expected = (torch.arange(n) + 0.5) / n * 4 - 1
    torch.testing.assert_close(box([-1.0], [3.0]).spread(n).flatten(), expected)


@pytest.mark.parametrize("dimensions", [2, 3, 6])
@pytest.mark.parametrize("n", [5, 10, 50])
def test_a_spread_leaves_no_wide_gap_along_any_axis(dimensions: int, n: int) -> None:
    unit = box(torch.zeros(dimensions), torch.ones(dimensions))
    u = unit.spread(n).sort(dim=0).values
    edges = torch.cat([torch.zeros(1, dimensions), u, torch.ones(1, dimensions)])
    # Even points leave gaps of 1 / n; the widest of the recurrence at 50 points is 4.05 / n.
    assert float(edges.diff(dim=0).max()) <= 4.5 / n


def test_a_spread_in_the_plane_lies_better_than_chance() -> None:
    points = box(torch.zeros(2), torch.ones(2)).spread(16)
    nearest = torch.cdist(points, points).fill_diagonal_(inf).min(dim=1).values
    # Sixteen random points have two within 0.03 of one another, on average; a square lattice 0.25.
    assert float(nearest.min()) > 0.15


@pytest.mark.parametrize(
    ("low", "high"), [((3, 2), (3, 1)), ((2,), (3,)), ((3, 2), (2,))], ids=["d", "d1", "batch"]
)
def test_low_and_high_must_share_a_shape(low: tuple[int, ...], high: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"`low` and `high` must share a shape \(\*batch, D\)"):
        UniformBox(torch.zeros(low), torch.ones(high))
