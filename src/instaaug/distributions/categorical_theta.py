"""The categorical distribution over a finite table of θ: boxes, flips."""

import torch
from jaxtyping import Float, Int
from torch import Generator, Size, Tensor
from torch.distributions import Categorical, constraints
from typing_extensions import override

from instaaug.distributions.theta import FiniteTheta, SampleShape
from instaaug.errors import ShapeError
from instaaug.functional.probability import gumbel_top_k, systematic_choice
from instaaug.shapes import check_finite

__all__ = ["CategoricalTheta"]


class CategoricalTheta(FiniteTheta):
    r"""Categorical distribution over the :math:`K` rows of a table of θ.

    Each input of the batch has its own logits over one shared table of, say, crop boxes, so that
    the distribution can prefer the lower left of one image and the whole of another.

    .. math:: p(k) = \frac{\exp \ell_k}{\sum_{j=1}^{K} \exp \ell_j},
              \qquad H = -\sum_{k=1}^{K} p(k) \log p(k) \in [0, \log K].

    A sample is the *index* of a row, which keeps :meth:`log_prob` and :meth:`entropy` exact;
    :meth:`theta` looks the row up. Indices carry no gradient: train the logits through
    :meth:`log_prob`.

    Arguments:
        logits: Unnormalized log-probabilities, one row per input.
        table: The candidates, one row each.

    Shape:
        - ``logits``: ``(*batch, K)``; ``table``: ``(K, D)``
        - ``sample(s)``: ``(*s, *batch)``; ``theta`` of it: ``(*s, *batch, D)``
        - ``log_prob``: the shape of the sample; ``entropy``: ``(*batch,)``

    Raises:
        ShapeError: If ``logits`` and ``table`` disagree on :math:`K`.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [-0.5, 0.5, 1.0, 1.0]])
        >>> crops = CategoricalTheta(torch.zeros(3, 2), boxes)
        >>> crops.entropy()  # log 2 for each of the three inputs
        tensor([0.6931, 0.6931, 0.6931])
        >>> index = crops.sample((5,))
        >>> index.shape, crops.theta(index).shape
        (torch.Size([5, 3]), torch.Size([5, 3, 4]))
    """

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012

    def __init__(
        self,
        logits: Float[Tensor, "*batch k"],
        table: Float[Tensor, "n_rows d"],
        validate_args: bool | None = None,
    ) -> None:
        if table.ndim != 2 or logits.shape[-1:] != table.shape[:1]:
            raise ShapeError(
                "`logits` must have one column per row of `table`: got shape "
                f"{tuple(logits.shape)} for a table of shape {tuple(table.shape)}. "
                "Build both from the same grid."
            )
        self.table = table
        self.logits = torch.log_softmax(logits, dim=-1)
        super().__init__(logits.shape[:-1], Size(), validate_args=validate_args)

    @property
    @override
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.logits.shape[-1] - 1)

    @override
    def sample(
        self, sample_shape: SampleShape = (), *, generator: Generator | None = None
    ) -> Int[Tensor, "*shape"]:
        shape = Size(sample_shape)
        flat = (
            self.probs.detach().flatten(0, -2) if self.batch_shape else self.probs.detach()[None]
        )
        try:
            draws = torch.multinomial(flat, shape.numel(), replacement=True, generator=generator)
        except RuntimeError:
            advice = "φ has become so; lower its learning rate, and look for odd inputs."
            check_finite(self.logits, name="logits", advice=advice)
            raise
        return draws.T.reshape(shape + self.batch_shape)

    @override
    def draw(
        self, n: int, *, replace: bool = True, generator: Generator | None = None
    ) -> Int[Tensor, " n *batch"]:
        if replace:
            return self.sample((n,), generator=generator)
        if n < self.logits.shape[-1]:
            return gumbel_top_k(self.logits.detach(), n, generator=generator)
        offset = self._random(1, generator)
        order = self._random(n, generator).argsort(dim=-1).movedim(-1, 0)
        return systematic_choice(self.probs.detach(), offset, n).gather(0, order)

    def _random(self, n: int, generator: Generator | None) -> Float[Tensor, "*batch n"]:
        like = self.logits
        return torch.rand(
            (*self.batch_shape, n), generator=generator, device=like.device, dtype=like.dtype
        )

    @override
    def spread(self, n: int) -> Int[Tensor, " n *batch"]:
        """The ``n`` most probable rows; from n = K on, each as often as its probability says."""
        if n < self.logits.shape[-1]:
            return self.logits.topk(n, dim=-1).indices.movedim(-1, 0)
        return systematic_choice(self.probs, torch.full_like(self.logits[..., :1], 0.5), n)

    @override
    def log_prob(self, value: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        last = self.logits.shape[-1] - 1
        logits, index = torch.broadcast_tensors(self.logits, value.long()[..., None])
        log_prob = logits.gather(-1, index[..., :1].clamp(0, last)).squeeze(-1)
        return torch.where((value >= 0) & (value <= last), log_prob, -torch.inf)

    @override
    def entropy(self) -> Float[Tensor, "*batch"]:
        return Categorical(logits=self.logits, validate_args=False).entropy()

    @override
    def theta(self, sample: Int[Tensor, "*shape"]) -> Float[Tensor, "*shape d"]:
        return self.table[sample]

    @override
    def index(self, sample: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        return sample

    @override
    def expand(self, batch_shape: SampleShape, _instance: object = None) -> "CategoricalTheta":
        logits = self.logits.expand(Size(batch_shape) + self.logits.shape[-1:])
        return CategoricalTheta(logits, self.table)
