"""Tasks whose best augmentation is known by construction."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.transforms import Crop

__all__ = ["QUARTERS", "ColorAverage", "StripeFinder", "hidden_objects", "stripes"]

QUARTERS = Crop(levels=((1.0, 1), (0.5, 2)), max_outside=0.0)
"""The whole image, and its upper left, upper right, lower left and lower right quarter."""


class ColorAverage(nn.Module):
    """Names the color that prevails: a feature map, its mean, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.AvgPool2d(4)
        self.head = nn.Linear(3, 3)
        with torch.no_grad():
            self.head.weight.copy_(8 * torch.eye(3))
            self.head.bias.zero_()

    @override
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.map(x).mean(dim=(2, 3)))
        return result


def hidden_objects(n: int, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Images, their classes, and the quarter where the object is.

    The object is bright and fills a quarter; the other three are full of darker clutter of
    another color, which prevails in the whole image.
    """
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(3, (n,), generator=generator)
    clutter = (target + torch.randint(1, 3, (n,), generator=generator)) % 3
    quarter = torch.randint(4, (n,), generator=generator)
    cells = F.one_hot(clutter, 3).float()[:, :, None].repeat(1, 1, 4) * 0.6
    bright = F.one_hot(target, 3).float()
    cells[torch.arange(n), :, quarter] = bright
    x = F.interpolate(cells.view(n, 3, 2, 2), scale_factor=16, mode="nearest")
    return x + 0.05 * torch.rand(x.shape, generator=generator), target, quarter


class StripeFinder(nn.Module):
    """Tells upright from level stripes, whatever their hue: it looks at the largest channel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(30.0))

    @override
    def forward(self, x: Tensor) -> Tensor:
        value = x.amax(dim=1)
        across = value.diff(dim=2).abs().mean(dim=(1, 2))
        down = value.diff(dim=1).abs().mean(dim=(1, 2))
        return self.scale * torch.stack([across - down, down - across], dim=1)


def stripes(n: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Colored stripes on black, upright (class 0) or level (class 1)."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(n) % 2
    wave = (torch.arange(16) // 2 % 2).float()
    upright = wave.expand(16, 16)
    shape = torch.stack([upright if t == 0 else upright.T for t in target.tolist()])
    color = 0.3 + 0.6 * torch.rand(n, 3, 1, 1, generator=generator)
    return shape[:, None] * color, target
