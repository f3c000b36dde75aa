"""Puzzle-Mix: every block comes from the image in which the model looks at it."""

from collections.abc import Sequence
from math import comb, gcd

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.blocks import choose_labels, join_blocks, split_blocks
from instaaug.functional.probability import host_generator
from instaaug.methods.mixing import Mixture, PairMixer
from instaaug.methods.registry import METHODS
from instaaug.methods.saliency import (
    SaliencyMixer,
    check_labels,
    gradient_saliency,
    normalize_saliency,
)
from instaaug.shapes import Images, Scalars, per_channel, repeat_batch

__all__ = ["PuzzleMix", "choose_masks", "transport_blocks"]

Grids = Float[Tensor, "batch n n"]
N_LEVELS = 3  # of a mask: 1, 1/2 and 0
MOST_POOLED = 4  # pixels that are averaged before blocks are compared across a border
ALMOST_NOTHING = 1e-8
MOST_ROUNDS = 8  # after which 0.2 % of 16 × 16 blocks are still without a place


@METHODS.register("puzzlemix")
class PuzzleMix(PairMixer, SaliencyMixer):
    r"""Takes every block of an image, or of its partner, by which of them the model looks at.

    With the saliency s of an image, the gradient of its loss, and s' of its partner, both summed
    over the n × n blocks, the mask m, one of 0, 1/2 and 1 in every block, has a low energy

    .. math:: \sum_i \bigl(m_i s'_i + (1 - m_i) s_i\bigr)
              + \tfrac{\beta}{16 n} \sum_{i \sim j} \bigl((m_i - m_j)^2 + \gamma\,\delta_{ij}\bigr)
              - \tfrac{\eta}{n^2} \sum_i \log p(m_i; \lambda)

    where δ compares the pixels on both sides of a border in the mixture, and p is binomial with
    λ from Beta(α, α), one for the batch. Then blocks of both images move to places that the mask
    leaves to them, if their saliency is worth the way (:func:`transport_blocks`). The image counts
    with the mean of m. θ is λ and the partner; n is drawn for each batch.

    One more pass finds the saliency. As in the source, the loss of the plain images, which that
    pass has at hand, is learned as well.

    Arguments:
        alpha: α of the law of shares; below 1, most are near 0 or 1.
        blocks: Numbers of blocks a side to draw from; those that do not divide an image are left
            out.
        smoothness: β, what neighboring blocks of different images cost.
        pixel_smoothness: γ, what visible borders between blocks add to that.
        prior: η, how closely the mask keeps to the drawn share.
        transport: Cost of moving a block across the image; 0 moves nothing.
        clean: Weight of the loss of the plain images.
        mean: Per-channel mean the images were normalized with, to compare pixels as they were.
        std: Per-channel standard deviation the images were normalized with.
        size: Output side; the input's own by default.

    References:
        | Puzzle Mix: Exploiting Saliency and Local Statistics for Optimal Mixup
        | (Kim et al., 2020)
        | https://arxiv.org/abs/2009.06962

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = PuzzleMix()
        >>> aug.attach(SmallCNN(3))
        >>> batch = aug(torch.rand(4, 3, 16, 16), targets=torch.tensor([0, 1, 2, 0]))
        >>> batch.inputs.shape, batch.shares.sum(dim=0)
        (torch.Size([4, 3, 16, 16]), tensor([1., 1., 1., 1.]))
    """

    tasks = frozenset({"classification"})

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        blocks: Sequence[int] = (2, 4, 8, 16),
        smoothness: float = 1.2,
        pixel_smoothness: float = 0.5,
        prior: float = 0.2,
        transport: float = 0.8,
        clean: float = 1.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(alpha, size=size)
        if not blocks or min(blocks) < 2:
            raise ArgumentError(
                f"`blocks` must be numbers from 2 on: got {list(blocks)}. 2 has four blocks."
            )
        self.blocks = tuple(blocks)
        self.smoothness, self.pixel_smoothness = smoothness, pixel_smoothness
        self.prior, self.transport, self.clean = prior, transport, clean
        self.mean, self.std = mean, std

    @override
    def mix_batch(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        targets: Tensor | None,
        generator: Generator | None,
    ) -> Mixture:
        n = self._draw_blocks(x, generator)
        maps, added_loss = gradient_saliency(
            self.model, x, check_labels(targets), clean=self.clean
        )
        saliency = normalize_saliency(F.adaptive_avg_pool2d(maps[:, None], n)[:, 0])
        share, partner = theta.flatten(0, 1).unbind(-1)
        partner = partner.long()
        own, other = repeat_batch(x, len(theta)), x[partner]
        looked = repeat_batch(saliency, len(theta)), saliency[partner]
        mask = choose_masks(
            *looked, share, self._show(own), self._show(other), smoothness=self.smoothness,
            pixel_smoothness=self.pixel_smoothness, prior=self.prior,
        )  # fmt: skip
        if self.transport:
            own = move_blocks(own, transport_blocks(looked[0], mask, cost=self.transport))
            other = move_blocks(other, transport_blocks(looked[1], 1 - mask, cost=self.transport))
        pixels = F.interpolate(mask[:, None], size=x.shape[-2:]).to(x.dtype)
        mixed = torch.lerp(other, own, pixels)
        ratio = mask.mean(dim=(1, 2))
        return Mixture(mixed, partner[None], torch.stack([ratio, 1 - ratio]), added_loss)

    def _draw_blocks(self, x: Images, generator: Generator | None) -> int:
        """The number of blocks a side for this batch; drawn on the host, which shapes need."""
        height, width = x.shape[-2:]
        fitting = [n for n in self.blocks if height % n == width % n == 0]
        if not fitting:
            raise ArgumentError(
                f"`blocks` must have a number that divides both sides of the images: got "
                f"{list(self.blocks)} for {height} × {width} pixels. Set `data.image_size`, or "
                "choose other numbers."
            )
        return fitting[int(torch.randint(len(fitting), (), generator=host_generator(generator)))]

    def _show(self, x: Images) -> Images:
        """Images as they were before they were normalized."""
        if self.std is not None:
            x = x * per_channel(self.std, like=x)
        return x if self.mean is None else x + per_channel(self.mean, like=x)

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, {' or '.join(map(str, self.blocks))} blocks a side"


def choose_masks(
    own: Grids,
    other: Grids,
    share: Scalars,
    own_pixels: Images,
    other_pixels: Images,
    *,
    smoothness: float = 1.2,
    pixel_smoothness: float = 0.5,
    prior: float = 0.2,
) -> Grids:
    """How much of each block is the image's own: 0, 1/2 or 1.

    Arguments:
        own: Saliency of each image by block, with the sum 1.
        other: That of its partner.
        share: λ.
        own_pixels: The images.
        other_pixels: Their partners.
        smoothness: β.
        pixel_smoothness: γ.
        prior: η.

    Example:
        >>> own = torch.tensor([[[0.4, 0.1], [0.1, 0.4]]])
        >>> other, black = torch.full((1, 2, 2), 0.25), torch.zeros(1, 3, 2, 2)
        >>> choose_masks(own, other, torch.tensor([0.5]), black, black, smoothness=0.0, prior=0.0)
        tensor([[[1., 0.],
                 [0., 1.]]])
    """
    n = own.shape[-1]
    levels = 1 - torch.arange(N_LEVELS, device=own.device) / (N_LEVELS - 1)
    weight = smoothness / (16 * n)
    with_one, with_zero, down = _compare_pixels(own_pixels, other_pixels, n)
    beside_one, beside_zero, right = (
        part.transpose(1, 2) for part in _compare_pixels(own_pixels.mT, other_pixels.mT, n)
    )
    slight = weight * pixel_smoothness
    keep = other + slight * (with_one + beside_one)  # what is lost where the mask is 1
    drop = own + slight * (with_zero + beside_zero)
    unary = levels * keep[..., None] + (1 - levels) * drop[..., None]
    unary = unary + prior / n**2 * _prior_cost(share)[:, None, None]
    disagreement = (levels[:, None] - levels).square().expand(len(own), -1, -1)
    down, right = weight + slight * down, weight + slight * right
    labels = choose_labels(unary, down, right, disagreement, start=unary.argmin(dim=-1))
    return levels[labels]


def _prior_cost(share: Scalars) -> Float[Tensor, "batch levels"]:
    """The negative logarithm of the binomial law of the levels, from 1 to 0."""
    m = N_LEVELS - 1
    laws = [comb(m, i) * share ** (m - i) * (1 - share) ** i for i in range(N_LEVELS)]
    return -(torch.stack(laws, dim=-1) + ALMOST_NOTHING).log()


def _compare_pixels(own: Images, other: Images, n: int) -> tuple[Grids, Grids, Tensor]:
    """What differences of pixels across horizontal borders add to the energy.

    The cost of a border whose upper and lower block have masks a and b is that of the four cases
    in which they are 0 or 1, which is linear in a and in b but for a multiple of (a - b)².

    Returns:
        What a block pays for the mask 1 and for the mask 0, and the multiple for each border.
    """
    pooled = gcd(MOST_POOLED, own.shape[-2] // n, own.shape[-1] // n)
    one, zero = F.avg_pool2d(own, pooled), F.avg_pool2d(other, pooled)
    rows = one.shape[-2] // n  # of pooled pixels in a block

    def difference(upper: Images, lower: Images) -> Float[Tensor, "batch borders n"]:
        gap = upper[:, :, rows - 1 : -1 : rows] - lower[:, :, rows::rows]
        return gap.abs().mean(dim=1).unflatten(-1, (n, -1)).mean(dim=-1)

    both, neither = difference(one, one), difference(zero, zero)
    upper, lower = difference(one, zero), difference(zero, one)
    with_one = F.pad(upper + both, (0, 0, 0, 1)) + F.pad(lower + both, (0, 0, 1, 0))
    with_zero = F.pad(lower + neither, (0, 0, 0, 1)) + F.pad(upper + neither, (0, 0, 1, 0))
    return with_one / 2, with_zero / 2, (upper + lower - both - neither) / 2


def transport_blocks(saliency: Grids, mask: Grids, *, cost: float) -> Int[Tensor, "batch blocks"]:
    """Which block comes to each place, so that what is salient lies where the mask is above 0.

    To bring block i to place j costs ``cost`` times the square of the distance, in sides of the
    image, and gains the saliency of i where the mask is above 0. All blocks ask for the place that
    suits them best; of several the one with most to gain gets it, and the others ask for another
    one in the next of n rounds, 8 at most. A place that nobody gets keeps its block.

    Arguments:
        saliency: By block, with the sum 1.
        mask: How much of each block will be seen.
        cost: Of moving a block across the image.

    Example:
        >>> saliency = torch.tensor([[[0.95, 0.05], [0.0, 0.0]]])
        >>> mask = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])  # only the second block is seen
        >>> transport_blocks(saliency, mask, cost=0.8)
        tensor([[1, 0, 2, 3]])
        >>> transport_blocks(saliency, mask, cost=1.0)  # too far
        tensor([[0, 1, 2, 3]])
    """
    n = saliency.shape[-1]
    index = torch.arange(n * n, device=saliency.device)
    place = torch.stack([index // n, index % n], dim=-1).float()
    distance = (place[:, None] - place).square().sum(dim=-1) / (n - 1) ** 2
    seen = (mask > 0).to(saliency).flatten(1)
    costs = cost * distance - saliency.flatten(1)[:, :, None] * seen[:, None]
    first = index.expand(len(saliency), -1)
    for _ in range(min(n, MOST_ROUNDS)):
        asked = costs.min(dim=-1)
        least = torch.full_like(asked.values, torch.inf)
        least = least.scatter_reduce(1, asked.indices, asked.values, "amin")
        is_least = asked.values == least.gather(1, asked.indices)
        first = torch.full_like(asked.indices, n * n).scatter_reduce(
            1, asked.indices, torch.where(is_least, index, n * n), "amin"
        )
        lost = first.gather(1, asked.indices) != index
        if lost.device.type == "cpu" and not lost.any():  # elsewhere to look would be to wait
            break
        costs.scatter_add_(-1, asked.indices[..., None], lost[..., None].to(costs))
    return torch.where(first < n * n, first, index)


def move_blocks(x: Images, origin: Int[Tensor, "batch blocks"]) -> Images:
    """The images with the block ``origin[j]`` in place j."""
    blocks = split_blocks(x, round(origin.shape[1] ** 0.5))
    moved = blocks.gather(1, origin[..., None].expand_as(blocks))
    return join_blocks(moved, x.shape[1:])
