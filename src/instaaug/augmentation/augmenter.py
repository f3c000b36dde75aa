"""What every method that augments can do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from jaxtyping import Float
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation.at_test_time import Merge, Select, TestTimeAugmentation
from instaaug.augmentation.batch import AugmentedBatch
from instaaug.shapes import Images

__all__ = ["Augmenter"]


class Augmenter(nn.Module, ABC):
    """Draws transforms, applies them, and turns per-input losses into an objective.

    A task never asks which method it trains: it calls the module, computes a loss per input, and
    minimizes :meth:`objective`. At test time :meth:`wrap` averages over samples.
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

    @abstractmethod
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: Select = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        """θ of ``n_samples`` samples of each input, for test-time augmentation."""

    @abstractmethod
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Images:
        """The input that each row of θ makes of each image."""

    @abstractmethod
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Numbers on the state of learning that are worth a curve; no names, nothing to learn."""

    def wrap(
        self,
        model: nn.Module,
        n_samples: int = 10,
        *,
        merge: Merge = "logit",
        select: Select = "sample",
        replace: bool = False,
        chunk_size: int | None = None,
    ) -> TestTimeAugmentation:
        """A module that predicts from the mean over ``n_samples`` augmented inputs.

        Arguments:
            model: Any module; its outputs are averaged.
            n_samples: How many samples of each input it sees.
            merge: ``"logit"`` averages outputs, ``"probability"`` averages softmax outputs.
            select: ``"sample"`` draws, ``"top"`` takes the most representative.
            replace: Whether the same box may be drawn twice.
            chunk_size: Most inputs per call of the model, which bounds the memory.
        """
        return TestTimeAugmentation(
            self, model, n_samples, merge=merge, select=select, replace=replace,
            chunk_size=chunk_size,
        )  # fmt: skip
