"""Views where they are needed: more for an input as long as its class is in doubt."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

import torch
from jaxtyping import Float, Int
from torch import Tensor

from instaaug.augmentation.merging import Merging
from instaaug.errors import ArgumentError, ShapeError
from instaaug.shapes import Scalars

__all__ = ["Budget", "Index", "merged_in_rounds"]

Index = Int[Tensor, " chosen"]
ROUNDING = 1e-6  # 1.13 views for each of 100 inputs are 113, though the product is a hair less


@dataclass(frozen=True)
class Budget:
    """How many views an input is worth.

    Arguments:
        certainty: Enough once the top class has this probability, in (0, 1].
        mean_views: Most views per input, on average over a batch; at least 1.

    Example:
        >>> top = torch.tensor([0.9, 0.4, 0.6])  # of three inputs, after a view each
        >>> once = torch.ones(3, dtype=torch.long)
        >>> Budget(certainty=0.8).chosen(top, once, n_samples=10)
        tensor([1, 2])
        >>> Budget(mean_views=1.67).chosen(top, once, n_samples=10)  # 2 views are left
        tensor([1])
    """

    certainty: float | None = None
    mean_views: float | None = None

    def __post_init__(self) -> None:
        if self.certainty is not None and not 0 < self.certainty <= 1:
            raise ArgumentError(
                "`certainty` must be a probability in (0, 1]: got "
                f"{self.certainty}. 0.95 is a good start; None looks at every view."
            )
        if self.mean_views is not None and not 1 <= self.mean_views < inf:
            raise ArgumentError(
                "`mean_views` must be at least 1, for every input is looked at once: got "
                f"{self.mean_views}. None sets no limit."
            )

    @property
    def is_limited(self) -> bool:
        """Whether some inputs may get fewer views than others."""
        return self.certainty is not None or self.mean_views is not None

    def chosen(self, top: Scalars, n_views: Int[Tensor, " batch"], *, n_samples: int) -> Index:
        """The inputs that get one more view in this round, from the probability of the top class.

        Where views are rationed, a round spends half of what is left, one view for each of the
        least certain. In smaller rounds the same few inputs would get nearly all: those on which
        no number of views agrees.

        Arguments:
            top: Probability of the top class of each input, from its views so far.
            n_views: How many these are.
            n_samples: How many there are at most.
        """
        going = n_views < n_samples
        if self.certainty is not None:
            going &= top < self.certainty
        inputs = going.nonzero()[:, 0]
        if self.mean_views is None:
            return inputs
        left = int(self.mean_views * len(top) + ROUNDING) - int(n_views.sum())
        return inputs[top[inputs].argsort(stable=True)[: ceil(left / 2)]]


def merged_in_rounds(
    scores_of: Callable[[Index, Index], Tensor],
    weight: Float[Tensor, "n batch"],
    *,
    merging: Merging,
    budget: Budget,
    first: Tensor | None = None,
) -> tuple[Tensor, Int[Tensor, " batch"]]:
    """Merged outputs, and how many views each took: one view for all, then rounds of one view.

    Arguments:
        scores_of: From the numbers of views and of inputs, in pairs, to a row of scores each.
        weight: How much each view counts.
        merging: How they become one.
        budget: Who gets another.
        first: Scores of view 0 of all inputs, if they are known.
    """
    n_samples, batch = weight.shape
    everyone = torch.arange(batch, device=weight.device)
    scores = scores_of(torch.zeros_like(everyone), everyone) if first is None else first
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ShapeError(
            "`model` must return a logit per class, (N, C) with C ≥ 2, for `certainty` and "
            f"`mean_views`: got {tuple(scores.shape)}. Leave both out."
        )
    total = merging.total(scores[None], weight[:1])
    n_views = torch.ones_like(everyone)
    while True:
        merged = merging.merged(total, weight, n_views)
        top = merged.detach().softmax(dim=1).amax(dim=1)
        chosen = budget.chosen(top, n_views, n_samples=n_samples)
        if not len(chosen):
            return merged, n_views
        view = n_views[chosen]
        more = merging.total(scores_of(view, chosen)[None], weight[view, chosen][None])
        total = total.index_copy(0, chosen, merging.joined(total[chosen], more))
        n_views = n_views.index_add(0, chosen, torch.ones_like(chosen))
