"""AdaAug: operations that a policy chooses for each input by what the classifier sees in it."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.probability import gumbel_top_k
from instaaug.functional.warp import PaddingMode
from instaaug.methods.ada_policy import AdaPolicy, Candidates, Raw
from instaaug.methods.drawn_operations import with_hole_places
from instaaug.methods.operation_levels import LEVELS, values_at
from instaaug.methods.operations import Interpolation, Operations, number_of
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images

__all__ = ["ADA_OPERATIONS", "AdaAugment"]

ADA_OPERATIONS = {**LEVELS, "flip": (0.0, 0.0), "identity": (0.0, 0.0)}
"""The 17 operations, and their values at magnitudes 0 and 1."""

N = len(ADA_OPERATIONS)
Places = Int[Tensor, "*drawn"]
Levels = Float[Tensor, "*drawn"]


@METHODS.register("adaaug")
class AdaAugment(AdaPolicy):
    r"""Draws k of 17 operations for each input, at magnitudes of its own.

    A linear map of the classifier's features gives 17 magnitudes :math:`m = \sigma(r)` and 17
    logits s of each input. To train or test the classifier, k distinct operations are drawn, one
    after the other, with probabilities in proportion to :math:`\exp(s_j / T)`; each magnitude
    moves up or down by an amount uniform in [0, δ], is clipped to [0, 1], and scales the
    operation's range. The policy learns as :class:`~instaaug.methods.ada_policy.AdaPolicy` tells,
    from all 17 operations at their magnitudes, with T = 1 and without δ. Pixels are taken to grow
    with the magnitude one to one, for most operations have no gradient.

    The defaults are the source's for CIFAR-10. It searches first (k = 1, T = 1, δ = 0) and trains
    another, larger network with the result; here one network is trained with the policy that it
    teaches. The source grays holes with (125, 123, 114), here with the middle of the range. Moves
    and turns go in either direction with equal probability, as there.

    Arguments:
        n_operations: k, operations per input.
        temperature: T, which makes operations more alike when they are drawn.
        delta: δ, by how much magnitudes are moved at most.
        search_every: Batches per step of the policy.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation, likewise.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Side, or height and width, of what comes out; the input's own by default.

    References:
        | AdaAug: Learning Class- and Instance-adaptive Data Augmentation Policies
        | (Cheung and Yeung, 2022)
        | https://openreview.net/forum?id=rWXfFogxRJN

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = AdaAugment(n_operations=3)
        >>> aug.attach(SmallCNN(10))
        >>> aug.draw(torch.rand(2, 3, 32, 32), n_samples=4).shape
        torch.Size([4, 2, 6])
    """

    numbers: Tensor

    def __init__(
        self,
        *,
        n_operations: int = 2,
        temperature: float = 3.0,
        delta: float = 0.3,
        search_every: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        if not 1 <= n_operations <= N:
            raise ArgumentError(
                f"`n_operations` must be a whole number from 1 to {N}, for no operation is drawn "
                f"twice: got {n_operations}. 2 is usual."
            )
        super().__init__(
            Operations(n_operations, interpolation), n_candidates=N, temperature=temperature,
            search_every=search_every, mean=mean, std=std, padding_mode=padding_mode, size=size,
        )  # fmt: skip
        if not 0 <= delta <= 1:
            raise ArgumentError(
                f"`delta` must lie in [0, 1], the range of magnitudes: got {delta}."
            )
        self.n_operations, self.delta = n_operations, delta
        numbers = torch.tensor([number_of(name) for name in ADA_OPERATIONS])
        self.register_buffer("numbers", numbers, persistent=False)

    @override
    def make_head(self, n_features: int) -> nn.Linear:
        return nn.Linear(n_features, 2 * N)

    def policy(self, x: Images) -> tuple[Float[Tensor, "batch n"], Float[Tensor, "batch n"]]:
        """Magnitudes, and probabilities to be drawn first, in the order of ADA_OPERATIONS."""
        magnitudes, logits = self.raw(x).chunk(2, dim=-1)
        return magnitudes.sigmoid(), (logits / self.temperature).softmax(dim=-1)

    @override
    @torch.no_grad()
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        magnitudes, probs = (part.expand(n_samples, -1, -1) for part in self.policy(x))
        which = gumbel_top_k(probs.log(), self.n_operations, generator=generator).movedim(0, -1)
        level = magnitudes.gather(-1, which)
        move = torch.rand((2, *level.shape), generator=generator, device=level.device)
        amount = torch.where(move[0] < 0.5, -self.delta, self.delta) * move[1]
        return self._theta(which, (level + amount).clamp(0, 1), generator).flatten(-2)

    @override
    def candidates(self, raw: Raw, generator: Generator | None) -> Candidates:
        magnitudes, logits = (part.T for part in raw.chunk(2, dim=-1))
        magnitudes = magnitudes.sigmoid()
        which = torch.arange(N, device=raw.device)[:, None].expand_as(magnitudes)
        theta = self._theta(which, magnitudes.detach(), generator)
        nothing_else = (0, 2 * (self.n_operations - 1))  # the first operation is the identity
        return Candidates(F.pad(theta, nothing_else), logits.softmax(dim=0), magnitudes)

    def _theta(
        self, which: Places, level: Levels, generator: Generator | None
    ) -> Float[Tensor, "*drawn 2"]:
        """Number and value of each operation, in a direction and at a place that are drawn."""
        operation = self.numbers[which]
        coin = torch.rand(level.shape, generator=generator, device=level.device) < 0.5
        value = with_hole_places(operation, values_at(operation, level, coin), generator)
        return torch.stack([operation.to(value.dtype), value], dim=-1)

    @override
    def extra_repr(self) -> str:
        return (
            f"{self.n_operations} of {N} operations, temperature {self.temperature:g}, magnitudes "
            f"± {self.delta:g}, search every {self.search_every} steps"
        )
