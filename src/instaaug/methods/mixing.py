"""What MixUp and CutMix share: every input is mixed with another one of its batch."""

from abc import abstractmethod
from dataclasses import replace
from math import isfinite

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch
from instaaug.augmentation.augmenter import TASKS
from instaaug.errors import ArgumentError
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Rendered, Rows, Scalars

__all__ = ["MixingAugmenter", "draw_beta"]

SMALLEST, LARGEST = 1e-6, 1e6  # beyond them λ is 0, 1 or 1/2 but for rounding


class MixingAugmenter(SimpleAugmenter):
    r"""Mixes every input with a partner, drawn as a random permutation of the batch.

    Of a mixture that is to the share λ the input's own, the loss is mixed likewise
    (:meth:`AugmentedBatch.losses <instaaug.augmentation.AugmentedBatch.losses>`), which for
    cross-entropy is the loss of the mixed labels and works for every other loss as well.

    Only ``forward`` mixes, for it takes the other inputs: θ says how an input is mixed and, in
    its last column, with which input of the batch. :meth:`render`, and with it every view at test
    time, leaves images as they are.

    Arguments:
        alpha: α of the law of λ, Beta(α, α).
    """

    tasks = TASKS - {"contrastive"}
    needs_labels = True
    averages_views = False

    def __init__(self, alpha: float) -> None:
        super().__init__()
        if not (isfinite(alpha) and SMALLEST <= alpha <= LARGEST):
            raise ArgumentError(
                f"`alpha` must be a number from {SMALLEST:g} to {LARGEST:g}: got {alpha}. 1 makes "
                "all shares equally likely, less than 1 those near 0 and 1."
            )
        self.alpha = float(alpha)

    @abstractmethod
    def draw_amounts(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch m"]:
        """How much of its partner each input takes: all columns of θ but the last."""

    @abstractmethod
    def mixed(self, own: Images, partner: Images, amounts: Rows) -> tuple[Images, Scalars]:
        """Images mixed with their partners, row by row, and the share that is their own."""

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        amounts = self.draw_amounts(x, n_samples, generator)
        partner = torch.stack(
            [torch.randperm(len(x), generator=generator, device=x.device) for _ in amounts]
        )
        return torch.cat([amounts, partner[..., None].to(amounts)], dim=-1)

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        """The images as they are."""
        return x

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        batch = super().forward(x, n_samples, generator, targets)
        rows = batch.theta.flatten(0, 1)
        partner = rows[:, -1].long()
        inputs, share = self.mixed(batch.inputs, x[partner], rows[:, :-1])
        return replace(
            batch,
            inputs=inputs,
            partner_targets=None if targets is None else targets[partner],
            own_share=share,
        )


def draw_beta(
    alpha: float, shape: tuple[int, ...], *, like: Tensor, generator: Generator | None
) -> Float[Tensor, "*shape"]:
    """Numbers from Beta(α, α), in float64, on the device of ``like``.

    The first of two gamma variables has the share λ of their sum. A gamma variable of shape α is
    one of shape α + 1 times U^(1/α), which would vanish for a small α and is kept as a logarithm.

    Example:
        >>> seeded = torch.Generator().manual_seed(0)
        >>> share = draw_beta(2.0, (10_000,), like=torch.zeros(()), generator=seeded)
        >>> round(float(share.mean()), 1), round(float(share.var()), 2)  # 1/2 and 1/20
        (0.5, 0.05)
    """
    one_more = torch.full((2, *shape), alpha + 1, dtype=torch.float64, device=like.device)
    # What torch.distributions draws from, and the only way to give it a generator.
    gamma = torch._standard_gamma(one_more, generator=generator)  # noqa: SLF001
    uniform = torch.empty_like(one_more).uniform_(generator=generator)
    first, second = gamma.log() + uniform.log() / alpha
    return (first - second).sigmoid()
