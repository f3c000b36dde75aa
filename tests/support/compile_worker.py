"""A compiled training step beside an eager one; run with ``python -m``, without a type checker."""

import copy

import torch
from torch import Tensor

from instaaug import InstaAug
from instaaug.transforms import Crop, Rotation
from tests.support.models import images

__all__ = ["main"]


def step(aug: InstaAug, x: Tensor) -> Tensor:
    batch = aug(x, 2)
    objective = aug.objective(batch.inputs.square().mean(dim=(1, 2, 3)), batch)
    objective.backward()
    return objective.detach()


def main() -> None:
    """Forward, objective and backward, compiled as one function, from the same seed."""
    torch.manual_seed(0)
    aug = InstaAug([Crop(levels=((1.0, 1), (0.5, 2))), Rotation()], entropy={"crop": (0.2, 0.4)})
    aug.band.low.fill_(1.4)
    twin, x = copy.deepcopy(aug), images(2)
    compiled = torch.compile(step, backend="aot_eager")
    for seed in (1, 2):
        torch.manual_seed(seed)
        eager = step(aug, x)
        torch.manual_seed(seed)
        torch.testing.assert_close(compiled(twin, x), eager)
        torch.testing.assert_close(twin.band.weight, aug.band.weight)
        for one, other in zip(aug.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)


if __name__ == "__main__":
    main()
