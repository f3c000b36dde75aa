"""Boxes that move within their cells: a continuous mixture of uniforms."""

import torch
from jaxtyping import Float, Int
from torch import Generator, Size, Tensor
from torch.distributions import constraints
from typing_extensions import override

from instaaug.distributions.categorical_theta import CategoricalTheta
from instaaug.distributions.theta import FiniteTheta, SampleShape
from instaaug.functional.probability import quasi_random

__all__ = ["JitteredBoxes"]


class JitteredBoxes(FiniteTheta):
    r"""A box from a table, then a uniform shift within its cell.

    A sample is (index, u, v): the index of the box and the shift in *cells*, each in
    :math:`[-\frac12, \frac12]`. In these coordinates a cell has area one, hence

    .. math:: p(k, u, v) = p(k), \qquad H = -\sum_k p(k) \log p(k),

    so that an entropy band means the same with and without jitter.

    Arguments:
        logits: Unnormalized log-probabilities of the boxes, one row per input.
        boxes: The boxes (center x, center y, width, height) in the normalized frame.
        cells: Width and height of the cell of each box; zero holds it in place.
        center_limits: Largest distance of each box's center from the middle of the image, per
            axis.

    Shape:
        - ``logits``: ``(*batch, K)``; ``boxes``: ``(K, 4)``; ``cells``, ``center_limits``: ``(K,
          2)``
        - ``sample(s)``: ``(*s, *batch, 3)``; ``theta`` of it: ``(*s, *batch, 4)``

    Example:
        >>> boxes = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0]])
        >>> cells = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> halves = JitteredBoxes(torch.zeros(2), boxes, cells, torch.tensor([[0.5, 0.0]] * 2))
        >>> halves.theta(torch.tensor([1.0, -0.5, 0.0]))  # the right half, half a cell to the left
        tensor([0., 0., 1., 2.])
    """

    arg_constraints = {"logits": constraints.real_vector}  # noqa: RUF012

    def __init__(
        self,
        logits: Float[Tensor, "*batch k"],
        boxes: Float[Tensor, "n_boxes 4"],
        cells: Float[Tensor, "n_boxes 2"],
        center_limits: Float[Tensor, "n_boxes 2"],
        validate_args: bool | None = None,
    ) -> None:
        self._choice = CategoricalTheta(logits, boxes, validate_args=validate_args)
        self.logits, self.table = self._choice.logits, self._choice.table
        self.cells, self.center_limits = cells, center_limits
        super().__init__(logits.shape[:-1], Size((3,)), validate_args=validate_args)

    @property
    @override
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, 1)

    @override
    def sample(
        self, sample_shape: SampleShape = (), *, generator: Generator | None = None
    ) -> Float[Tensor, "*shape 3"]:
        return self._jitter(self._choice.sample(sample_shape, generator=generator), generator)

    @override
    def draw(
        self, n: int, *, replace: bool = True, generator: Generator | None = None
    ) -> Float[Tensor, "n *batch 3"]:
        return self._jitter(self._choice.draw(n, replace=replace, generator=generator), generator)

    def _jitter(self, index: Tensor, generator: Generator | None) -> Float[Tensor, "*shape 3"]:
        dtype = self.logits.dtype
        shape = (*index.shape, 2)
        shift = torch.rand(shape, generator=generator, device=index.device, dtype=dtype) - 0.5
        return torch.cat([index[..., None].to(dtype), shift], dim=-1)

    @override
    def spread(self, n: int) -> Float[Tensor, "n *batch 3"]:
        """The most probable boxes in place; from n = K on they repeat, and move in their cells."""
        index = self._choice.spread(n)
        shift = quasi_random(n, 2, like=self.logits) - 0.5
        if n < self.logits.shape[-1]:
            shift = torch.zeros_like(shift)
        shift = shift.view(n, *[1] * len(self.batch_shape), 2).expand(*index.shape, 2)
        return torch.cat([index[..., None].to(shift.dtype), shift], dim=-1)

    @override
    def log_prob(self, value: Float[Tensor, "*shape 3"]) -> Float[Tensor, "*rest"]:
        index = self.index(value)
        inside = (value[..., 1:].abs() <= 0.5).all(dim=-1) & (value[..., 0] == index)
        return torch.where(inside, self._choice.log_prob(index), -torch.inf)

    @override
    def entropy(self) -> Float[Tensor, "*batch"]:
        return self._choice.entropy()

    @override
    def theta(self, sample: Float[Tensor, "*shape 3"]) -> Float[Tensor, "*shape 4"]:
        index = self.index(sample)
        boxes = self.table[index]
        limit = self.center_limits[index]
        center = boxes[..., :2] + sample[..., 1:] * self.cells[index]
        return torch.cat([center.clamp(-limit, limit), boxes[..., 2:]], dim=-1)

    @override
    def index(self, sample: Float[Tensor, "*shape 3"]) -> Int[Tensor, "*shape"]:
        return sample[..., 0].long()

    @override
    def expand(self, batch_shape: SampleShape, _instance: object = None) -> "JitteredBoxes":
        logits = self.logits.expand(Size(batch_shape) + self.logits.shape[-1:])
        return JitteredBoxes(logits, self.table, self.cells, self.center_limits)
