"""MetaAugment's policy: a weight for every augmented image, a probability for every pair."""

from math import log

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

__all__ = ["PairSampler", "WeightNetwork"]

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
    r"""Draws ordered pairs of K operations, the more often the more they weighed of late.

    .. math:: p_{jk} = (1 - \varepsilon)\, \frac{\bar w_{jk}}{\sum \bar w} + \varepsilon / K^2

    :math:`\bar w_{jk}` is the mean weight of the images that pair (j, k) made in the latest
    periods; a pair that made none counts as 1, the most, so that it will. All state lies in
    buffers.

    Arguments:
        n_operations: K.
        epsilon: ε, the share of all draws that is uniform.
        period: Batches until the probabilities are made anew.
        n_periods: How many of the latest periods count.

    Example:
        >>> sampler = PairSampler(2, epsilon=0.1, period=1, n_periods=50)
        >>> pairs = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
        >>> sampler.note(pairs, torch.tensor([0.0, 0.25, 0.25, 0.5]))
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
    def note(self, pairs: Int[Tensor, "rows 2"], weights: Float[Tensor, " rows"]) -> None:
        """Take down what the images of a batch weighed; at a period's end change what is drawn."""
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
