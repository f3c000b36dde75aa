"""One member of every distribution class, and a partition of its support to count samples in."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import inf, pi

import torch
from torch import Generator, Tensor

from instaaug.distributions import (
    CategoricalTheta,
    DecodedGaussian,
    FiniteTheta,
    JitteredBoxes,
    RandomBoxes,
    ThetaDistribution,
    UniformBox,
)
from instaaug.parameterizations import CouplingDecoder
from tests.support.goodness_of_fit import chi_square_p

__all__ = [
    "CASES", "LOGIT_KINDS", "Case", "cells", "fit_p_values", "logits_of", "random_decoder"
]  # fmt: skip

Shape = tuple[int, ...]
LOGIT_KINDS = ("normal", "plus_minus_50", "ten_thousand", "one_hot")
BINS = 3  # per axis of a box of intervals


@dataclass(frozen=True)
class Case:
    """How to build a distribution of some batch shape from fresh leaves of the graph.

    The second thing that ``make`` returns are those leaves: what a gradient must reach. Where the
    density is not constant on boxes, there are no ``cells``; such a class has tests of its own.
    """

    name: str
    make: Callable[[Shape], tuple[ThetaDistribution, list[Tensor]]]
    has_cells: bool = True

    def __call__(self, batch_shape: Shape = ()) -> ThetaDistribution:
        return self.make(batch_shape)[0]


def logits_of(kind: str, k: int, batch_shape: Shape = ()) -> Tensor:
    """Logits over ``k`` rows: ordinary or extreme."""
    seeded = Generator().manual_seed(k)
    normal = torch.randn(*batch_shape, k, generator=seeded)
    if kind == "normal":
        return normal
    if kind == "plus_minus_50":
        return torch.where(normal > 0, 50.0, -50.0)
    chosen = torch.arange(k) == k // 2
    if kind == "ten_thousand":
        return torch.where(chosen, 1e4, normal)
    return torch.where(chosen, 0.0, -inf).expand(*batch_shape, k)


def _intervals(batch_shape: Shape, dimensions: int, period: Tensor | None) -> tuple[
    ThetaDistribution, list[Tensor]
]:  # fmt: skip
    seeded = Generator().manual_seed(dimensions)
    shape = (*batch_shape, dimensions)
    low = (-0.2 - torch.rand(shape, generator=seeded)).requires_grad_()
    high = (0.2 + 2 * torch.rand(shape, generator=seeded)).requires_grad_()
    return UniformBox(low, high, period), [low, high]


def _categorical(batch_shape: Shape, k: int, kind: str) -> tuple[ThetaDistribution, list[Tensor]]:
    logits = logits_of(kind, k, batch_shape).clone().requires_grad_()
    table = torch.rand(k, 4, generator=Generator().manual_seed(0))
    return CategoricalTheta(logits, table), [logits]


def _jittered(batch_shape: Shape, k: int, kind: str) -> tuple[ThetaDistribution, list[Tensor]]:
    logits = logits_of(kind, k, batch_shape).clone().requires_grad_()
    boxes = torch.rand(k, 4, generator=Generator().manual_seed(0)) - 0.5
    cells, limits = torch.full((k, 2), 0.25), torch.full((k, 2), 1.0)
    return JitteredBoxes(logits, boxes, cells, limits), [logits]


def _random_boxes(batch_shape: Shape) -> tuple[ThetaDistribution, list[Tensor]]:
    seeded = Generator().manual_seed(1)
    smallest = 0.1 + 0.4 * torch.rand(*batch_shape, 1, generator=seeded)
    low = torch.cat([smallest, torch.zeros(*batch_shape, 2)], dim=-1).requires_grad_()
    high = torch.ones(*batch_shape, 3).requires_grad_()
    return RandomBoxes(low, high), [low, high]


def random_decoder(dimensions: int) -> CouplingDecoder:
    """A decoder that is far from the identity."""
    decoder, seeded = CouplingDecoder(dimensions), Generator().manual_seed(4)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=seeded)
    return decoder


def _decoded(batch_shape: Shape) -> tuple[ThetaDistribution, list[Tensor]]:
    seeded = Generator().manual_seed(3)
    loc = torch.randn(*batch_shape, 2, generator=seeded).requires_grad_()
    scale = (0.2 + torch.rand(*batch_shape, 2, generator=seeded)).requires_grad_()
    ends = torch.tensor([-1.0, 0.2]), torch.tensor([1.0, 1.0])
    return DecodedGaussian(loc, scale, random_decoder(2), *ends), [loc, scale]


CASES = [
    Case("uniform_1d", lambda shape: _intervals(shape, 1, None)),
    Case("uniform_6d", lambda shape: _intervals(shape, 6, None)),
    Case("circular", lambda shape: _intervals(shape, 1, torch.tensor([2 * pi]))),
    Case("partly_circular", lambda shape: _intervals(shape, 2, torch.tensor([2 * pi, inf]))),
    Case("random_boxes", _random_boxes),
    Case("categorical", lambda shape: _categorical(shape, 7, "normal")),
    Case("jittered", lambda shape: _jittered(shape, 5, "normal")),
    Case("decoded", _decoded, has_cells=False),
]


def cells(distribution: ThetaDistribution) -> tuple[Tensor, Tensor]:
    """The middle (m, *batch, *event) and the volume (m, *batch) of m cells of the support."""
    batch = distribution.batch_shape
    if isinstance(distribution, UniformBox):
        low, width = distribution.low.detach(), (distribution.high - distribution.low).detach()
        shares = torch.tensor(list(product(range(BINS), repeat=low.shape[-1]))) + 0.5
        shares = (shares / BINS).view(len(shares), *[1] * len(batch), -1)
        volume = width.prod(dim=-1) / len(shares)
        return low + shares * width, volume.expand(len(shares), *batch)
    assert isinstance(distribution, FiniteTheta)
    k = distribution.logits.shape[-1]
    index = torch.arange(k)
    if isinstance(distribution, CategoricalTheta):
        index = index.view(k, *[1] * len(batch)).expand(k, *batch)
        return index, torch.ones(k, *batch)
    quarters = torch.tensor(list(product((-0.25, 0.25), repeat=2)))
    middles = torch.cat([index.repeat_interleave(4)[:, None], quarters.repeat(k, 1)], dim=-1)
    middles = middles.view(4 * k, *[1] * len(batch), 3).expand(4 * k, *batch, 3)
    return middles, torch.full((4 * k, *batch), 0.25)


def _cell_of(distribution: ThetaDistribution, sample: Tensor) -> Tensor:
    """In which cell (n, *batch) each sample lies, in the order of :func:`cells`."""
    if isinstance(distribution, UniformBox):
        low, width = distribution.low.detach(), (distribution.high - distribution.low).detach()
        digits = ((sample - low) / width * BINS).long().clamp(0, BINS - 1)
        place = BINS ** torch.arange(digits.shape[-1] - 1, -1, -1)
        return (digits * place).sum(dim=-1)
    if isinstance(distribution, CategoricalTheta):
        return sample
    right, down = sample[..., 1] > 0, sample[..., 2] > 0
    return sample[..., 0].long() * 4 + right * 2 + down * 1


def fit_p_values(distribution: ThetaDistribution, drawn: Tensor) -> list[float]:
    """For each member of the batch, a p-value that its draws (n, *batch, *event) fit log_prob."""
    middles, volumes = cells(distribution)
    probs = (distribution.log_prob(middles).exp() * volumes).detach().reshape(len(volumes), -1)
    cell = _cell_of(distribution, drawn).reshape(len(drawn), -1)
    return [
        chi_square_p(torch.bincount(chosen, minlength=len(probs)), p)
        for chosen, p in zip(cell.T, probs.T, strict=True)
    ]
