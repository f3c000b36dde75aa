"""The views of an input that a model sees at test time, chosen by their distribution."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from instaaug.augmentation.plan import ViewPlan
from instaaug.distributions import CategoricalTheta, Joint, enumerate_choices

__all__ = ["Merge", "Select", "Views", "choose_views", "other_choices", "without_row"]

Select = Literal["sample", "top"]
Merge = Literal["logit", "probability", "weighted", "confidence"]


@dataclass(frozen=True)
class Views:
    """The n views of each of B inputs, in the order in which the model should see them.

    Arguments:
        theta: The parameters that make each view, ``(n, B, D)``.
        weight: How much each view counts, not negative, ``(n, B)``; None says equally. Only the
            ratios between the views of an input matter.
        first: The outputs of the model for view 0 of all inputs, where the augmenter had to run it
            anyway; it is not run on them again. The tensor itself, as ``output=`` picks it.
    """

    theta: Float[Tensor, "n batch d"]
    weight: Float[Tensor, "n batch"] | None = None
    first: object = None


def choose_views(
    joint: Joint,
    n: int,
    *,
    select: Select = "sample",
    replace: bool = False,
    generator: Generator | None = None,
    original: Float[Tensor, "one_or_batch d"] | None = None,
    plan: ViewPlan | None = None,
) -> Views:
    """``n`` views, with the probability of what the finite factors chose as their weight.

    Arguments:
        joint: p(θ|x) of every input.
        n: Views per input.
        select: ``"sample"`` draws, ``"top"`` takes the most representative.
        replace: Whether the same choice may be drawn twice.
        generator: Source of randomness.
        original: θ of the input as it is, if that is to be the first view; the others are then
            chosen among the rest, and it weighs as much as the best of them.
        plan: One order of the rest for all inputs, from which p(θ|x) departs.
    """
    if original is None:
        if select == "top":
            samples = joint.spread(n)
        else:
            samples = joint.draw(n, replace=replace, generator=generator)
        return Views(joint.theta(samples), joint.choice_prob(samples))
    first = original.expand(1, *joint.batch_shape, -1)
    others = _others(joint, original, n - 1, select, replace, generator, plan) if n > 1 else None
    if others is None or others.weight is None:  # there is nothing else to choose
        alone = first.expand(n, -1, -1)
        return Views(alone, torch.ones(alone.shape[:2], device=alone.device))
    weight = torch.cat([others.weight.amax(dim=0, keepdim=True), others.weight])
    return Views(torch.cat([first.to(others.theta), others.theta]), weight)


def _others(
    joint: Joint, original: Float[Tensor, "one_or_batch d"], n: int, select: Select, replace: bool,
    generator: Generator | None, plan: ViewPlan | None,
) -> Views | None:  # fmt: skip
    """Views other than the original; where they can be listed, the best are distinct."""
    if not all(isinstance(factor, CategoricalTheta) for factor in joint.factors.values()):
        return choose_views(joint, n, select=select, replace=replace, generator=generator)
    choice = other_choices(joint, original, plan)
    if not len(choice.table):
        return None
    if select == "sample":
        return choose_views(Joint({"other": choice}), n, replace=replace, generator=generator)
    order = choice.logits.argsort(dim=-1, descending=True, stable=True).movedim(-1, 0)
    ranked = order[torch.arange(n, device=order.device) % len(order)]
    return Views(choice.theta(ranked), choice.log_prob(ranked).exp())


def other_choices(
    joint: Joint, original: Float[Tensor, "1 d"], plan: ViewPlan | None = None
) -> CategoricalTheta:
    """The distribution over all views other than the original, ranked by the plan if any."""
    choice = without_row(enumerate_choices(joint), original)
    if plan is None:
        return choice
    return CategoricalTheta(plan.scores(choice.logits), choice.table, validate_args=False)


def without_row(choice: CategoricalTheta, row: Float[Tensor, "1 d"]) -> CategoricalTheta:
    """The distribution over all rows of the table but this one, which need not be there.

    Example:
        >>> flip = CategoricalTheta(torch.zeros(1, 2), torch.tensor([[1.0], [-1.0]]))
        >>> without_row(flip, torch.tensor([[1.0]])).table
        tensor([[-1.]])
    """
    kept = (choice.table != row.to(choice.table)).any(dim=1)
    return CategoricalTheta(choice.logits[..., kept], choice.table[kept], validate_args=False)
