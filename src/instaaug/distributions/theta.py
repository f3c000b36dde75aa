"""What a distribution over θ is: torch's contract, with explicit randomness."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Size, Tensor
from torch.distributions import Distribution
from typing_extensions import override

from instaaug.errors import PathwiseGradientError

__all__ = ["ContinuousTheta", "FiniteTheta", "SampleShape", "ThetaDistribution"]

SampleShape = Size | list[int] | tuple[int, ...]


class ThetaDistribution(Distribution, ABC):
    """A distribution p(θ) for each input of a batch.

    A sample is whatever keeps :meth:`log_prob` exact (the index of a box, say); :meth:`theta`
    turns it into the columns that a transform takes. All draws accept a ``generator``; a seeded
    one makes them repeatable to the last bit.
    """

    @abstractmethod
    def sample(
        self, sample_shape: SampleShape = (), *, generator: Generator | None = None
    ) -> Tensor:
        """Draw without a gradient."""

    @abstractmethod
    def theta(self, sample: Tensor) -> Float[Tensor, "*shape columns"]:
        """The parameters of the transform that a sample stands for."""

    @abstractmethod
    def spread(self, n: int) -> Tensor:
        """``n`` samples that represent the distribution best, without randomness.

        Shape:
            - ``(n, *batch_shape, *event_shape)``
        """

    def draw(self, n: int, *, replace: bool = True, generator: Generator | None = None) -> Tensor:
        """``n`` samples, with the pathwise gradient if there is one.

        Arguments:
            n: How many.
            replace: Whether the same value may come twice. Only a finite set can tell the
                difference. Asked for as many values as it has, or more, it gives each as often as
                its probability says, to within one.
            generator: Source of randomness.
        """
        del replace
        if self.has_rsample:
            return self.rsample((n,), generator=generator)
        return self.sample((n,), generator=generator)

    def rsample(
        self,
        sample_shape: SampleShape = (),  # noqa: ARG002
        *,
        generator: Generator | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Draw with the pathwise gradient."""
        raise PathwiseGradientError(
            f"{type(self).__name__} has no pathwise gradient (`has_rsample` is False). "
            'Use estimator="score".'
        )


class ContinuousTheta(ThetaDistribution, ABC):
    """A reparameterized distribution; a sample of a factor is its logarithm."""

    multiplicative: Bool[Tensor, " d"] | None
    """Which parameters are factors; None if none is."""
    has_rsample = True

    @override
    def sample(
        self, sample_shape: SampleShape = (), *, generator: Generator | None = None
    ) -> Float[Tensor, "*shape d"]:
        with torch.no_grad():
            return self.rsample(sample_shape, generator=generator)

    @override
    def theta(self, sample: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        if self.multiplicative is None:
            return sample
        return torch.where(self.multiplicative, sample.exp(), sample)


class FiniteTheta(ThetaDistribution, ABC):
    """A distribution that first chooses one of K rows of a table."""

    table: Float[Tensor, "k d"]
    logits: Float[Tensor, "*batch k"]
    """Normalized: the log-probability of each row of the table."""
    has_rsample = False

    @property
    def probs(self) -> Float[Tensor, "*batch k"]:
        """Probability of each row of the table."""
        return self.logits.exp()

    @abstractmethod
    def index(self, sample: Tensor) -> Int[Tensor, "*shape"]:
        """Which row a sample chose."""
