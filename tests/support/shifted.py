"""An augmenter whose views, weights and known outputs a test can foresee."""

from typing import Any

import torch
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.views import Views
from instaaug.methods.simple import SimpleAugmenter
from instaaug.networks.model_interface import Output, pick_output

__all__ = ["Shifted", "loose_classifier"]


class Shifted(SimpleAugmenter):
    """Adds a random number to each image: θ itself, one to three times the view's number."""

    def __init__(self, weight: Tensor | None = None, *, reads_model: bool = False) -> None:
        super().__init__()
        self.weight, self.reads_model = weight, reads_model

    @override
    def draw_theta(self, x: Tensor, n_samples: int, generator: Generator | None) -> Tensor:
        number = torch.arange(1.0, n_samples + 1).view(-1, 1, 1)
        return number * (1 + 2 * torch.rand(n_samples, len(x), 1, generator=generator))

    @override
    def render(self, x: Tensor, theta: Tensor) -> Tensor:
        return x + theta[..., None, None]

    @override
    def views(
        self, x: Tensor, n_samples: int, *, model: nn.Module | None = None,
        output: Output | None = None, chunk_size: int | None = None, **options: Any,
    ) -> Views:  # fmt: skip
        theta = self.draw(x, n_samples, **options)
        if not self.reads_model:
            return Views(theta, self.weight)
        assert model is not None
        return Views(theta, self.weight, pick_output(model(self.render(x, theta[0])), output))


def loose_classifier(num_classes: int = 4, *, sharpness: float = 6.0) -> nn.Module:
    """For shifted images: unsure at first sight, and of different minds on different views."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        linear = nn.Linear(num_classes, num_classes)
    with torch.no_grad():
        linear.weight.mul_(sharpness)

    class Waves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = linear

        @override
        def forward(self, x: Tensor) -> Tensor:
            speed = torch.arange(1, num_classes + 1, dtype=x.dtype)
            phase = x.flatten(1)[:, :num_classes]
            result: Tensor = self.linear((phase * speed).sin())
            return result

    return Waves().eval()
