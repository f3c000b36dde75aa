"""Peak memory, counted."""

import torch

from benchmarks.memory import peak_bytes

MIB = 1 << 20


def zeros(mib: int) -> torch.Tensor:
    return torch.zeros(mib * MIB // 4)


def test_the_peak_is_what_was_held_at_once() -> None:
    def run() -> None:
        zeros(8)
        held = zeros(4)
        other = zeros(3)
        del held, other
        zeros(5)

    assert peak_bytes(run) == 8 * MIB


def test_what_is_held_at_the_same_time_adds_up() -> None:
    def run() -> None:
        parts = [zeros(4), zeros(3), zeros(2)]
        del parts

    assert peak_bytes(run) == 9 * MIB


def test_what_was_there_before_does_not_count() -> None:
    before = zeros(16)
    assert peak_bytes(lambda: before.add_(1)) < MIB
