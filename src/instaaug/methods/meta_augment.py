"""MetaAugment: augmented images weighted by how learning from them would help."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import log

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, autograd, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, HeldOutBatch, HeldOutLearner, LossesOf
from instaaug.augmentation.checks import check_losses
from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import (
    NARROW,
    OPERATIONS,
    RAND_OPERATIONS,
    DrawnOperations,
    Interpolation,
    operation_index,
)
from instaaug.methods.registry import METHODS
from instaaug.networks.encoders import PenultimateFeatures
from instaaug.networks.model_interface import evaluation_mode, run_eagerly, unwrap_compiled
from instaaug.shapes import Images

__all__ = [
    "BatchWithFeatures",
    "Call",
    "LossesOfModel",
    "MetaAugment",
    "PairSampler",
    "WeightNetwork",
    "look_ahead_loss",
]


Call = Callable[[Tensor], Tensor]
"""The model, as a function."""

LossesOfModel = Callable[[Call], Float[Tensor, " rows"]]
"""From a model to one loss per input."""


def look_ahead_loss(
    model: nn.Module,
    weights: Float[Tensor, " rows"],
    train_losses: LossesOfModel,
    held_out_losses: LossesOfModel,
    *,
    learning_rate: float,
) -> Float[Tensor, ""]:
    r"""The mean held-out loss after one step of gradient descent on the weighted training loss.

    .. math:: L\Big(f - \eta \sum_i w_i \nabla \ell_i(f)\Big), \qquad
        \frac{\partial L}{\partial w_i} = -\eta\, \nabla L \cdot \nabla \ell_i(f)

    The value is that of the formula, the gradient reaches ``weights`` and nothing else. Neither
    parameters, gradients, buffers nor torch's random state change. The training losses are those
    of the model in its present mode; the held-out ones those of evaluation.

    Arguments:
        model: Any module; parameters that do not learn do not take the step.
        weights: w, one per training loss, with gradient.
        train_losses: Calls the model it is given and returns one loss per training input.
        held_out_losses: Calls the model it is given and returns one loss per held-out input.
        learning_rate: η.

    Example:
        >>> model, x = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
        >>> nn.init.zeros_(model.weight)
        Parameter containing:
        tensor([[0.]], requires_grad=True)
        >>> weights = torch.ones(1, requires_grad=True)
        >>> loss = look_ahead_loss(
        ...     model,
        ...     weights,
        ...     lambda f: f(x)[:, 0],  # the slope is 1, so the parameter goes to -0.5
        ...     lambda f: (f(x)[:, 0] - 1) ** 2,
        ...     learning_rate=0.5,
        ... )
        >>> loss.item(), torch.autograd.grad(loss, weights)[0].item()  # 1.5², 2·1.5·0.5
        (2.25, 1.5)
    """
    model, used = unwrap_compiled(model), weights.detach()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with (
        run_eagerly(model),
        sdpa_kernel(SDPBackend.MATH),
    ):  # others lack forward derivatives
        with torch.enable_grad(), _swap_parameters(model, learned) as call:
            gradient = _gradient(train_losses(call), learned, used)
        stepped = {
            name: (p.detach() - learning_rate * gradient[name]).requires_grad_()
            for name, p in learned.items()
        }
        with torch.enable_grad(), evaluation_mode(model), _swap_parameters(model, stepped) as call:
            held_out = held_out_losses(call)
            slope = _gradient(held_out, stepped, torch.full_like(held_out, 1 / len(held_out)))
        # ∇L·∇ℓ for all inputs at once is the derivative of the losses along ∇L: one more forward
        # pass with dual numbers. Backward through the step, the textbook way, gives the same
        # numbers in about the same time, but keeps the graph of the gradient in memory as well.
        with torch.no_grad(), _dual_numbers():
            moving = {
                name: forward_ad.make_dual(p.detach(), slope[name]) for name, p in learned.items()
            }
            with _swap_parameters(model, moving) as call:
                tangent = forward_ad.unpack_dual(train_losses(call)).tangent
    effect = torch.zeros_like(used) if tangent is None else -learning_rate * tangent
    return held_out.detach().mean() + (effect.to(weights) * (weights - used)).sum()


def _gradient(
    losses: Tensor, parameters: Mapping[str, Tensor], weights: Tensor
) -> dict[str, Tensor]:
    """The gradient of the weighted sum of the losses; zero where a parameter has no part."""
    found = autograd.grad(
        losses, list(parameters.values()), weights.to(losses), materialize_grads=True
    )
    return dict(zip(parameters, found, strict=True))


@contextmanager
def _dual_numbers() -> Iterator[None]:
    """Forward-mode derivatives, without the deprecation warnings of torch's own rules."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)
        with forward_ad.dual_level():
            yield


@contextmanager
def _swap_parameters(model: nn.Module, parameters: Mapping[str, Tensor]) -> Iterator[Call]:
    """The model with other parameters and with copies of its buffers.

    Every pass begins in torch's present random state and leaves it alone, so that dropout drops
    the same in the two passes over the training inputs, and in the model's own step.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = {p.device for p in parameters.values() if p.device.type == "cuda"}

    def call(x: Tensor) -> Tensor:
        return functional_call(model, {**parameters, **buffers}, (x,))

    with torch.random.fork_rng(devices=sorted(devices, key=str)):
        yield call


N_HIDDEN = 100


class WeightNetwork(nn.Module):
    """From features of an image and an embedding of what happened to it to a weight in (0, 1).

    Arguments:
        n_features: Of the image.
        n_embedding: Of what happened to it.

    Example:
        >>> network = WeightNetwork(512, 28)
        >>> network(torch.rand(4, 512), torch.rand(4, 28)).shape
        torch.Size([4])
    """

    def __init__(self, n_features: int, n_embedding: int) -> None:
        super().__init__()
        self.n_features = n_features
        self.of_features = nn.Linear(n_features, N_HIDDEN)
        self.of_embedding = nn.Linear(n_embedding, N_HIDDEN)
        self.weight = nn.Linear(2 * N_HIDDEN, 1)

    @override
    def forward(
        self, features: Float[Tensor, "rows features"], embedding: Float[Tensor, "rows embedding"]
    ) -> Float[Tensor, " rows"]:
        hidden = torch.cat([self.of_features(features), self.of_embedding(embedding)], dim=-1)
        return self.weight(hidden.relu()).sigmoid()[:, 0]


class PairSampler(nn.Module):
    r"""Draws ordered pairs of K operations in proportion to their recent mean weight.

    .. math:: p_{jk} = (1 - \varepsilon)\, \frac{\bar w_{jk}}{\sum \bar w} + \varepsilon / K^2

    :math:`\bar w_{jk}` is the mean weight of the images that pair (j, k) made in the latest
    periods; a pair that made none counts as 1, the most, so that it will. All state lies in
    buffers.

    Arguments:
        n_operations: K.
        epsilon: ε, the share of all draws that is uniform.
        period: Batches between updates of the probabilities.
        n_periods: How many of the latest periods count.

    Example:
        >>> sampler = PairSampler(2, epsilon=0.1, period=1, n_periods=50)
        >>> pairs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> sampler.record(pairs, torch.tensor([0.0, 0.25, 0.25, 0.5]))
        >>> sampler.probs  # 0.9 of the weights, and 0.1 / 4
        tensor([[0.0250, 0.2500],
                [0.2500, 0.4750]])
    """

    sums: Tensor
    counts: Tensor
    n_batches: Tensor
    probs: Tensor

    def __init__(self, n_operations: int, *, epsilon: float, period: int, n_periods: int) -> None:
        super().__init__()
        self.n_operations, self.epsilon = n_operations, epsilon
        self.period, self.n_periods = period, n_periods
        shape = (n_operations, n_operations)
        self.register_buffer("sums", torch.zeros(n_periods, *shape))
        self.register_buffer("counts", torch.zeros(n_periods, *shape))
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))
        self.register_buffer("probs", torch.full(shape, 1 / n_operations**2))

    def draw(
        self, shape: tuple[int, int], *, generator: Generator | None, device: torch.device
    ) -> Int[Tensor, "n batch 2"]:
        """Pairs of operations, by their numbers from 0 to K - 1."""
        probs = self.probs.flatten().to(device)
        n = shape[0] * shape[1]
        which = torch.multinomial(probs, n, replacement=True, generator=generator).view(shape)
        first = which.div(self.n_operations, rounding_mode="floor")
        return torch.stack([first, which % self.n_operations], dim=-1)

    @torch.no_grad()
    def record(self, pairs: Int[Tensor, "rows 2"], weights: Float[Tensor, " rows"]) -> None:
        """Record the weights of a batch; at the end of a period update the probabilities."""
        n_before = int(self.n_batches)
        slot = n_before // self.period % self.n_periods
        if n_before % self.period == 0:  # what was there is out of date
            self.sums[slot] = 0
            self.counts[slot] = 0
        place = (pairs[:, 0], pairs[:, 1])
        weights = weights.to(self.sums)
        self.sums[slot].index_put_(place, weights, accumulate=True)
        self.counts[slot].index_put_(place, torch.ones_like(weights), accumulate=True)
        self.n_batches += 1
        if (n_before + 1) % self.period == 0:
            self._refresh()

    def _refresh(self) -> None:
        counts = self.counts.sum(dim=0)
        mean = torch.where(counts > 0, self.sums.sum(dim=0) / counts.clamp(min=1), 1.0)
        share = mean / mean.sum().clamp(min=torch.finfo(mean.dtype).tiny)
        self.probs.copy_((1 - self.epsilon) * share + self.epsilon / self.n_operations**2)

    @property
    def relative_entropy(self) -> Float[Tensor, ""]:
        """Entropy of what is drawn, as a share of the most there can be, log K²."""
        entropy = torch.special.entr(self.probs).sum()
        return entropy / log(self.n_operations**2)


N_BINS = 1001  # nearly continuous: neighbors differ by less than a level of a byte
N_PERIODS = 50
HIGHEST = 10.0  # magnitudes of an embedding; 1 is added, or the weakest would be 0
N_OPERATIONS = len(RAND_OPERATIONS)


@dataclass(frozen=True)
class BatchWithFeatures(AugmentedBatch):
    """Augmented inputs with the model's features of them.

    Arguments:
        features: The model's penultimate features, ``(n * B, F)``.
    """

    features: Tensor | None = None


@METHODS.register("metaaugment")
class MetaAugment(DrawnOperations, HeldOutLearner):
    r"""Draws pairs of 14 operations, and lets the model learn more from those that help.

    A policy network gives each augmented image a weight :math:`w_i` in (0, 1), from the model's
    own features of it and from which operations made it, how strong. The model minimizes

    .. math:: \sum_i \frac{w_i}{\sum_j w_j}\, \ell_i.

    The policy looks one step ahead: it minimizes the loss on held-out images that the model would
    have after a step of gradient descent on that very objective. Pairs whose images had
    larger weights recently are drawn more often (:class:`PairSampler`).

    Magnitudes are uniform, in the ranges of :class:`~instaaug.methods.RandAugment`; half of the
    signed ones go in the other direction. The embedding has a slot for each operation at each of
    two places, with 1 to 11 for its magnitude, 11 if it takes none, and 0 elsewhere.

    It departs from the unofficial source (the authors published no code) as follows. Features are
    those of evaluation mode, so that an image's weight does not depend on its neighbors. An
    "epoch" of the sampler is a number of steps. Images are not also cropped, flipped and cut out.

    Arguments:
        inner_learning_rate: Of the step ahead.
        epsilon: Share of the draws that is uniform over all pairs.
        search_every: Batches per step of the policy.
        refresh_every: Steps between updates of the probabilities of pairs, about an epoch; the
            latest 50 such periods count.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels: ``"nearest"`` or ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width; the input's own by default.

    References:
        | MetaAugment: Sample-Aware Data Augmentation Policy Learning (Zhou et al., 2021)
        | https://arxiv.org/abs/2012.12076

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> aug, model = MetaAugment(), SmallCNN(10)
        >>> aug.attach(model)
        >>> batch = aug(torch.rand(4, 3, 32, 32), targets=torch.arange(4))
        >>> round(float(aug.weights(batch).sum().detach()), 4)
        1.0
        >>> losses = nn.CrossEntropyLoss(reduction="none")(model(batch.inputs), batch.targets)
        >>> aug.objective(losses, batch).shape
        torch.Size([])
    """

    averages_views = False

    def __init__(
        self,
        *,
        inner_learning_rate: float = 0.01,
        epsilon: float = 0.1,
        search_every: int = 1,
        refresh_every: int = 100,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            2, NARROW, N_BINS, mean=mean, std=std, interpolation=interpolation,
            padding_mode=padding_mode, size=size,
        )  # fmt: skip
        _check(inner_learning_rate, epsilon, search_every, refresh_every)
        self.inner_learning_rate, self.search_every = inner_learning_rate, search_every
        self.sampler = PairSampler(
            N_OPERATIONS, epsilon=epsilon, period=refresh_every, n_periods=N_PERIODS
        )
        self.policy: WeightNetwork | None = None
        self._features: PenultimateFeatures | None = None

    @override
    def attach(self, model: nn.Module) -> None:
        features = PenultimateFeatures(model)  # no module, so that the model stays outside
        n_features, device = features.n_features, features.head.weight.device
        if self.policy is None:
            self.policy = WeightNetwork(n_features, 2 * N_OPERATIONS).to(device)
        elif self.policy.n_features != n_features:
            raise ArgumentError(
                f"`model` must have the {self.policy.n_features} features that the policy reads: "
                f"got {n_features}. Make a new MetaAugment for this model."
            )
        self._features = features

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        shape = (n_samples, len(x))
        pairs = self.sampler.draw(shape, generator=generator, device=x.device)
        bins = torch.randint(self.n_bins, pairs.shape, generator=generator, device=x.device)
        numbers = torch.tensor(
            [operation_index(name) for name in RAND_OPERATIONS], device=x.device
        )
        return self.signed_theta(x, numbers[pairs], bins, generator)

    @override
    def forward(
        self,
        x: Images,
        n_samples: int = 1,
        generator: Generator | None = None,
        targets: Tensor | None = None,
    ) -> AugmentedBatch:
        batch = super().forward(x, n_samples, generator, targets)
        if self._features is None:  # pictures need no model
            return batch
        found = {field.name: getattr(batch, field.name) for field in fields(batch)}
        return BatchWithFeatures(**found, features=self._features(batch.inputs))

    def pairs(self, batch: AugmentedBatch) -> Int[Tensor, "rows 2"]:
        """Which of the 14 operations made each augmented image, in their order."""
        places = [RAND_OPERATIONS.index(n) if n in RAND_OPERATIONS else -1 for n in OPERATIONS]
        number = batch.theta.flatten(0, 1)[:, ::2].round().long()
        return torch.tensor(places, device=number.device)[number]

    def embedding(self, batch: AugmentedBatch) -> Float[Tensor, "rows 28"]:
        """What happened to each augmented image: operations and magnitudes, without signs."""
        theta = batch.theta.flatten(0, 1)
        number, value = theta[:, ::2].round().long(), theta[:, 1::2].abs()
        height, width = batch.inputs.shape[-2:]
        ends = self.magnitudes.table(2, height=height, width=width).to(theta)
        weakest, strongest = ends[number].unbind(dim=-1)
        span = strongest - weakest
        share = torch.where(span == 0, 1.0, (value - weakest) / torch.where(span == 0, 1.0, span))
        slots = nn.functional.one_hot(self.pairs(batch), N_OPERATIONS)
        return (slots * (1 + HIGHEST * share)[..., None]).flatten(1)

    def raw_weights(self, batch: AugmentedBatch) -> Float[Tensor, " rows"]:
        """What the policy gives each augmented image, in (0, 1), with gradient."""
        features = batch.features if isinstance(batch, BatchWithFeatures) else None
        if features is None or self.policy is None:
            raise ArgumentError(
                "`batch` must come from an augmenter that knows the model: got one without "
                "features. Call attach(model) before the augmenter."
            )
        like = self.policy.of_features.weight
        return self.policy(features.to(like), self.embedding(batch).to(like))

    def weights(self, batch: AugmentedBatch) -> Float[Tensor, " rows"]:
        """The share of each augmented image in the objective; they add up to one."""
        raw = self.raw_weights(batch)
        return raw / raw.sum()

    @override
    def objective(self, losses: Tensor, batch: AugmentedBatch) -> Tensor:
        """The weighted mean loss; in training the sampler records the weights."""
        losses = check_losses(losses, batch).flatten()
        # Detached: from the training loss the policy would learn to prefer easy images.
        raw = self.raw_weights(batch).detach().to(losses)
        if self.training and torch.is_grad_enabled():
            self.sampler.record(self.pairs(batch), raw)
        return (raw / raw.sum() * losses).sum()

    @override
    def search_objective(
        self,
        model: nn.Module,
        batch: AugmentedBatch,
        held_out: HeldOutBatch,
        losses_of: LossesOf,
        generator: Generator | None = None,
    ) -> Float[Tensor, ""]:
        """The loss on held-out images after a step on the weighted loss of ``batch``."""
        return look_ahead_loss(
            model,
            self.weights(batch),
            lambda call: _losses(batch, call(batch.inputs), losses_of),
            lambda call: losses_of(call(self.canonical(held_out.inputs)), held_out.targets),
            learning_rate=self.inner_learning_rate,
        )

    @override
    def monitor(self, batch: AugmentedBatch) -> Mapping[str, Tensor]:
        """Mean and spread of the raw weights, and how far the draws are from uniform."""
        with torch.no_grad():
            raw = self.raw_weights(batch)
            return {
                "policy/weight": raw.mean(),
                "policy/weight_spread": raw.std(unbiased=False),
                "policy/diversity": self.sampler.relative_entropy,
            }

    @override
    def extra_repr(self) -> str:
        return f"pairs of {N_OPERATIONS} operations, weighted after one step ahead"


def _losses(batch: AugmentedBatch, outputs: Tensor, losses_of: LossesOf) -> Tensor:
    return batch.losses(lambda targets: losses_of(outputs, targets))


def _check(
    inner_learning_rate: float, epsilon: float, search_every: int, refresh_every: int
) -> None:
    if not inner_learning_rate > 0:
        raise ArgumentError(
            f"`inner_learning_rate` must be positive: got {inner_learning_rate}. 0.01 is usual."
        )
    if not 0 < epsilon <= 1:
        raise ArgumentError(
            f"`epsilon` must lie in (0, 1], or a pair could vanish: got {epsilon}. 0.1 is usual."
        )
    for name, value in (("search_every", search_every), ("refresh_every", refresh_every)):
        if value < 1:
            raise ArgumentError(f"`{name}` must be a number of steps from 1 on: got {value}.")
