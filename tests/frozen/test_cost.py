"""Multiply-adds are those that can be counted on paper, for any module."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from instaaug.errors import ShapeError
from instaaug.frozen.cost import count_multiply_adds, count_multiply_adds_of
from instaaug.networks import PreActResNet18

WIDTH, TOKENS = 8, 5
ATTENTION = 4 * TOKENS * WIDTH * WIDTH + 2 * TOKENS * TOKENS * WIDTH
"""Queries, keys, values and outputs; products of queries and keys, and of these with values."""


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = self.attention(x, x, x, need_weights=False)[0]
        return mixed


@pytest.mark.parametrize(
    ("make", "shape", "wanted"),
    [
        (lambda: nn.Linear(7, 3), (1, 7), 21),
        (lambda: nn.Linear(7, 3), (4, 7), 84),
        (lambda: nn.Conv2d(4, 4, 3, groups=4), (1, 4, 8, 8), 4 * 9 * 36),
        (lambda: nn.Conv2d(3, 4, 1, stride=2), (1, 3, 8, 8), 3 * 4 * 16),
        (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2)), (1, 3, 8, 8), 0),
        (SelfAttention, (1, TOKENS, WIDTH), ATTENTION),
        (
            lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True),
            (1, TOKENS, WIDTH),
            ATTENTION + 2 * TOKENS * WIDTH * 16,
        ),
    ],
)
def test_the_count_is_that_on_paper(
    make: Callable[[], nn.Module], shape: tuple[int, ...], wanted: int
) -> None:
    assert count_multiply_adds(make(), shape) == wanted


def test_twice_the_side_is_four_times_the_cost_of_a_convolutional_network() -> None:
    model = PreActResNet18(10, width=0.125)
    small, large = (count_multiply_adds(model, (1, 3, side, side)) for side in (32, 64))
    assert large / small == pytest.approx(4, rel=1e-3)


def test_the_model_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert count_multiply_adds(model, (2, 3, 8, 8)) == 2 * 4 * 27 * 36
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.backends.mha.get_fastpath_enabled()


def test_any_call_can_be_counted() -> None:
    one = torch.ones(2, 3)
    assert count_multiply_adds_of(lambda: (one @ one.T) @ one) == 2 * 2 * 3 + 2 * 3 * 2


@pytest.mark.parametrize("shape", [(), (1, 3, 0, 8)])
def test_a_shape_without_numbers_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"`shape` must be positive whole numbers"):
        count_multiply_adds(nn.Linear(2, 2), shape)
