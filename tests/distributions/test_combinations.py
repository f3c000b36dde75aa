"""All combinations of independent choices, against the product of their factors."""

import pytest
import torch
from torch import Tensor

from instaaug.distributions import CategoricalTheta, Joint, UniformBox, enumerate_choices
from instaaug.errors import ArgumentError


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
