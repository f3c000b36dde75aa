"""What an augmenter returns."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.objectives import ScoreFactor

__all__ = ["AugmentedBatch", "repeat_batch"]


@dataclass(frozen=True)
class AugmentedBatch:
    """Augmented inputs and all that an objective needs to learn from them.

    The n samples of B inputs lie one after the other: entry ``j * B + i`` of ``inputs`` is sample
    j of input i.

    Arguments:
        inputs: Augmented inputs, ``(n * B, C, H, W)``.
        targets: Targets, repeated in the same order, if they were given.
        theta: The parameters that were drawn, ``(n, B, D)``.
        log_prob: Their log-probability, ``(n, B)``.
        entropy: Entropy of each factor in nats, with gradient, ``(B, F)``.
        score_factors: The factors to be trained by the score function or exactly.
        value: Predicted loss of each input, for the value baseline, ``(B,)``.
        exhaustive: Whether the samples are not draws but every choice of a single finite factor.
        partner_targets: Targets of the inputs that were mixed in, by methods that mix inputs,
            laid out like ``targets``.
        own_share: How much of each row is the input's own, in [0, 1], ``(n * B,)``; the rest is
            its partner's.
    """

    inputs: Tensor
    targets: Tensor | None
    theta: Float[Tensor, "n batch d"]
    log_prob: Float[Tensor, "n batch"]
    entropy: Float[Tensor, "batch f"]
    score_factors: tuple[ScoreFactor, ...] = ()
    value: Float[Tensor, " batch"] | None = None
    exhaustive: bool = False
    partner_targets: Tensor | None = None
    own_share: Float[Tensor, " rows"] | None = None

    @property
    def n_samples(self) -> int:
        """Samples per input."""
        return self.theta.shape[0]

    @property
    def batch_size(self) -> int:
        """Number of inputs before augmentation."""
        return self.theta.shape[1]

    def losses(self, loss_of: Callable[[Tensor], Tensor]) -> Tensor:
        r"""One loss per augmented input; that of a mixture is the mixture of two losses.

        .. math:: \ell_i = \lambda_i\,\ell(f(x_i), y_i) + (1 - \lambda_i)\,\ell(f(x_i), y'_i)

        Arguments:
            loss_of: From targets to one loss per input, ``(n * B,)``.

        Example:
            >>> from torch.nn import functional as F
            >>> from instaaug.methods import MixUp
            >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 10))
            >>> batch = MixUp()(torch.rand(4, 3, 8, 8), targets=torch.arange(4))
            >>> outputs = model(batch.inputs)
            >>> batch.losses(lambda y: F.cross_entropy(outputs, y, reduction="none")).shape
            torch.Size([4])
        """
        if self.targets is None:
            raise ArgumentError("`targets` must be given to the augmenter: it got none.")
        own = loss_of(self.targets)
        if self.partner_targets is None or self.own_share is None:
            return own
        share = self.own_share.to(own.dtype)
        return share * own + (1 - share) * loss_of(self.partner_targets)


def repeat_batch(x: Tensor, n: int) -> Tensor:
    """A batch n times in a row, in the same memory order, which ``Tensor.repeat`` forgets.

    Example:
        >>> repeat_batch(torch.tensor([1, 2]), 3)
        tensor([1, 2, 1, 2, 1, 2])
        >>> x = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
        >>> repeat_batch(x, 2).is_contiguous(memory_format=torch.channels_last)
        True
    """
    return x if n == 1 else torch.cat([x] * n)
