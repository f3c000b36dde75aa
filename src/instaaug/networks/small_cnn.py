"""A small classifier for demos and tests."""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.shapes import Images

__all__ = ["SmallCNN"]


class SmallCNN(nn.Module):
    """Three strided convolutions and a linear layer on a 4 × 4 summary; any image size.

    Example:
        >>> SmallCNN(4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 4])
    """

    def __init__(self, num_classes: int, *, in_channels: int = 3, channels: int = 16) -> None:
        super().__init__()
        widths = [in_channels, channels, 2 * channels, 4 * channels]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(4 * channels * 16, num_classes)
        )

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch classes"]:
        return self.head(self.features(x))
