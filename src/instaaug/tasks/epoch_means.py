"""Numbers of single steps, averaged over an epoch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["EpochMeans"]


@dataclass
class EpochMeans:
    """Sums of what steps report; a number that some steps lack is averaged over the others.

    Nothing waits for the device before :meth:`means` is asked.

    Arguments:
        sums: By name, so far.
        counts: How many steps reported each.

    Example:
        >>> epoch = EpochMeans()
        >>> epoch.add({"loss": torch.tensor(2.0)})
        >>> epoch.add({"loss": torch.tensor(1.0), "entropy": torch.tensor(3.0)})
        >>> epoch.means()
        {'loss': 1.5, 'entropy': 3.0}
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, numbers: Mapping[str, Tensor]) -> None:
        """Count a step."""
        for name, value in numbers.items():
            number = value.detach().float()  # a sum in half precision would soon stand still
            self.sums[name] = self.sums.get(name, torch.zeros_like(number)) + number
            self.counts[name] = self.counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        """Means over the steps and over all processes."""
        if not self.sums:
            return {}
        means = torch.stack([total / self.counts[n] for n, total in self.sums.items()])
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(means)
            means /= torch.distributed.get_world_size()
        return dict(zip(self.sums, means.tolist(), strict=True))
