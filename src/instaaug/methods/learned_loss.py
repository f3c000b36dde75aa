"""Learned loss: a network predicts which of twelve fixed changes suits an input."""

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, radians

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.augmentation.at_test_time import Merge
from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import Operations, operation_index
from instaaug.methods.simple import TransformAugmenter
from instaaug.networks import feature_channels, make_network
from instaaug.shapes import Images, Maps, Rows, check_finite, check_images

__all__ = [
    "CANDIDATES",
    "LearnedLoss",
    "LossPredictor",
    "RankTraining",
    "hard_ranks",
    "ranking_loss",
    "shrink",
    "soft_ranks",
]


SIDE = 64
DROPOUT = 0.3
RIGHT_ENOUGH = 0.05
PENALTY = 1e-5
AVERAGING = 0.999


def shrink(x: Images) -> Maps:
    """The images at 64 × 64 pixels, as the predictor sees them; larger ones are averaged."""
    if x.shape[-2:] == (SIDE, SIDE):
        return x
    return F.interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=True)


class LossPredictor(nn.Module):
    """A score per candidate; the higher, the smaller the loss is predicted to be.

    The source takes EfficientNet-B0. This is φ's ``pyramid`` trunk, twice as wide: 16, 32 and 64
    channels at 64 × 64 pixels. The mean of every channel of all three stages enters one linear
    layer.

    Arguments:
        n_candidates: Number of scores.
        in_channels: Channels of the images.
        width: Multiplies the channels of the trunk.
    """

    def __init__(self, n_candidates: int, *, in_channels: int = 3, width: float = 2.0) -> None:
        super().__init__()
        self.trunk = make_network("pyramid", in_channels=in_channels, width=width)
        n_features = sum(feature_channels(self.trunk, in_channels=in_channels))
        self.linear = nn.Linear(n_features, n_candidates)

    def features(self, x: Images) -> Rows:
        """The mean of every channel of every stage."""
        return torch.cat([F.relu(m).mean(dim=(2, 3)) for m in self.trunk(shrink(x))], dim=-1)

    @override
    def forward(self, x: Images) -> Rows:
        return self.linear(self.features(x))


def hard_ranks(losses: Rows) -> Rows:
    """1 for the smallest of a row, 2 for the next; equal ones share the mean of their ranks.

    Example:
        >>> hard_ranks(torch.tensor([[0.3, 0.1, 0.3]]))
        tensor([[2.5000, 1.0000, 2.5000]])
    """
    own, other = losses[:, :, None], losses[:, None, :]
    return 0.5 + (other < own).float().sum(dim=-1) + 0.5 * (other == own).float().sum(dim=-1)


def soft_ranks(scores: Rows) -> Rows:
    r"""About 1 for the largest of a row, 2 for the next: differentiable.

    .. math:: r_i = 1 + \sum_{j \ne i} \sigma(s_j - s_i)
    """
    return 0.5 + (scores[:, None, :] - scores[:, :, None]).sigmoid().sum(dim=-1)


def ranking_loss(scores: Rows, losses: Rows) -> Float[Tensor, ""]:
    """Mean squared error of the ranks, as shares of their number; small errors count as none.

    As in the source, an entry whose squared error is 0.05 or less is right enough.
    """
    error = (soft_ranks(scores) - hard_ranks(losses)) / scores.shape[1]
    squared = error.square()
    return torch.where(squared > RIGHT_ENOUGH, squared, 0.0).mean()


class RankTraining:
    """Trains a predictor on a table of losses; its weights become their running average.

    Arguments:
        predictor: What learns.
        mirror: Which column of the table a mirrored image has in place of each.
        learning_rate: At the start; it falls to 0 along a cosine.
        n_steps: Steps in all.
        generator: Source of randomness.
    """

    def __init__(
        self,
        predictor: LossPredictor,
        mirror: Sequence[int],
        *,
        learning_rate: float,
        n_steps: int,
        generator: Generator | None,
    ) -> None:
        self.predictor, self.mirror, self.generator = predictor, list(mirror), generator
        self.parameters = list(predictor.parameters())
        layers = (m for m in predictor.modules() if isinstance(m, nn.Conv2d | nn.Linear))
        self.penalized = [p for layer in layers for p in layer.parameters()]
        self.optimizer = torch.optim.RMSprop(
            self.parameters, learning_rate, alpha=0.9, momentum=0.9, eps=1e-3
        )
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, n_steps)
        self.average = [p.detach().clone() for p in self.parameters]
        self.n_done = 0

    def epoch(self, x: Images, losses: Rows, batch_size: int) -> float:
        """One pass over the table; the mean of the loss that was minimized."""
        total = 0.0
        for images, table in self._mirrored_batches(x, losses, batch_size):
            features = self._with_dropout(self.predictor.features(images))
            loss = ranking_loss(self.predictor.linear(features), table)
            loss = loss + PENALTY * torch.stack([p.norm() for p in self.penalized]).sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self._update_average()
            total += float(loss.detach()) * len(images)
        return total / len(x)

    def finish(self) -> None:
        """Give the predictor the running average of its weights."""
        with torch.no_grad():
            for parameter, average in zip(self.parameters, self.average, strict=True):
                parameter.copy_(average)

    def _mirrored_batches(
        self, x: Images, losses: Rows, batch_size: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(x), generator=self.generator)
        for rows in order.split(batch_size):
            coin = torch.rand(len(rows), generator=self.generator).to(x.device) < 0.5
            images, table = x[rows], losses[rows]
            yield (
                torch.where(coin[:, None, None, None], images.flip(-1), images),
                torch.where(coin[:, None], table[:, self.mirror], table),
            )

    def _with_dropout(self, features: Rows) -> Rows:
        kept = torch.rand(features.shape, generator=self.generator).to(features) >= DROPOUT
        return features * kept / (1 - DROPOUT)

    def _update_average(self) -> None:
        decay = min(AVERAGING, (1 + self.n_done) / (10 + self.n_done))
        self.n_done += 1
        with torch.no_grad():
            for average, parameter in zip(self.average, self.parameters, strict=True):
                average.lerp_(parameter, 1 - decay)


CANDIDATES: tuple[tuple[str, float], ...] = (
    ("identity", 0.0),
    ("rotate", radians(-20)),
    ("rotate", radians(20)),
    ("zoom", 0.8 - 1),
    ("zoom", 1.2 - 1),
    ("auto_contrast", 0.0),
    ("sharpness", 0.2 - 1),
    ("sharpness", 0.5 - 1),
    ("sharpness", 3.0 - 1),
    ("sharpness", 4.0 - 1),
    ("color", 0.5 - 1),
    ("color", 2.0 - 1),
)
"""Operations and their values, as in :class:`~instaaug.methods.operations.Operations`."""

MIRROR = (0, 2, 1, *range(3, len(CANDIDATES)))
"""What a candidate is in the mirror: the two rotations change places."""


class LearnedLoss(TransformAugmenter):
    r"""Shows the model the candidates on which its loss is predicted to be smallest.

    A predictor reads the input once and scores twelve candidates: the input itself, turned by
    ∓20°, zoomed by 0.8 and 1.2, with full contrast, with sharpness 0.2, 0.5, 3 and 4, with
    saturation 0.5 and 2. Its scores, a softmax, are averaged over the input and its mirror image,
    for which the two rotations change places. ``draw`` takes the n highest scores, and starts
    again at the highest beyond twelve; ``select`` and the generator are ignored. A candidate whose
    score is below ``threshold`` times that of the unchanged input is replaced by it.
    :meth:`wrap` averages probabilities.

    :meth:`fit` trains the predictor on a table of losses; nothing else does. It departs from the
    source as follows.

    - The predictor is small, 78 thousand parameters instead of EfficientNet-B0's millions: see
      :class:`~instaaug.methods.learned_loss.LossPredictor`.
    - Soft ranks, sums of sigmoids of differences, take the place of a pre-trained sorting network
      (SoDeep), whose weights are not free. The source ranks softmin(loss/τ); τ cannot change that.
    - A mirrored image is trained with the losses of the image itself, rotations exchanged; the
      source runs the classifier on both. Corruptions are up to the caller, who makes the table.
    - Scores are averaged over the image and its left-right mirror image; the source's code mirrors
      top and bottom.
    - Warps are bilinear; the source's are bicubic. As there, the image is reflected at its edges.

    Arguments:
        threshold: What a candidate's score must reach, in shares of the unchanged input's. With 1
            only candidates predicted to be better than the input replace it, which is what the
            source's code does with every threshold up to 1; with 0 the n views are distinct.
        in_channels: Channels of the images.
        width: Multiplies the channels of the predictor's trunk.
        mean: Per-channel mean the images were normalized with; colors are changed without.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Side, or height and width, of what the model sees, to which inputs are resized first;
            the input's own by default.

    References:
        | Learning Loss for Test-Time Augmentation (Kim et al., 2020)
        | https://arxiv.org/abs/2010.11422

    Example:
        >>> aug = LearnedLoss(threshold=0.0)
        >>> x, losses = torch.rand(2, 3, 64, 64), torch.rand(2, 12)
        >>> history = aug.fit(x, losses, epochs=1)
        >>> aug.draw(x, n_samples=4).shape
        torch.Size([4, 2, 2])
    """

    table: Tensor

    def __init__(
        self,
        *,
        threshold: float = 1.0,
        in_channels: int = 3,
        width: float = 2.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "reflection",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(Operations(1), mean=mean, std=std, padding_mode=padding_mode, size=size)
        if not (isfinite(threshold) and threshold >= 0):
            raise ArgumentError(
                f"`threshold` must be a number of at least 0: got {threshold}. 0 replaces no "
                "candidate."
            )
        self.threshold, self.in_channels = threshold, in_channels
        self.predictor = LossPredictor(len(CANDIDATES), in_channels=in_channels, width=width)
        rows = [(float(operation_index(name)), value) for name, value in CANDIDATES]
        self.register_buffer("table", torch.tensor(rows), persistent=False)

    def scores(self, x: Images) -> Float[Tensor, "batch candidates"]:
        """How well each candidate is predicted to do; a row sums to 1."""
        small = self._shrink_inputs(x)
        with torch.no_grad():
            straight, mirrored = self.predictor(torch.cat([small, small.flip(-1)])).chunk(2)
        return (straight.softmax(dim=-1) + mirrored[:, MIRROR].softmax(dim=-1)) / 2

    def candidate_theta(self, x: Images) -> Float[Tensor, "candidates batch 2"]:
        """θ of all candidates of each input, for a table of losses."""
        return self.table[:, None].expand(-1, len(x), -1)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return self.table[_choose(self.scores(x), n_samples, self.threshold)].transpose(0, 1)

    merge: Merge = "probability"  # as in the source

    @property
    @override
    def recommended_views(self) -> int:
        return 4

    def fit(
        self,
        x: Tensor | Iterable[Tensor],
        losses: Tensor,
        *,
        epochs: int = 60,
        batch_size: int = 128,
        learning_rate: float = 0.01,
        generator: Generator | None = None,
    ) -> list[float]:
        """Train the predictor on the losses of a frozen classifier.

        Arguments:
            x: All images, or batches of them; only their 64 × 64 pixels are kept.
            losses: ``(N, 12)``: of every image, in their order, and of every candidate, in the
                order of :meth:`candidate_theta`.
            epochs: Passes over the table.
            batch_size: Images per step.
            learning_rate: Of RMSprop at the start; it falls along a cosine.
            generator: Source of randomness, on the CPU; a seeded one makes the fit
                repeatable.

        Returns:
            The mean training loss of every epoch.
        """
        if min(epochs, batch_size) < 1 or not learning_rate > 0:
            raise ArgumentError(
                "`epochs` and `batch_size` must be at least 1, `learning_rate` above 0: got "
                f"{epochs}, {batch_size} and {learning_rate}."
            )
        batches = [x] if isinstance(x, Tensor) else x
        images = torch.cat([self._shrink_inputs(batch) for batch in batches]).to(self.table.device)
        table = _check_table(losses, len(images)).to(images)
        training = RankTraining(
            self.predictor,
            MIRROR,
            learning_rate=learning_rate,
            n_steps=epochs * -(-len(images) // batch_size),
            generator=generator,
        )
        history = [training.epoch(images, table, batch_size) for _ in range(epochs)]
        training.finish()
        return history

    def _shrink_inputs(self, x: Images) -> Maps:
        check_images(x, channels=self.in_channels)
        return shrink(x.detach().to(self.predictor.linear.weight.dtype))

    @override
    def extra_repr(self) -> str:
        return f"{len(CANDIDATES)} candidates, threshold {self.threshold:g}"


def _choose(scores: Rows, n: int, threshold: float) -> Tensor:
    """Numbers of the n best candidates per row, the first of which is the unchanged input."""
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    order = torch.where(ordered < threshold * scores[:, :1], 0, order)
    return order[:, torch.arange(n, device=scores.device) % scores.shape[1]]


def _check_table(losses: Tensor, n_images: int) -> Rows:
    expected = (n_images, len(CANDIDATES))
    if tuple(losses.shape) != expected:
        raise ShapeError(
            f"`losses` must be {expected}, a row per image and a column per candidate: got "
            f"{tuple(losses.shape)}. Render candidate_theta and keep the losses of each input."
        )
    check_finite(losses, name="losses", advice="Look for the image that causes it.")
    return losses.detach()
