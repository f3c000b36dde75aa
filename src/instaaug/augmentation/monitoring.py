"""Numbers on the state of learning that are worth a curve."""

from collections.abc import Mapping

from torch import Tensor

from instaaug.augmentation.batch import AugmentedBatch
from instaaug.spaces import Boxes, Interval, Space

__all__ = ["monitored"]


def monitored(
    batch: AugmentedBatch, spaces: Mapping[str, Space], weight: Tensor
) -> dict[str, Tensor]:
    """Mean entropy in nats, λ, and mean width of the range or side of the box, by factor."""
    entropy = batch.entropy.detach().mean(dim=0)
    numbers = {f"entropy/{name}": entropy[i] for i, name in enumerate(spaces)}
    numbers |= {f"weight/{name}": weight[i] for i, name in enumerate(spaces)}
    column = 0
    for i, (name, space) in enumerate(spaces.items()):
        if isinstance(space, Boxes):
            numbers[f"side/{name}"] = batch.theta[..., column + 2].detach().mean() / 2
        elif isinstance(space, Interval):  # the geometric mean over its parameters
            numbers[f"width/{name}"] = (entropy[i] / space.size).exp()
        column += space.size
    return numbers
