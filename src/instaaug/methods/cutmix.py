"""CutMix: a box of every input shows another one."""

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.methods.mixing import MixingAugmenter, draw_beta
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images, Rows, Scalars

__all__ = ["CutMix"]


@METHODS.register("cutmix")
class CutMix(MixingAugmenter):
    r"""Replaces a box of every input by that of another input, and mixes losses by area.

    With λ from Beta(α, α) the box has :math:`\sqrt{1 - \lambda}` of each side, rounded down to
    whole pixels, and then, as in the source's code, to an even number of them. Its center is a
    pixel drawn uniformly; what lies outside of the image is lost, so that the loss of the partner
    counts with the share of the image that the box really covers. All inputs of a batch have the
    same box, and a partner each: a random permutation π.

    θ is the box in pixels, :math:`left \le column < right` and :math:`top \le row < bottom`, in
    this order, and π(i). At test time nothing is mixed.

    Arguments:
        alpha: α; 1 is the source's.
        probability: Of mixing a batch at all; 1 is the source's for ImageNet, 0.5 for CIFAR.

    References:
        | CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features
        | (Yun et al., 2019)
        | https://arxiv.org/abs/1905.04899

    Example:
        >>> x = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 1, 8, 8)
        >>> batch = CutMix()(x)
        >>> partner = batch.theta[0, :, -1]
        >>> blend = batch.own_share * x[:, 0, 0, 0] + (1 - batch.own_share) * partner
        >>> torch.allclose(batch.inputs.mean(dim=(1, 2, 3)), blend)
        True
    """

    def __init__(self, *, alpha: float = 1.0, probability: float = 1.0) -> None:
        super().__init__(alpha)
        if not 0 < probability <= 1:
            raise ArgumentError(
                f"`probability` must lie in (0, 1]: got {probability}. 1 mixes every batch."
            )
        self.probability = float(probability)

    @override
    def draw_amounts(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch m"]:
        share = draw_beta(self.alpha, (n_samples,), like=x, generator=generator)
        coin = torch.rand(n_samples, generator=generator, device=x.device)
        side = torch.where(coin < self.probability, (1 - share).sqrt(), 0.0)
        edges: list[Tensor] = []
        for n_pixels in (x.shape[-1], x.shape[-2]):
            half = (side * n_pixels).long() // 2
            center = torch.randint(n_pixels, half.shape, generator=generator, device=x.device)
            edges += [(center - half).clamp(min=0), (center + half).clamp(max=n_pixels)]
        return torch.stack(edges, dim=-1)[:, None].float().expand(-1, len(x), -1)

    @override
    def mixed(self, own: Images, partner: Images, amounts: Rows) -> tuple[Images, Scalars]:
        left, right, top, bottom = amounts.unbind(-1)
        height, width = own.shape[-2:]
        inside = _between(top, bottom, height)[:, :, None] & _between(left, right, width)[:, None]
        share = 1 - (right - left) * (bottom - top) / (height * width)
        return torch.where(inside[:, None], partner, own), share

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, probability {self.probability:g}"


def _between(start: Scalars, end: Scalars, n_pixels: int) -> Bool[Tensor, "batch n_pixels"]:
    pixels = torch.arange(n_pixels, device=start.device)
    return (pixels >= start[:, None]) & (pixels < end[:, None])
