"""θ in general position, for any transform: made from its spaces, so that none is forgotten."""

import torch
from torch import Tensor

from instaaug.spaces import Choices, Interval, Space
from instaaug.transforms import TRANSFORMS, GeometricTransform, Transform

ALL_NAMES = sorted(TRANSFORMS)
GEOMETRIC_NAMES = [n for n in ALL_NAMES if issubclass(TRANSFORMS[n], GeometricTransform)]


def make(name: str) -> Transform:
    """The registered transform with its default limits."""
    return TRANSFORMS[name]()


def generic_theta(
    transform: Transform, batch: int = 2, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> Tensor:
    """Rows well inside of the admissible set, none of them the identity.

    Random numbers: the chance that a sampling point falls on a kink (a pixel boundary, two equal
    channels, a clip) within the step of a numerical derivative is below one in ten thousand.
    """
    generator = torch.Generator().manual_seed(seed)
    parts = [_draw(space, batch, generator) for space in transform.spaces.values()]
    return torch.cat(parts, dim=-1).to(dtype)


def differentiable_columns(transform: Transform) -> list[int]:
    """Columns of θ that have a meaningful derivative: neither signs nor seeds."""
    columns: list[bool] = []
    for space in transform.spaces.values():
        if isinstance(space, Interval):
            columns += [p.learned for p in space.parameters]
        else:
            columns += [not isinstance(space, Choices)] * space.size
    return [i for i, meaningful in enumerate(columns) if meaningful]


def _draw(space: Space, batch: int, generator: torch.Generator) -> Tensor:
    if isinstance(space, Interval):
        low = torch.tensor([p.low for p in space.parameters], dtype=torch.float64)
        high = torch.tensor([p.high for p in space.parameters], dtype=torch.float64)
        share = torch.rand(batch, space.size, generator=generator, dtype=torch.float64)
        return low + (0.15 + 0.7 * share) * (high - low)
    if isinstance(space, Choices):
        others = torch.tensor(space.rows[1:], dtype=torch.float64)
        return others[torch.randint(len(others), (batch,), generator=generator)]
    center = torch.rand(batch, 2, generator=generator, dtype=torch.float64) * 0.8 - 0.4
    sides = torch.rand(batch, 2, generator=generator, dtype=torch.float64) * 0.6 + 0.6
    return torch.cat([center, sides], dim=-1)
