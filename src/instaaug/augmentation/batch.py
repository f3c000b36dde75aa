"""What an augmenter returns."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from instaaug.objectives import ScoreFactor

__all__ = ["AugmentedBatch"]


@dataclass(frozen=True)
class AugmentedBatch:
    """Augmented inputs and all that an objective needs to learn from them.

    The n samples of B inputs lie one after the other: entry ``j * B + i`` of ``inputs`` is sample
    j of input i.

    Arguments:
        inputs: Augmented inputs, ``(n * B, C, H, W)``.
        targets: Targets repeated likewise, if they were given.
        theta: The parameters that were drawn, ``(n, B, D)``.
        log_prob: Their log-probability, ``(n, B)``.
        entropy: Entropy of each factor in nats, with gradient, ``(B, F)``.
        score_factors: The factors to be trained by the score function or exactly.
        value: Predicted loss of each input, for the value baseline, ``(B,)``.
        exhaustive: Whether the samples are not draws but every choice of a single finite factor.
    """

    inputs: Tensor
    targets: Tensor | None
    theta: Float[Tensor, "n batch d"]
    log_prob: Float[Tensor, "n batch"]
    entropy: Float[Tensor, "batch f"]
    score_factors: tuple[ScoreFactor, ...] = ()
    value: Float[Tensor, " batch"] | None = None
    exhaustive: bool = False

    @property
    def n_samples(self) -> int:
        """Samples per input."""
        return self.theta.shape[0]

    @property
    def batch_size(self) -> int:
        """Number of inputs before augmentation."""
        return self.theta.shape[1]
