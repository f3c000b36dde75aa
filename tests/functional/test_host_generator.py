"""The host draws as repeatably as a device whose numbers it must not read."""

from typing import Any

import pytest
import torch
from torch import Tensor

from instaaug.functional.probability import host_generator
from instaaug.methods.distortions import Distortions
from tests.support.fake_device import DEVICE, DeviceGenerator
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p


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
