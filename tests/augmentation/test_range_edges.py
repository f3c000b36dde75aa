"""What became of the two sides of a learned range."""

import pytest
import torch

from instaaug.augmentation.range_edges import learned_ranges
from instaaug.spaces import Interval, Parameter

VALUE = Parameter("value", 0.5, 2.0, identity=1.0, multiplicative=True)
STRENGTH = Parameter("strength", 0.0, 2.0)
SEED = Parameter("seed", 0.0, 1.0, learned=False)


def test_shares_are_those_of_the_axis() -> None:
    low, high = torch.tensor([[0.5, 0.0], [1.0, 0.0]]), torch.tensor([[2**0.5, 1.0]] * 2)
    value, strength = learned_ranges(Interval((VALUE, STRENGTH)), low, high)
    assert value.shares == pytest.approx((0.5, 0.5))
    assert (value.low, value.low_spread) == pytest.approx((0.75, 0.25))
    assert strength.shares == (None, 0.5)
    assert value.edges() == strength.edges() == []


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.501, 1.5, "drifted to the edge of its range, 0.5: it covers 100% of the room below 1."),
        (0.7, 1.99, "drifted to the edge of its range, 2: it covers 99% of the room above 1."),
        (0.96, 1.8, "become one-sided: it covers 6% of the room below 1 and 85% of that on"),
    ],
)
def test_an_edge_is_said(low: float, high: float, words: str) -> None:
    (value,) = learned_ranges(Interval((VALUE,)), torch.tensor([[low]]), torch.tensor([[high]]))
    (sentence,) = value.edges()
    assert sentence.startswith(f"value has {words}")


def test_what_is_not_learned_has_no_edge() -> None:
    assert learned_ranges(Interval((SEED,)), torch.zeros(1, 1), torch.ones(1, 1)) == []


def test_narrow_ranges_are_not_one_sided() -> None:
    low, high = torch.tensor([[0.99]]), torch.tensor([[1.1]])
    assert learned_ranges(Interval((VALUE,)), low, high)[0].edges() == []
