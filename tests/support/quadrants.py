"""Images whose class is in one quadrant, which a marker shows, and a φ that reads the marker."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from instaaug import InstaAug
from instaaug.parameterizations import LocationHead
from instaaug.tasks import SupervisedTask
from instaaug.transforms import Crop

SIDE = 8
QUADRANTS = Crop(((0.5, 2),), max_outside=0.0)


def make_images(
    n: int, *, noise: float = 1.0, marked: bool = True, seed: int = 0
) -> tuple[Float[Tensor, "n 3 8 8"], Tensor]:
    """Images and their classes, 0 or 1.

    The second channel of one quadrant is 1 for class 1 and −1 for class 0; of the others, noise.
    The first channel is 1 in that quadrant, or in another one if not ``marked``.
    """
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(2, (n,), generator=generator)
    place = torch.randint(4, (n,), generator=generator)
    signal = noise * torch.randn(n, 4, generator=generator)
    rows = torch.arange(n)
    signal[rows, place] = 2.0 * targets - 1
    shown = place if marked else torch.randint(4, (n,), generator=generator)
    marker = F.one_hot(shown, 4).float()
    small = torch.stack([marker, signal, torch.zeros_like(signal)], dim=1).unflatten(2, (2, 2))
    return F.interpolate(small, size=(SIDE, SIDE), mode="nearest"), targets


class Marker(nn.Module):
    """Maps of 2 × 2: the marker."""

    def forward(self, x: Tensor) -> list[Tensor]:
        return [F.adaptive_avg_pool2d(x[:, :1], 2)]


class Reader(nn.Module):
    """A classifier that believes the second channel, if its mean is as large as a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[-1.0], [1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x[:, 1].mean(dim=(1, 2))[:, None])


def make_task(*, sharpness: float = 8.0) -> SupervisedTask:
    """A trained model and a φ that crops the quadrant with the marker."""
    aug = InstaAug(QUADRANTS, network=Marker(), diversity=(0.3, 0.9))
    (head,) = aug.phi.heads
    assert isinstance(head, LocationHead)
    with torch.no_grad():
        head.bias.zero_()
        for parameter in head.scorers.parameters():
            parameter.fill_(sharpness)
    return SupervisedTask(Reader(), aug, num_classes=2, mean=(0.0,), std=(1.0,))
