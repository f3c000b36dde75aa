"""Augmenters that learn from images that the model does not train on."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Generator, Tensor, nn

from instaaug.augmentation.augmenter import TASKS, Augmenter
from instaaug.augmentation.batch import AugmentedBatch
from instaaug.shapes import Images

__all__ = ["HeldOutBatch", "HeldOutLearner", "LossesOf"]

LossesOf = Callable[[Tensor, Tensor], Tensor]
"""From outputs and targets to one loss per input."""


@dataclass(frozen=True)
class HeldOutBatch:
    """Images that the model does not train on.

    Arguments:
        inputs: Images as the model takes them, not augmented.
        targets: Their targets.
    """

    inputs: Images
    targets: Tensor


class HeldOutLearner(Augmenter):
    """An augmenter whose parameters learn from held-out images instead of the training loss.

    For every ``search_every``-th batch, before the model learns from it, the task minimizes
    :meth:`search_objective` over the augmenter's parameters, and over nothing else.
    """

    tasks = TASKS - {"contrastive"}
    needs_labels = True
    needs_held_out = True

    search_every: int = 1
    """Batches per step of the augmenter."""

    @abstractmethod
    def search_objective(
        self,
        model: nn.Module,
        batch: AugmentedBatch,
        held_out: HeldOutBatch,
        losses_of: LossesOf,
        generator: Generator | None = None,
    ) -> Float[Tensor, ""]:
        """What the augmenter's parameters minimize; the model is left exactly as it was.

        Arguments:
            model: The one that is being trained; neither its parameters nor its buffers change.
            batch: What the model is about to learn from.
            held_out: What the result is judged by.
            losses_of: The loss of the task.
            generator: Source of randomness.
        """
