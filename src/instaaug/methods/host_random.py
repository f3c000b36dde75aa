"""Randomness that the host itself needs, to decide what is to be computed."""

from hashlib import sha256

import torch
from torch import Generator

__all__ = ["on_host"]


def on_host(generator: Generator | None) -> Generator | None:
    """A source of randomness on the host, as repeatable as the one given, which may be a device's.

    To read a number that a device has drawn, the host waits until the device has done all that
    it was told before. But the state of a device's generator is kept by the host, and so a
    generator can be seeded from it at once.

    Arguments:
        generator: Of any device, or None. Those of a processor are returned as they are.

    Example:
        >>> seeded = torch.Generator().manual_seed(0)
        >>> on_host(seeded) is seeded
        True
    """
    if generator is None or generator.device.type == "cpu":
        return generator
    torch.rand((), generator=generator, device=generator.device)  # the next call must differ
    state = generator.get_state().numpy().tobytes()
    return Generator().manual_seed(int.from_bytes(sha256(state).digest()[:8], "big"))
