"""When an input needs no further view: a rule learned by optimal stopping."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from instaaug.errors import ArgumentError

__all__ = ["N_STATE", "PRICES", "StopRule", "fit_stop_rule", "view_states"]

N_STATE = 4
PRICES = (*(0.1 * 0.8**i for i in range(24)), 0.0, -0.002, -0.005, -0.01, -0.03, -2.0)
"""In probability of being right, per view; at a negative price only the surest stop, then none."""

RIDGE = 1e-3

Logits = Float[Tensor, "batch classes"]
States = Float[Tensor, "batch 4"]


def view_states(logits: Logits, before: Int[Tensor, " batch"] | None = None) -> States:
    """What the rule knows of each input: how sure the views so far are, and whether they agree.

    Few numbers are learned from few images, and hold for images that are harder.

    Arguments:
        logits: Merged over the views so far.
        before: The top class one view earlier; None after the first.

    Example:
        >>> view_states(torch.tensor([[0.0, 0.0]]))  # one, p, p², and "the same as before"
        tensor([[1.0000, 0.5000, 0.2500, 1.0000]])
    """
    top, classes = logits.float().softmax(dim=1).max(dim=1)
    same = torch.ones_like(top) if before is None else (classes == before).float()
    return torch.stack([torch.ones_like(top), top, top.square(), same], dim=1)


class StopRule(nn.Module):
    r"""Tells which inputs are worth another view, at a price per view.

    After each stage, one view more, an input goes on while :math:`w \cdot s > 0`: s is its state
    (:func:`view_states`), w are the weights of the stage, and the product estimates what going on
    will add to the probability of being right, less what it will cost. There is a set of weights
    for each of several prices; of those that keep within a budget, the one is used at which most
    inputs of the fit were right, which need not be the lowest: views can do harm.

    Arguments:
        n_prices: Prices that there are weights for.
        n_stages: Most stages; after the last all inputs stop.

    Example:
        >>> rule = StopRule(n_prices=1, n_stages=3)
        >>> rule.goes_on(torch.tensor([[2.0, 0.0]]), 0, price=0)
        tensor([False])
    """

    weight: Tensor
    mean_cost: Tensor
    accuracy: Tensor

    def __init__(self, n_prices: int, n_stages: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(n_prices, max(n_stages - 1, 0), N_STATE))
        self.register_buffer("mean_cost", torch.zeros(n_prices))
        self.register_buffer("accuracy", torch.zeros(n_prices))

    @property
    def n_stages(self) -> int:
        """Most stages."""
        return self.weight.shape[1] + 1

    def price_for(self, budget: float | int) -> int:
        """The number of the best price at which inputs like those of the fit keep to a budget.

        Arguments:
            budget: Views per input, on average.
        """
        within = (self.mean_cost <= budget + 1e-6).nonzero()[:, 0]
        if not len(within):
            return 0  # the highest price
        return int(within[self.accuracy[within].argmax()])

    def goes_on(
        self,
        logits: Logits,
        stage: int,
        *,
        price: int,
        before: Int[Tensor, " batch"] | None = None,
    ) -> Bool[Tensor, " batch"]:
        """Whether each input gets another view.

        Arguments:
            logits: Merged over the views so far.
            stage: Number of the stage that they are from; the first is 0.
            price: Number of the price.
            before: The top class one stage earlier.
        """
        if stage >= self.n_stages - 1:
            return torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
        return view_states(logits, before) @ self.weight[price, stage] > 0

    def last_stages(self, merged: Sequence[Logits], *, price: int) -> Int[Tensor, " batch"]:
        """The stage at which each input stops, from the merged outputs of all stages.

        Arguments:
            merged: Logits after each stage.
            price: Number of the price.
        """
        stages = torch.zeros(len(merged[0]), dtype=torch.long, device=merged[0].device)
        going, before = torch.ones_like(stages, dtype=torch.bool), None
        for stage, logits in enumerate(merged[:-1]):
            going = going & self.goes_on(logits, stage, price=price, before=before)
            stages = stages + going
            before = logits.argmax(dim=1)
        return stages


@torch.no_grad()
def fit_stop_rule(
    merged: Sequence[Logits], targets: Int[Tensor, " batch"], cost: Sequence[float]
) -> StopRule:
    r"""Learn when to stop from the merged outputs of images that were not learned from.

    Optimal stopping by regression, from the last view back to the first: :math:`V_n`, what an
    input is worth after n views, is 1 if it is right and stops there, and
    :math:`V_{n+1} - \pi c_{n+1}` if it goes on, at the price :math:`\pi`. The weights are the
    ridge regression of the difference on the state.

    Arguments:
        merged: Logits after each stage: from the first view, the first two, and so on.
        targets: The right classes.
        cost: Of each stage, in views.

    References:
        | Valuing American Options by Simulation: A Simple Least-Squares Approach
        | (Longstaff and Schwartz, 2001)
    """
    if len(merged) != len(cost) or not merged:
        raise ArgumentError(
            f"`merged` and `cost` must have an entry per view: got {len(merged)} and {len(cost)}."
        )
    tops = [logits.argmax(dim=1) for logits in merged]
    states = [view_states(merged[0])]
    states += [view_states(new, old) for new, old in zip(merged[1:], tops[:-1], strict=True)]
    right = torch.stack([top == targets for top in tops]).double()
    rule = StopRule(len(PRICES), len(merged))
    prices = torch.tensor(PRICES, dtype=torch.float64)[:, None]
    spent = torch.zeros(len(PRICES), len(targets)).double()
    worth = hits = right[-1].expand_as(spent)
    for n in reversed(range(len(merged) - 1)):
        on = worth - prices * cost[n + 1]
        weight = _ridge(states[n].double(), (on - right[n]).T)
        rule.weight[:, n] = weight.T.float()
        goes = (states[n] @ weight.float()).T > 0
        worth = torch.where(goes, on, right[n])
        hits = torch.where(goes, hits, right[n])
        spent = torch.where(goes, spent + cost[n + 1], 0.0)
    rule.mean_cost.copy_(cost[0] + spent.mean(dim=1))
    rule.accuracy.copy_(hits.mean(dim=1))
    return rule


def _ridge(x: Float[Tensor, "n d"], y: Float[Tensor, "n k"]) -> Float[Tensor, "d k"]:
    penalty = RIDGE * torch.eye(x.shape[1], dtype=x.dtype)
    return torch.linalg.solve(x.T @ x / len(x) + penalty, x.T @ y / len(x))
