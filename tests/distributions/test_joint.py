"""The product of independent factors, and the list of all their combinations."""

from math import log

import pytest
import torch
from torch import Generator, Tensor

from instaaug.distributions import (
    CategoricalTheta,
    JitteredBoxes,
    Joint,
    UniformBox,
    enumerate_choices,
)
from instaaug.errors import ArgumentError
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p

Shape = tuple[int, ...]
each_batch_shape = pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)], ids=str)


def joint_of(batch_shape: Shape = ()) -> Joint:
    """A turn on an interval of width 4, a flip with p = (3/4, 1/4), one of two jittered boxes."""
    turn = UniformBox(torch.full((*batch_shape, 1), -1.0), torch.full((*batch_shape, 1), 3.0))
    logits = torch.tensor([3.0, 1.0]).log().expand(*batch_shape, 2)
    flip = CategoricalTheta(logits, torch.tensor([[1.0], [-1.0]]))
    boxes = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0]])
    limits = torch.ones(2, 2)
    crop = JitteredBoxes(torch.zeros(*batch_shape, 2), boxes, torch.full((2, 2), 0.5), limits)
    return Joint({"turn": turn, "flip": flip, "crop": crop})


@each_batch_shape
def test_a_sample_has_an_entry_per_factor(batch_shape: Shape) -> None:
    joint = joint_of(batch_shape)
    assert joint.batch_shape == batch_shape
    for samples in (joint.sample((5,)), joint.draw(5), joint.spread(5)):
        assert [s.shape for s in samples] == [
            (5, *batch_shape, 1),
            (5, *batch_shape),
            (5, *batch_shape, 3),
        ]
        assert joint.theta(samples).shape == (5, *batch_shape, 6)
        assert joint.log_prob(samples).shape == (5, *batch_shape)


@each_batch_shape
def test_log_probabilities_and_entropies_add_up(batch_shape: Shape) -> None:
    joint = joint_of(batch_shape)
    samples = joint.sample((7,))
    parts = joint.log_probs(samples)
    assert list(parts) == ["turn", "flip", "crop"]
    total = parts["turn"] + parts["flip"] + parts["crop"]
    torch.testing.assert_close(joint.log_prob(samples), total)
    flip_entropy = -0.75 * log(0.75) - 0.25 * log(0.25)
    expected = torch.tensor([log(4), flip_entropy, log(2)]).expand(*batch_shape, 3)
    torch.testing.assert_close(joint.entropies(), expected)
    torch.testing.assert_close(joint.entropy(), expected.sum(dim=-1))


def test_entropy_is_the_mean_of_minus_log_prob(generator: Generator) -> None:
    joint = joint_of()
    surprise = -joint.log_prob(joint.sample((20_000,), generator=generator))
    # Five standard errors: a right entropy fails with probability 6e-7.
    assert (surprise.mean() - joint.entropy()).abs() < 5 * surprise.std() / 20_000**0.5


@pytest.mark.parametrize("way", ["sample", "draw"])
def test_factors_are_drawn_independently(way: str, generator: Generator) -> None:
    joint = joint_of()
    n = 20_000
    samples = (
        joint.sample((n,), generator=generator)
        if way == "sample"
        else joint.draw(n, generator=generator)
    )
    turn, flip, crop = samples
    quarter = (turn[:, 0] + 1).long().clamp(0, 3)
    side = (crop[:, 1] > 0).long()
    cell = ((quarter * 2 + flip) * 2 + crop[:, 0].long()) * 2 + side
    quarters, sides = torch.full((4, 1, 1, 1), 0.25), torch.full((2,), 0.5)
    flips = torch.tensor([0.75, 0.25]).view(2, 1, 1)
    probs = (quarters * flips * 0.5 * sides).expand(4, 2, 2, 2).flatten()
    # A right sampler fails with probability 1e-5.
    assert chi_square_p(torch.bincount(cell, minlength=32), probs) > ERROR_PROBABILITY


def test_a_seeded_generator_repeats_and_leaves_the_global_one_alone() -> None:
    joint = joint_of((3,))
    before = torch.get_rng_state()
    first = joint.draw(9, replace=False, generator=Generator().manual_seed(1))
    again = joint.draw(9, replace=False, generator=Generator().manual_seed(1))
    other = joint.draw(9, replace=False, generator=Generator().manual_seed(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_draws_carry_the_gradient_where_there_is_one() -> None:
    low = torch.zeros(1, requires_grad=True)
    logits = torch.zeros(2, requires_grad=True)
    turn = UniformBox(low, torch.ones(1))
    flip = CategoricalTheta(logits, torch.tensor([[1.0], [-1.0]]))
    joint = Joint({"turn": turn, "flip": flip})
    turned, flipped = joint.draw(4)
    assert turned.requires_grad
    assert not flipped.requires_grad
    assert not any(s.requires_grad for s in joint.sample((4,)))


def test_theta_puts_the_columns_side_by_side_in_order() -> None:
    joint = joint_of()
    samples = (torch.tensor([[2.5]]), torch.tensor([1]), torch.tensor([[0.0, 0.0, 1.0]]))
    expected = torch.tensor([[2.5, -1.0, -0.5, 0.5, 1.0, 2.0]])
    assert torch.equal(joint.theta(samples), expected)


def test_factors_are_found_by_name_and_by_kind() -> None:
    joint = joint_of()
    assert isinstance(joint["turn"], UniformBox)
    assert list(joint.finite()) == ["flip", "crop"]
    assert repr(joint).startswith("Joint(turn=UniformBox(")


def unit() -> UniformBox:
    return UniformBox(torch.zeros(1), torch.ones(1))


@pytest.mark.parametrize("n", [4, 10, 50])
def test_a_spread_of_two_intervals_is_not_a_diagonal(n: int) -> None:
    first, second = Joint({"turn": unit(), "grow": unit()}).spread(n)
    midpoints = ((torch.arange(n) + 0.5) / n)[:, None]
    torch.testing.assert_close(first, midpoints)
    torch.testing.assert_close(second.sort(dim=0).values, midpoints)
    correlation = torch.corrcoef(torch.cat([first, second], dim=1).T)[0, 1]
    assert abs(float(correlation)) < 0.5


def test_a_spread_keeps_the_most_probable_row_of_a_large_table_first() -> None:
    logits = torch.tensor([0.0, 3.0, 1.0, 2.0, -1.0])
    table = CategoricalTheta(logits, torch.arange(5.0)[:, None])
    joint = Joint({"turn": unit(), "table": table})
    assert joint.spread(4)[1].tolist() == [1, 3, 2, 0]


def choice(*shape: int, columns: int, seed: int) -> CategoricalTheta:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(shape[-1], columns, generator=generator)
    return CategoricalTheta(torch.randn(shape, generator=generator), table)


def every_sample(joint: Joint) -> tuple[Tensor, ...]:
    """All combinations of rows, the last factor fastest, for each input."""
    sizes = [factor.logits.shape[-1] for factor in joint.finite().values()]
    rows = torch.cartesian_prod(*[torch.arange(n) for n in sizes]).view(-1, len(sizes))
    return tuple(column[:, None].expand(-1, *joint.batch_shape) for column in rows.unbind(1))


@pytest.mark.parametrize("sizes", [(3,), (3, 2), (2, 4, 3), (1, 5)])
def test_probabilities_and_rows_are_those_of_the_product(sizes: tuple[int, ...]) -> None:
    factors = {f"f{i}": choice(2, n, columns=i + 1, seed=i) for i, n in enumerate(sizes)}
    joint = Joint(factors)
    one = enumerate_choices(joint)
    samples = every_sample(joint)
    torch.testing.assert_close(one.logits, joint.log_prob(samples).T)
    torch.testing.assert_close(one.table, joint.theta(samples)[:, 0])
    torch.testing.assert_close(one.entropy(), joint.entropy())
    assert one.batch_shape == (2,)


def test_the_gradient_reaches_every_factor() -> None:
    logits = [torch.zeros(2, n, requires_grad=True) for n in (3, 2)]
    joint = Joint(
        {str(i): CategoricalTheta(s, torch.rand(len(s.T), 1)) for i, s in enumerate(logits)}
    )
    enumerate_choices(joint).logits[:, 0].sum().backward()
    for s in logits:
        assert s.grad is not None
        assert s.grad.any()


def test_a_range_cannot_be_listed() -> None:
    angle = UniformBox(torch.zeros(2, 1), torch.ones(2, 1))
    joint = Joint({"turn": angle, "flip": choice(2, 2, columns=1, seed=0)})
    with pytest.raises(ArgumentError, match="turn can take any value in a range"):
        enumerate_choices(joint)
