"""Small networks for φ whose features are known without training."""

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

__all__ = ["Brightness", "Chain", "OneMap"]


class Brightness(nn.Module):
    """Maps that are the image itself, averaged over windows; finest first.

    Arguments:
        windows: Side of the windows of each map in pixels.
        sabotage: What to do to each map before it is returned.
    """

    def __init__(
        self, windows: Sequence[int], sabotage: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.windows = windows
        self.sabotage = sabotage or (lambda m: m)
        self.out_channels = (1,) * len(windows)

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.sabotage(F.avg_pool2d(x, window)) for window in self.windows]


class Chain(nn.Module):
    """Layers one after the other, each of which gives a map; does not declare its channels."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    @override
    def forward(self, x: Tensor) -> list[Tensor]:
        maps = []
        for layer in self.layers:
            x = layer(x)
            maps.append(x)
        return maps


class OneMap(nn.Module):
    """What a user may bring by mistake: a tensor instead of a list of maps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3)

    @override
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)
