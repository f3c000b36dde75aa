"""Draws without replacement, mutual information, quasi-random points, generators."""

from hashlib import sha256

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

__all__ = [
    "gumbel_top_k",
    "host_generator",
    "mutual_information",
    "quasi_random",
    "systematic_choice",
]


def gumbel_top_k(
    log_probs: Float[Tensor, "*batch k"], n: int, *, generator: Generator | None = None
) -> Int[Tensor, " n *batch"]:
    r"""Draw ``n`` distinct indices from each row, as if drawn one by one without replacement.

    Adds Gumbel noise :math:`-\log E`, :math:`E \sim \mathrm{Exp}(1)`, and keeps the largest.
    (With :math:`E` itself, or :math:`-\log U`, the draws would not follow the probabilities.)

    References:
        | Stochastic Beams and Where to Find Them (Kool et al., 2019)
        | https://arxiv.org/abs/1903.06059
    """
    noise = torch.empty_like(log_probs).exponential_(generator=generator)
    return (log_probs - noise.log()).topk(n, dim=-1).indices.movedim(-1, 0)


def mutual_information(probs: Float[Tensor, "inputs k"]) -> Float[Tensor, ""]:
    r"""How much, in nats, the choice tells of the input: :math:`H(\bar p) - \overline{H(p)}`.

    Zero says that every input has the same distribution: φ ignores what it sees.

    Example:
        >>> round(float(mutual_information(torch.eye(2))), 4)  # each input has its own box
        0.6931
    """
    average = probs.mean(dim=0)
    return torch.special.entr(average).sum() - torch.special.entr(probs).sum(dim=-1).mean()


def quasi_random(n: int, dimensions: int, *, like: Tensor) -> Float[Tensor, "n dimensions"]:
    """``n`` evenly spread points of the unit cube; in one dimension, the midpoints of n cells.

    The other dimensions follow the additive recurrence whose step is a power of the inverse of
    the generalized golden ratio, which is never rational.

    Example:
        >>> quasi_random(4, 1, like=torch.zeros(1)).flatten()
        tensor([0.1250, 0.3750, 0.6250, 0.8750])
    """
    ratio = 2.0
    for _ in range(64):
        ratio = (1 + ratio) ** (1 / max(dimensions, 2))
    index = torch.arange(n, device=like.device, dtype=torch.float64)
    columns = [(index + 0.5) / n]
    columns += [(0.5 + index * ratio**-d) % 1.0 for d in range(1, dimensions)]
    return torch.stack(columns, dim=-1).to(like.dtype)


def systematic_choice(
    probs: Float[Tensor, "*batch k"], offset: Float[Tensor, "*batch 1"], n: int
) -> Int[Tensor, " n *batch"]:
    r"""``n`` indices per row, each as often as its probability says: ⌊n·p⌋ or ⌈n·p⌉ times.

    The points :math:`(i + \text{offset}) / n` go through the inverse cumulative distribution.
    With a uniform offset every index is drawn n·p times on average.

    Example:
        >>> systematic_choice(torch.tensor([0.75, 0.25]), torch.tensor([0.5]), 4)
        tensor([0, 0, 0, 1])
    """
    points = (torch.arange(n, device=probs.device) + offset) / n
    cumulative = probs.cumsum(dim=-1)
    index = torch.searchsorted(cumulative, points * cumulative[..., -1:], right=True)
    return index.clamp(max=probs.shape[-1] - 1).movedim(-1, 0)


def host_generator(generator: Generator | None) -> Generator | None:
    """A source of randomness on the host, as repeatable as the one given, which may be a device's.

    To read a number that a device has drawn, the host waits until the device has done all that
    it was given before. But the state of a device's generator is kept by the host, and so a
    generator can be seeded from it at once.

    Arguments:
        generator: Of any device, or None. Those of a CPU are returned as they are.

    Example:
        >>> seeded = torch.Generator().manual_seed(0)
        >>> host_generator(seeded) is seeded
        True
    """
    if generator is None or generator.device.type == "cpu":
        return generator
    torch.rand((), generator=generator, device=generator.device)  # the next call must differ
    state = generator.get_state().numpy().tobytes()
    return Generator().manual_seed(int.from_bytes(sha256(state).digest()[:8], "big"))
