"""The uniform distribution on a box of intervals, and random crops."""

import torch
from jaxtyping import Bool, Float
from torch import Generator, Size, Tensor
from torch.distributions import Independent, Uniform, constraints
from typing_extensions import override

from instaaug.distributions.theta import ContinuousTheta, SampleShape
from instaaug.errors import ShapeError
from instaaug.functional.boxes import square_box
from instaaug.functional.probability import quasi_random
from instaaug.shapes import constant

__all__ = ["RandomBoxes", "UniformBox"]


class UniformBox(ContinuousTheta):
    r"""Independent uniform parameters, each on an interval of its own, circular where asked.

    .. math:: p(\theta) = \prod_d \frac{[\,a_d \le \theta_d \le b_d\,]}{b_d - a_d},
              \qquad H = \sum_d \log (b_d - a_d)

    The entropy is a differential one: below zero for narrow boxes. Samples are reparameterized,
    :math:`\theta = a + u\,(b - a)`. A circular parameter of period :math:`P` may be given to
    :meth:`log_prob` in any of its guises :math:`\theta + kP`. A factor is drawn on its axis,
    the logarithm: the sample is :math:`\log\theta`, and :meth:`theta` gives the factor itself.

    Arguments:
        low: Lower ends, on the axis of each parameter.
        high: Upper ends.
        period: Circumference per parameter; infinite where the parameter is not circular.
        multiplicative: Which parameters are factors; None if none is.
        origin: Where the sides of the box are measured from; None says where nothing happens.

    Shape:
        - ``low``, ``high``, ``origin``: ``(*batch, D)``; ``period``: ``(D,)``
        - ``sample(s)``: ``(*s, *batch, D)``; ``log_prob``: ``(*s, *batch)``; ``entropy``:
          ``(*batch,)``

    Example:
        >>> turn = UniformBox(
        ...     torch.tensor([-1.0]), torch.tensor([1.0]), torch.tensor([2 * torch.pi])
        ... )
        >>> turn.entropy()  # log 2
        tensor(0.6931)
        >>> turn.log_prob(torch.tensor([0.5 + 2 * torch.pi])).exp()
        tensor(0.5000)
    """

    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}  # noqa: RUF012

    def __init__(
        self,
        low: Float[Tensor, "*batch d"],
        high: Float[Tensor, "*batch_of_high d_of_high"],
        period: Float[Tensor, " d_of_period"] | None = None,
        multiplicative: Bool[Tensor, " d_of_factors"] | None = None,
        validate_args: bool | None = None,
        origin: Float[Tensor, "*batch_of_origin d_of_origin"] | None = None,
    ) -> None:
        if low.shape != high.shape or low.ndim == 0:
            raise ShapeError(
                "`low` and `high` must share a shape (*batch, D): got "
                f"{tuple(low.shape)} and {tuple(high.shape)}."
            )
        self.low, self.high, self.period = low, high, period
        self.multiplicative, self.origin = multiplicative, origin
        self._base = Independent(Uniform(low, high, validate_args=False), 1, validate_args=False)
        super().__init__(low.shape[:-1], low.shape[-1:], validate_args=validate_args)

    @property
    @override
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.real, 1)

    @override
    def rsample(
        self, sample_shape: SampleShape = (), *, generator: Generator | None = None
    ) -> Float[Tensor, "*shape d"]:
        shape = Size(sample_shape) + self.low.shape
        u = torch.rand(shape, generator=generator, device=self.low.device, dtype=self.low.dtype)
        return torch.lerp(self.low, self.high, u)

    @override
    def spread(self, n: int) -> Float[Tensor, "n *batch d"]:
        u = quasi_random(n, self.low.shape[-1], like=self.low)
        u = u.view(n, *[1] * len(self.batch_shape), -1)
        return torch.lerp(self.low, self.high, u)

    @override
    def log_prob(self, value: Float[Tensor, "*shape d"]) -> Float[Tensor, "*rest"]:
        inside = (value >= self.low) & (value <= self.high)
        if self.period is not None:
            inside = torch.where(self.period.isfinite(), self._is_on_arc(value), inside)
        density = -(self.high - self.low).log()
        return torch.where(inside, density, -torch.inf).sum(dim=-1)

    def _is_on_arc(self, value: Float[Tensor, "*shape d"]) -> Bool[Tensor, "*rest d"]:
        """Whether a circular value lies on the arc, up to the rounding of its many turns."""
        assert self.period is not None  # noqa: S101
        offset = value - (self.low + self.high) / 2
        offset = offset - torch.round(offset / self.period) * self.period
        rounding = torch.finfo(value.dtype).eps * (value.abs() + self.period)
        return offset.abs() <= (self.high - self.low) / 2 + rounding

    @override
    def entropy(self) -> Float[Tensor, "*batch"]:
        return self._base.entropy()

    def ends(self) -> tuple[Float[Tensor, "*batch d"], Float[Tensor, "*batch d"]]:
        """Lower and upper ends of θ itself."""
        return self.theta(self.low), self.theta(self.high)

    def middle(self) -> Float[Tensor, "*batch d"] | None:
        """θ that its sides are measured from; None says where nothing happens."""
        return None if self.origin is None else self.theta(self.origin)

    @override
    def expand(self, batch_shape: SampleShape, _instance: object = None) -> "UniformBox":
        shape = Size(batch_shape) + self.event_shape
        low, high = self.low.expand(shape), self.high.expand(shape)
        origin = None if self.origin is None else self.origin.expand(shape)
        return UniformBox(low, high, self.period, self.multiplicative, origin=origin)


class RandomBoxes(UniformBox):
    """Square boxes within the image, with a uniform side at a uniform place: random crops.

    A sample is (side, x, y): the side as a share of the image's, and the place from the leftmost
    (0) to the rightmost (1) and from the top to the bottom that a box of this size can have.

    Arguments:
        low: The smallest side, 0 and 0.
        high: The largest side, 1 and 1.

    Shape:
        - ``sample(s)``: ``(*s, *batch, 3)``; ``theta`` of it: ``(*s, *batch, 4)``

    Example:
        >>> boxes = RandomBoxes.between(0.25, 1.0, torch.zeros(2))
        >>> boxes.theta(torch.tensor([0.5, 0.0, 1.0]))  # the lower left quarter
        tensor([-0.5000,  0.5000,  1.0000,  1.0000])
    """

    @classmethod
    def between(
        cls, smallest: float, largest: float, like: Float[Tensor, "*batch"]
    ) -> "RandomBoxes":
        """Boxes with sides in this range, one distribution per element of ``like``."""
        low, high = (
            constant((side, share, share), like=like).expand(*like.shape, 3)
            for side, share in ((smallest, 0.0), (largest, 1.0))
        )
        return cls(low, high, validate_args=False)

    @override
    def theta(self, sample: Float[Tensor, "*shape 3"]) -> Float[Tensor, "*shape 4"]:
        return square_box(sample[..., :1], sample[..., 1:])

    @override
    def expand(self, batch_shape: SampleShape, _instance: object = None) -> "RandomBoxes":
        shape = Size(batch_shape) + self.event_shape
        return RandomBoxes(self.low.expand(shape), self.high.expand(shape))
