"""What a fit found out for all inputs: one order of views, and when another view is worth it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from instaaug.augmentation.stopping import StopRule
from instaaug.errors import ArgumentError

__all__ = ["PlanShape", "ResizedImage", "ViewPlan"]


@dataclass(frozen=True)
class PlanShape:
    """How large a plan is.

    Arguments:
        n_others: Views other than the input as it is.
        n_stages: Most views that the rule to stop knows of, a preview among them; 0 for no rule.
        n_prices: Prices that it knows.
        preview: Side in pixels of a first, smaller look at the whole image; 0 for none.
        n_views: Views that the fit recommends; 0 if it recommends none in particular.
        whole: Side in pixels of a larger image that it recommends instead; 0 for none.
    """

    n_others: int
    n_stages: int = 0
    n_prices: int = 0
    preview: int = 0
    n_views: int = 0
    whole: int = 0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            least = 1 if name == "n_others" else 0
            if type(value) is not int or value < least:
                raise ArgumentError(f"`{name}` must be a whole number from {least} on: {value!r}.")

    @property
    def n_numbers(self) -> int:
        """A lower bound on the numbers that a plan of this shape holds."""
        return self.n_others + self.n_stages * self.n_prices

    def to_config(self) -> dict[str, int]:
        """As values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> "PlanShape | None":
        """Read back what :meth:`to_config` wrote."""
        return None if config is None else cls(**config)


class ResizedImage(NamedTuple):
    """The whole image in another size: smaller, for inputs that are easy, or larger.

    Arguments:
        size: Its side in pixels.
        factor: What multiplies the model's output for it, so that it is as sure as it should be.
    """

    size: int
    factor: float


class ViewPlan(nn.Module):
    r"""One order of views for all inputs, and how far φ may depart from it.

    The score of view k of the input x is :math:`o_k + \alpha \log p_k(x)`: o is the order for all,
    and α, from 0 on, is how much the order depends on the input. Cross-validation chooses it; at 0
    all inputs get the same views, whatever φ says.

    Arguments:
        shape: How large it is.

    Example:
        >>> plan = ViewPlan(PlanShape(n_others=3))
        >>> plan.set_order([2, 0, 1])  # the view with the number 2 first
        >>> plan.scores(torch.zeros(1, 3)).argsort(descending=True)
        tensor([[2, 0, 1]])
    """

    order: Tensor
    dependence: Tensor
    preview_factor: Tensor
    whole_factor: Tensor

    def __init__(self, shape: PlanShape) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("order", torch.zeros(shape.n_others))
        self.register_buffer("dependence", torch.ones(()))
        self.register_buffer("preview_factor", torch.ones(()))
        self.register_buffer("whole_factor", torch.ones(()))
        self.stop = StopRule(shape.n_prices, shape.n_stages) if shape.n_stages else None

    def set_order(self, order: list[int], *, gap: float = 1.0) -> None:
        """Give the views scores that fall by ``gap`` from each to the next; the rest come last."""
        rest = [k for k in range(self.shape.n_others) if k not in set(order)]
        ranks = torch.tensor([*order, *rest], device=self.order.device)
        self.order[ranks] = -gap * torch.arange(len(ranks), device=ranks.device).to(self.order)

    @property
    def preview(self) -> "ResizedImage | None":
        """The first, smaller look at the whole image, if there is one."""
        if not self.shape.preview:
            return None
        return ResizedImage(self.shape.preview, float(self.preview_factor))

    @property
    def whole(self) -> "ResizedImage | None":
        """The larger image that is better than views, if there is one."""
        if not self.shape.whole:
            return None
        return ResizedImage(self.shape.whole, float(self.whole_factor))

    def scores(self, logits: Float[Tensor, "batch k"]) -> Float[Tensor, "batch k"]:
        """By which views are ranked, from φ's log-probabilities."""
        return self.order.to(logits) + self.dependence.to(logits) * logits
