"""MetaAugment: augmented images weighted by how learning from them would help."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.augmentation import AugmentedBatch, HeldOutBatch, HeldOutLearner, LossesOf
from instaaug.augmentation.checks import checked_losses
from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.drawn_operations import NARROW, RAND_OPERATIONS, DrawnOperations
from instaaug.methods.look_ahead import look_ahead_loss
from instaaug.methods.meta_policy import PairSampler, WeightNetwork
from instaaug.methods.operations import OPERATIONS, Interpolation, number_of
from instaaug.methods.registry import METHODS
from instaaug.networks.penultimate import PenultimateFeatures
from instaaug.shapes import Images

__all__ = ["MetaAugment", "SeenBatch"]

N_BINS = 1001  # as good as continuous: no two of them differ in what a byte can show
N_PERIODS = 50
HIGHEST = 10.0  # magnitudes of an embedding; 1 is added, or the weakest would not be seen
N_OPERATIONS = len(RAND_OPERATIONS)


@dataclass(frozen=True)
class SeenBatch(AugmentedBatch):
    """Augmented inputs with what the model sees in them.

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
    have after a step of gradient descent on that very objective. Pairs whose images weighed more
    of late are drawn more often (:class:`~instaaug.methods.meta_policy.PairSampler`).

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
        refresh_every: Steps until the probabilities of pairs are made anew, about an epoch; the
            latest 50 such periods count.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation, likewise.
        interpolation: How a warp reads between pixels: ``"nearest"`` or ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Side, or height and width, of what comes out; the input's own by default.

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
        numbers = torch.tensor([number_of(name) for name in RAND_OPERATIONS], device=x.device)
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
        return SeenBatch(**found, features=self._features(batch.inputs))

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
        features = batch.features if isinstance(batch, SeenBatch) else None
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
        """The weighted mean loss; in training the sampler takes down the weights."""
        losses = checked_losses(losses, batch).flatten()
        raw = self.raw_weights(batch).detach().to(losses)  # on training loss it would weigh ease
        if self.training and torch.is_grad_enabled():
            self.sampler.note(self.pairs(batch), raw)
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
            lambda call: losses_of(call(held_out.inputs), held_out.targets),
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
