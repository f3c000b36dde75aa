"""What every method that augments can do."""

from abc import ABC, abstractmethod

from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.batch import AugmentedBatch
from instaaug.shapes import Images

__all__ = ["Augmenter"]


class Augmenter(nn.Module, ABC):
    """Draws transforms, applies them, and turns per-input losses into an objective.

    A task never asks which method it trains: it calls the module, computes a loss per input, and
    minimizes :meth:`objective`.
    """

    @abstractmethod
    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        """Augment every input ``n_samples`` times.

        Arguments:
            x: Images ``(B, C, H, W)``.
            n_samples: How often.
            generator: Source of randomness; a seeded one makes the result repeatable to the last
                bit.
            targets: Labels or other targets; they are repeated to match the inputs.
        """

    @abstractmethod
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        """The scalar to minimize, from one loss per augmented input.

        Arguments:
            losses: ``(n * B,)``, from a loss with ``reduction="none"``.
            batch: What ``forward`` returned.
        """
