"""Methods that mix the inputs of a batch; of these, MixUp and CutMix."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import isfinite

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch
from instaaug.augmentation.augmenter import TASKS
from instaaug.errors import ArgumentError
from instaaug.functional.probability import host_generator
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import SimpleAugmenter
from instaaug.shapes import Images, Rendered, Rows, Scalars, match_layout, repeat_batch

__all__ = [
    "CutMix",
    "MixUp",
    "MixingAugmenter",
    "Mixture",
    "PairMixer",
    "PixelMixer",
    "box_pixels",
    "check_alpha",
    "draw_beta",
    "draw_boxes",
    "draw_partners",
]


SMALLEST, LARGEST = 1e-6, 1e6  # beyond them λ is 0, 1 or 1/2 but for rounding


@dataclass(frozen=True)
class Mixture:
    """Inputs that consist of several inputs of a batch.

    Arguments:
        inputs: The mixtures, ``(n * B, C, H, W)``.
        partners: Which inputs are in each of them besides its own, ``(k, n * B)``.
        shares: How much of each is its own, and how much is each partner's, ``(1 + k, n * B)``.
        added_loss: What the method adds to the mean loss.
    """

    inputs: Images
    partners: Int[Tensor, "k rows"]
    shares: Float[Tensor, "parts rows"]
    added_loss: Float[Tensor, ""] | None = None


class MixingAugmenter(SimpleAugmenter):
    r"""Mixes every input with others of its batch.

    Of a mixture that is to the share λ the input's own, the loss is mixed to the same share
    (:meth:`AugmentedBatch.losses <instaaug.augmentation.AugmentedBatch.losses>`), which for
    cross-entropy is the loss of the mixed labels and works for every other loss as well.

    Only ``forward`` mixes, for it takes the other inputs. :meth:`render`, and with it every view
    at test time, leaves images as they are, but for their size.

    Arguments:
        size: Output side; the input's own by default.
    """

    tasks = TASKS - {"contrastive"}
    needs_labels = True
    averages_views = False
    changes_single_images = False

    def __init__(self, *, size: int | None = None) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def mix_batch(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        targets: Tensor | None,
        generator: Generator | None,
    ) -> Mixture:
        """The mixtures that θ says, ``n`` of each input."""

    @override
    def render(self, x: Images, theta: Float[Tensor, "batch d"]) -> Rendered:
        """The images as they are, but for their size."""
        return self.canonical(x)

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        x = self.canonical(x)
        batch = super().forward(x, n_samples, generator, targets)
        mixture = self.mix_batch(x, batch.theta, targets, generator)
        return replace(
            batch,
            inputs=match_layout(batch.inputs, mixture.inputs),
            partner_targets=None if targets is None else targets[mixture.partners],
            shares=mixture.shares,
            added_loss=mixture.added_loss,
        )


class PairMixer(MixingAugmenter):
    r"""Mixes every input with one partner, drawn as a random permutation of the batch.

    θ says how an input is mixed and, in its last column, with which input of the batch.

    Arguments:
        alpha: α of the law of λ, Beta(α, α).
        size: Output side; the input's own by default.
    """

    def __init__(self, alpha: float, *, size: int | None = None) -> None:
        super().__init__(size=size)
        check_alpha(alpha)
        self.alpha = float(alpha)

    def draw_amounts(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch m"]:
        """How much of its partner each input takes: all columns of θ but the last.

        Here it is λ, one for the whole batch.
        """
        share = draw_beta(self.alpha, (n_samples, 1, 1), like=x, generator=generator)
        return share.float().expand(-1, len(x), -1)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        amounts = self.draw_amounts(x, n_samples, generator)
        return torch.cat([amounts, draw_partners(x, n_samples, generator)[..., None]], dim=-1)


class PixelMixer(PairMixer):
    """Mixes by θ alone, whatever is in the images."""

    @abstractmethod
    def mix(self, own: Images, partner: Images, amounts: Rows) -> tuple[Images, Scalars]:
        """Images mixed with their partners, row by row, and the share that is their own."""

    @override
    def mix_batch(
        self,
        x: Images,
        theta: Float[Tensor, "n batch d"],
        targets: Tensor | None,
        generator: Generator | None,
    ) -> Mixture:
        rows = theta.flatten(0, 1)
        partner = rows[:, -1].long()
        inputs, share = self.mix(repeat_batch(x, len(theta)), x[partner], rows[:, :-1])
        return Mixture(inputs, partner[None], torch.stack([share, 1 - share]))


def check_alpha(alpha: float) -> None:
    """Raise unless Beta(α, α) can be drawn from."""
    if not (isfinite(alpha) and SMALLEST <= alpha <= LARGEST):
        raise ArgumentError(
            f"`alpha` must be a number from {SMALLEST:g} to {LARGEST:g}: got {alpha}. 1 makes all "
            "shares equally likely, less than 1 those near 0 and 1."
        )


def draw_partners(
    x: Images, n_samples: int, generator: Generator | None
) -> Float[Tensor, "n batch"]:
    """A random permutation of the inputs for each sample."""
    order = [
        torch.randperm(len(x), generator=generator, device=x.device) for _ in range(n_samples)
    ]
    return torch.stack(order).float()


def draw_beta(
    alpha: float, shape: tuple[int, ...], *, like: Tensor, generator: Generator | None
) -> Float[Tensor, "*shape"]:
    """Numbers from Beta(α, α), in float64 where there is such, on the device of ``like``.

    The first of two gamma variables has the share λ of their sum. A gamma variable of shape α is
    one of shape α + 1 times U^(1/α), which would vanish for a small α and is kept as a logarithm.

    Example:
        >>> seeded = torch.Generator().manual_seed(0)
        >>> share = draw_beta(2.0, (10_000,), like=torch.zeros(()), generator=seeded)
        >>> round(float(share.mean()), 1), round(float(share.var()), 2)  # 1/2 and 1/20
        (0.5, 0.05)
    """
    on_host = like.device.type == "mps"  # which has neither float64 nor this draw
    device = "cpu" if on_host else like.device
    generator = host_generator(generator) if on_host else generator
    one_more = torch.full((2, *shape), alpha + 1, dtype=torch.float64, device=device)
    # What torch.distributions draws from, and the only way to give it a generator.
    gamma = torch._standard_gamma(one_more, generator=generator)  # noqa: SLF001
    uniform = torch.empty_like(one_more).uniform_(generator=generator)
    first, second = gamma.log() + uniform.log() / alpha
    share = (first - second).sigmoid()
    return share.float().to(like.device) if on_host else share


@METHODS.register("mixup")
class MixUp(PixelMixer):
    r"""Blends every input and its loss with those of another input of the batch.

    .. math:: \tilde x_i = \lambda\,x_i + (1 - \lambda)\,x_{\pi(i)}, \qquad
              \ell_i = \lambda\,\ell(f(\tilde x_i), y_i)
                       + (1 - \lambda)\,\ell(f(\tilde x_i), y_{\pi(i)})

    with λ from Beta(α, α), one for the whole batch as in the source's code, and a random
    permutation π. θ is λ and π(i). At test time nothing is mixed.

    Arguments:
        alpha: α; 1 is the source's for small images, 0.2 for ImageNet.
        per_input: Whether every input has a λ of its own.
        size: Output side; the input's own by default.

    References:
        | mixup: Beyond Empirical Risk Minimization (Zhang et al., 2018)
        | https://arxiv.org/abs/1710.09412

    Example:
        >>> x, y = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1])
        >>> batch = MixUp()(x, targets=y)
        >>> blend = batch.shares[0] * batch.targets + batch.shares[1] * batch.partner_targets[0]
        >>> torch.allclose(batch.inputs.flatten(), blend)
        True
    """

    def __init__(
        self, *, alpha: float = 1.0, per_input: bool = False, size: int | None = None
    ) -> None:
        super().__init__(alpha, size=size)
        self.per_input = per_input

    @override
    def draw_amounts(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch m"]:
        shape = (n_samples, len(x) if self.per_input else 1, 1)
        share = draw_beta(self.alpha, shape, like=x, generator=generator)
        return share.float().expand(-1, len(x), -1)

    @override
    def mix(self, own: Images, partner: Images, amounts: Rows) -> tuple[Images, Scalars]:
        share = amounts[:, 0]
        return torch.lerp(partner, own, share.to(own.dtype)[:, None, None, None]), share

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, a share per {'input' if self.per_input else 'batch'}"


@METHODS.register("cutmix")
class CutMix(PixelMixer):
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
        size: Output side; the input's own by default.

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

    def __init__(
        self, *, alpha: float = 1.0, probability: float = 1.0, size: int | None = None
    ) -> None:
        super().__init__(alpha, size=size)
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
        return draw_boxes(x, side, generator)[:, None].float().expand(-1, len(x), -1)

    @override
    def mix(self, own: Images, partner: Images, amounts: Rows) -> tuple[Images, Scalars]:
        left, right, top, bottom = amounts.unbind(-1)
        share = 1 - (right - left) * (bottom - top) / (own.shape[-2] * own.shape[-1])
        return torch.where(box_pixels(own, amounts), partner, own), share

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, probability {self.probability:g}"


def draw_boxes(
    x: Images, side: Float[Tensor, "*shape"], generator: Generator | None
) -> Int[Tensor, "*shape 4"]:
    """Left, right, top and bottom of boxes in pixels; their centers are drawn uniformly.

    Arguments:
        x: Images.
        side: Of each box, in sides of the image.
        generator: Source of randomness.
    """
    edges: list[Tensor] = []
    for n_pixels in (x.shape[-1], x.shape[-2]):
        half = (side * n_pixels).long() // 2
        center = torch.randint(n_pixels, half.shape, generator=generator, device=x.device)
        edges += [(center - half).clamp(min=0), (center + half).clamp(max=n_pixels)]
    return torch.stack(edges, dim=-1)


def box_pixels(
    x: Images, boxes: Float[Tensor, "batch edges"]
) -> Bool[Tensor, "batch 1 height width"]:
    """Which pixels lie in the box of their image."""
    left, right, top, bottom = boxes[..., None].unbind(1)
    row, column = (torch.arange(n_pixels, device=x.device) for n_pixels in x.shape[-2:])
    inside = (row >= top) & (row < bottom), (column >= left) & (column < right)
    return (inside[0][:, :, None] & inside[1][:, None])[:, None]
