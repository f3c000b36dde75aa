"""AdaAug: a policy chooses operations or boxes for each input by the classifier's features."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, HeldOutBatch, HeldOutLearner, LossesOf
from instaaug.distributions import ThetaDistribution
from instaaug.errors import ArgumentError
from instaaug.functional.probability import gumbel_top_k
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import (
    LEVELS,
    Interpolation,
    Operations,
    add_hole_places,
    operation_index,
    values_at,
)
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import TransformAugmenter
from instaaug.networks.encoders import PenultimateFeatures
from instaaug.networks.model_interface import unwrap_compiled
from instaaug.parameterizations import CropGrid, make_family
from instaaug.parameterizations.invariance import SMALL
from instaaug.shapes import Images, repeat_batch
from instaaug.spaces import Level
from instaaug.transforms import PAPER_LEVELS, Crop, Transform

__all__ = ["ADA_OPERATIONS", "AdaAugment", "AdaCrops", "AdaPolicy", "Candidates"]


Raw = Float[Tensor, "batch n_raw"]
MOST_ROWS = 128  # that the model sees at once


@dataclass(frozen=True)
class Candidates:
    """The m variants of each of B inputs whose features are mixed.

    Arguments:
        theta: What makes them, ``(m, B, D)``.
        weight: Their shares of the mixture, with gradient, ``(m, B)``.
        magnitude: With gradient, ``(m, B)``; the derivative of every pixel of a variant with
            respect to its magnitude is taken to be 1. None where variants have no magnitude.
    """

    theta: Float[Tensor, "m batch d"]
    weight: Float[Tensor, "m batch"]
    magnitude: Float[Tensor, "m batch"] | None = None


class AdaPolicy(TransformAugmenter, HeldOutLearner):
    r"""A linear map from the features of the classifier to a choice among candidates.

    With f the features of the model (what enters its last linear layer g) and p the policy, a
    held-out image x is judged by

    .. math:: \ell\Bigl(g\bigl(\textstyle\sum_j p_j(f(x))\, f(\tau_j(x))\bigr),\, y\Bigr),

    and only the policy learns from it. The model is in evaluation mode in all of these passes.
    :meth:`attach` creates the policy, as the number of features depends on the model.

    Arguments:
        transform: What happens to images.
        n_candidates: Variants whose features are mixed.
        temperature: Divides the logits where candidates are drawn, not where features are mixed.
        search_every: Batches per step of the policy.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width.
    """

    head: nn.Linear | None

    def __init__(
        self,
        transform: Transform,
        *,
        n_candidates: int,
        temperature: float,
        search_every: int,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        padding_mode: PaddingMode,
        size: int | tuple[int, int] | None,
    ) -> None:
        super().__init__(transform, mean=mean, std=std, padding_mode=padding_mode, size=size)
        if not temperature > 0:
            raise ArgumentError(
                f"`temperature` must be above 0: got {temperature}. 1 draws by the learned "
                "probabilities, a larger one makes them more uniform."
            )
        if search_every < 1:
            raise ArgumentError(f"`search_every` must be at least 1: got {search_every}.")
        self.n_candidates = n_candidates
        self.temperature, self.search_every = temperature, search_every
        self.head = None
        self._features: PenultimateFeatures | None = None

    @abstractmethod
    def make_head(self, n_features: int) -> nn.Linear:
        """The policy before it has learned anything."""

    @abstractmethod
    def candidates(self, raw: Raw, generator: Generator | None) -> Candidates:
        """The candidates of inputs for which the policy returned ``raw``."""

    @override
    def attach(self, model: nn.Module) -> None:
        """Read the features of ``model`` from now on; create the policy if there is none yet."""
        features = PenultimateFeatures(model)
        if self.head is None:
            self.head = self.make_head(features.n_features).to(features.head.weight.device)
        elif self.head.in_features != features.n_features:
            raise ArgumentError(
                f"`model` must have the {self.head.in_features} features that the policy reads: "
                f"got {features.n_features}. Make a new {type(self).__name__} for this model."
            )
        self._features = features

    def raw(self, x: Images, features: PenultimateFeatures | None = None) -> Raw:
        """The output of the policy for each input, with gradient to the policy alone.

        Arguments:
            x: Images as the augmenter takes them.
            features: Those to read; the attached model's by default.
        """
        features = features or self._features
        if features is None or self.head is None:
            raise ArgumentError(
                f"`model` must be known to {type(self).__name__}, which reads its features: got "
                "none. Call attach(model) first."
            )
        seen = self.canonical(x)
        read = torch.cat([features(part) for part in seen.split(MOST_ROWS)])
        return self.head(read.to(self.head.weight))

    @override
    def search_objective(
        self,
        model: nn.Module,
        batch: AugmentedBatch,
        held_out: HeldOutBatch,
        losses_of: LossesOf,
        generator: Generator | None = None,
    ) -> Float[Tensor, ""]:
        """The mean loss of mixed features.

        A few inputs at a time, which bounds the memory: the graph of each part is used up to find
        how its loss depends on the output of the policy, and a linear function with this value and
        gradient takes its place. So ``losses_of`` must not compare inputs.
        """
        features = self._features
        if features is None or features.model is not unwrap_compiled(model):
            features = PenultimateFeatures(model)
        raw = self.raw(held_out.inputs, features)
        at_once = max(1, MOST_ROWS // self.n_candidates)
        total = raw.new_zeros(())
        for start in range(0, len(raw), at_once):
            rows = slice(start, start + at_once)
            with torch.enable_grad():
                raw_part = raw[rows].detach().requires_grad_()
                found = self.candidates(raw_part, generator)
                mixed = self._mix_features(held_out.inputs[rows], found, features)
                loss = losses_of(features.head(mixed), held_out.targets[rows]).sum()
                (slope,) = torch.autograd.grad(loss, raw_part)
            total = total + loss.detach() + (slope * (raw[rows] - raw_part.detach())).sum()
        return total / len(raw)

    def _mix_features(
        self, x: Images, found: Candidates, features: PenultimateFeatures
    ) -> Float[Tensor, "batch n_features"]:
        n = len(found.theta)
        variants = self.render(repeat_batch(x, n), found.theta.flatten(0, 1))
        if found.magnitude is not None:
            nothing = (found.magnitude - found.magnitude.detach()).to(variants.dtype)
            variants = variants + nothing.flatten()[:, None, None, None]
        read = features(variants, gradient=found.magnitude is not None).unflatten(0, (n, -1))
        return torch.einsum("mb, mbf -> bf", found.weight.to(read.dtype), read)


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
    operation's range. The policy learns as :class:`AdaPolicy` describes,
    from all 17 operations at their magnitudes, with T = 1 and without δ. Pixels are taken to grow
    with the magnitude one to one, for most operations have no gradient.

    The defaults are the source's for CIFAR-10. It searches first (k = 1, T = 1, δ = 0) and trains
    another, larger network with the result; here one network is trained with the policy that it
    teaches. The source grays holes with (125, 123, 114), here with the middle of the range. Moves
    and turns go in either direction with equal probability, as there.

    Arguments:
        n_operations: k, operations per input.
        temperature: T; larger values make the probabilities of operations more uniform.
        delta: δ, by how much magnitudes are moved at most.
        search_every: Batches per step of the policy.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width; the input's own by default.

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
        numbers = torch.tensor([operation_index(name) for name in ADA_OPERATIONS])
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
        value = add_hole_places(operation, values_at(operation, level, coin), generator)
        return torch.stack([operation.to(value.dtype), value], dim=-1)

    @override
    def extra_repr(self) -> str:
        return (
            f"{self.n_operations} of {N} operations, temperature {self.temperature:g}, magnitudes "
            f"± {self.delta:g}, search every {self.search_every} steps"
        )


@METHODS.register("adacrops")
class AdaCrops(AdaPolicy):
    r"""Draws one box of a grid for each input, by a policy that learns as AdaAug's does.

    InstaAug's boxes with AdaAug's way of learning: a linear map of the classifier's features gives
    a logit per box, and learns from the loss of mixed features on held-out images; see
    :class:`AdaPolicy`. Boxes have no magnitudes. Where there are more than ``max_explored``, so
    many are drawn uniformly for each held-out image, without replacement, and the policy's
    probabilities are renormalized over them.

    Arguments:
        levels: Pairs (size, n): ``n`` × ``n`` boxes of that fraction of the image side.
        max_outside: Share of a box, per axis, that may lie outside; boxes beyond are moved
            inwards.
        grid: Boxes that take the place of the levels.
        initial_entropy: Of the first policy, in nats. Like InstaAug's it prefers large boxes; the
            default is the middle of the band that was best in the paper. From log K on the policy
            is uniform.
        temperature: Divides the logits where boxes are drawn.
        max_explored: Most boxes per held-out image whose features are mixed.
        search_every: Batches per step of the policy.
        mean: Per-channel mean the images were normalized with.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    References:
        | Instance-Specific Augmentation: Capturing Local Invariances (Miao et al., 2022)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug = AdaCrops(levels=[(0.5, 2), (1.0, 1)])
        >>> aug.attach(SmallCNN(10))
        >>> aug.draw(torch.rand(2, 3, 32, 32), n_samples=4).shape
        torch.Size([4, 2, 4])
    """

    def __init__(
        self,
        *,
        levels: Sequence[Level] = PAPER_LEVELS,
        max_outside: float = 1.0,
        grid: CropGrid | None = None,
        initial_entropy: float = 3.25,
        temperature: float = 1.0,
        max_explored: int = 17,
        search_every: int = 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        if max_explored < 2:
            raise ArgumentError(
                "`max_explored` must be at least 2, or there is nothing to mix: got "
                f"{max_explored}. AdaAug mixes 17."
            )
        crop = Crop(tuple(levels), max_outside=max_outside)
        grid = grid or CropGrid(crop.levels, max_outside=max_outside)
        super().__init__(
            crop, n_candidates=min(max_explored, len(grid)), temperature=temperature,
            search_every=search_every, mean=mean, std=std, padding_mode=padding_mode, size=size,
        )  # fmt: skip
        self.grid, self.initial_entropy = grid, initial_entropy
        self.family = make_family(crop.spaces["box"], grid)

    @override
    def make_head(self, n_features: int) -> nn.Linear:
        head = nn.Linear(n_features, len(self.grid))
        with torch.no_grad():
            head.weight.mul_(SMALL)
            head.bias.copy_(self.family.raw_at(self.initial_entropy))
        return head

    def distribution(self, x: Images) -> ThetaDistribution:
        """What boxes are drawn from for each input."""
        return self.family(self.raw(x) / self.temperature)

    @override
    @torch.no_grad()
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        boxes = self.distribution(x)
        return boxes.theta(boxes.draw(n_samples, generator=generator))

    @override
    @torch.no_grad()
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: str = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        boxes = self.distribution(x)
        if select == "top":
            return boxes.theta(boxes.spread(n_samples))
        return boxes.theta(boxes.draw(n_samples, replace=replace, generator=generator))

    @override
    def candidates(self, raw: Raw, generator: Generator | None) -> Candidates:
        uniform = torch.zeros_like(raw.detach())
        which = gumbel_top_k(uniform, self.n_candidates, generator=generator)
        weight = raw.T.gather(0, which).softmax(dim=0)
        return Candidates(self.family(raw).theta(which), weight)

    @override
    def extra_repr(self) -> str:
        return (
            f"{self.grid.description}, temperature {self.temperature:g}, {self.n_candidates} "
            f"explored every {self.search_every} steps"
        )
