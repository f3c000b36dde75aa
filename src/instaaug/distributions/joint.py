"""The product of independent factors."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Generator, Size, Tensor

from instaaug.distributions.categorical_theta import CategoricalTheta
from instaaug.distributions.theta import FiniteTheta, ThetaDistribution
from instaaug.errors import ArgumentError
from instaaug.functional.probability import quasi_random

__all__ = ["Joint", "enumerate_choices"]

Samples = tuple[Tensor, ...]


class Joint:
    r"""Independent factors: :math:`p(\theta) = \prod_f p_f(\theta_f)`.

    Factors differ in kind (an index here, a real there), so that a sample is a tuple with an
    entry per factor, and this is a distribution by its verbs rather than by inheritance.

    Arguments:
        factors: Distributions by name; all have the same ``batch_shape``.

    Shape:
        - ``draw(n)``: a tuple, each ``(n, *batch, ...)``; ``theta`` of it: ``(n, *batch, D)``
        - ``log_prob``: ``(n, *batch)``; ``entropies``: ``(*batch, F)``

    Example:
        >>> from instaaug.distributions import CategoricalTheta, UniformBox
        >>> unit = UniformBox(torch.zeros(2, 1), torch.ones(2, 1))
        >>> flip = CategoricalTheta(torch.zeros(2, 2), torch.tensor([[1.0], [-1.0]]))
        >>> joint = Joint({"turn": unit, "flip": flip})
        >>> joint.entropy()  # log 1 + log 2, for both inputs
        tensor([0.6931, 0.6931])
        >>> joint.theta(joint.draw(5)).shape
        torch.Size([5, 2, 2])
    """

    def __init__(self, factors: Mapping[str, ThetaDistribution]) -> None:
        self.factors = dict(factors)

    def __getitem__(self, name: str) -> ThetaDistribution:
        return self.factors[name]

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={factor}" for name, factor in self.factors.items())
        return f"Joint({inner})"

    @property
    def batch_shape(self) -> Size:
        """The batch shape that all factors share."""
        return next(iter(self.factors.values())).batch_shape

    def finite(self) -> dict[str, FiniteTheta]:
        """The factors that choose from a table, by name."""
        return {n: f for n, f in self.factors.items() if isinstance(f, FiniteTheta)}

    def sample(
        self, sample_shape: tuple[int, ...] = (), *, generator: Generator | None = None
    ) -> Samples:
        """Draw every factor without a gradient."""
        return tuple(f.sample(sample_shape, generator=generator) for f in self.factors.values())

    def draw(self, n: int, *, replace: bool = True, generator: Generator | None = None) -> Samples:
        """Draw every factor ``n`` times, with the pathwise gradient where there is one."""
        draws = (f.draw(n, replace=replace, generator=generator) for f in self.factors.values())
        return tuple(draws)

    def spread(self, n: int) -> Samples:
        """``n`` representative values of every factor.

        The most probable rows of a large table stay in order. Other factors are shuffled against
        one another, the same way every time, or their values would rise together.
        """
        orders = quasi_random(n, len(self.factors), like=torch.empty(0)).argsort(dim=0)
        return tuple(
            f.spread(n) if _is_ranked(f, n) else f.spread(n)[order]
            for f, order in zip(self.factors.values(), orders.unbind(-1), strict=True)
        )

    def theta(self, samples: Samples) -> Float[Tensor, "*shape d"]:
        """The columns of all factors, side by side."""
        parts = zip(self.factors.values(), samples, strict=True)
        return torch.cat([f.theta(s) for f, s in parts], dim=-1)

    def log_probs(self, samples: Samples) -> dict[str, Tensor]:
        """Log-probability of each factor's own sample, by name."""
        parts = zip(self.factors.items(), samples, strict=True)
        return {name: f.log_prob(s) for (name, f), s in parts}

    def log_prob(self, samples: Samples) -> Tensor:
        """Log-probability of the samples together."""
        return torch.stack(list(self.log_probs(samples).values())).sum(dim=0)

    def choice_prob(self, samples: Samples) -> Float[Tensor, " n *batch"]:
        """Probability of the rows that the finite factors chose together; 1 if there are none."""
        parts = zip(self.factors.values(), samples, strict=True)
        logs = [f.log_prob(s) for f, s in parts if isinstance(f, FiniteTheta)]
        if not logs:
            return torch.ones(len(samples[0]), *self.batch_shape, device=samples[0].device)
        return torch.stack(logs).sum(dim=0).exp()

    def entropies(self) -> Float[Tensor, "*batch f"]:
        """Entropy of each factor in nats."""
        return torch.stack([f.entropy() for f in self.factors.values()], dim=-1)

    def entropy(self) -> Float[Tensor, "*batch"]:
        """Entropy of the joint distribution in nats: the sum over its factors."""
        return self.entropies().sum(dim=-1)


def _is_ranked(factor: ThetaDistribution, n: int) -> bool:
    return isinstance(factor, FiniteTheta) and n < factor.logits.shape[-1]


def enumerate_choices(joint: Joint) -> CategoricalTheta:
    """One categorical distribution over the product of the factors' tables, the last fastest.

    Example:
        >>> flip = CategoricalTheta(torch.zeros(2, 2), torch.tensor([[1.0], [-1.0]]))
        >>> box = CategoricalTheta(torch.zeros(2, 3), torch.rand(3, 4))
        >>> both = enumerate_choices(Joint({"box": box, "flip": flip}))
        >>> both.table.shape, both.table[:4, 4]
        (torch.Size([6, 5]), tensor([ 1., -1.,  1., -1.]))
    """
    ranges = sorted(n for n, f in joint.factors.items() if not isinstance(f, CategoricalTheta))
    if ranges:
        raise ArgumentError(
            "`joint` must consist of choices from tables to list all combinations: "
            f"{', '.join(ranges)} can take any value in a range. Use crops without jitter, flips."
        )
    factors = list(joint.finite().values())
    logits, table = factors[0].logits, factors[0].table
    for factor in factors[1:]:
        logits = (logits[..., :, None] + factor.logits[..., None, :]).flatten(-2)
        table = _combine_tables(table, factor.table)
    return CategoricalTheta(logits, table, validate_args=False)


def _combine_tables(
    first: Float[Tensor, "k d"], second: Float[Tensor, "l e"]
) -> Float[Tensor, "kl de"]:
    rows = first.repeat_interleave(len(second), dim=0)
    return torch.cat([rows, second.repeat(len(first), 1)], dim=1)
