"""A small network that ranks candidates by the loss that a classifier will have on them."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.networks import feature_channels, make_network
from instaaug.shapes import Images, Maps, Rows

__all__ = ["LossPredictor", "RankTraining", "hard_ranks", "ranking_loss", "shrunk", "soft_ranks"]

SIDE = 64
DROPOUT = 0.3
RIGHT_ENOUGH = 0.05
PENALTY = 1e-5
AVERAGING = 0.999


def shrunk(x: Images) -> Maps:
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
        return torch.cat([F.relu(m).mean(dim=(2, 3)) for m in self.trunk(shrunk(x))], dim=-1)

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
