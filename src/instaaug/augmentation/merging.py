"""How the outputs for several views of an input become one."""

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

import torch
from jaxtyping import Float, Inexact, Int
from torch import Tensor

from instaaug.augmentation.views import Views
from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.networks.model_output import Output, rows_of
from instaaug.shapes import at_least_float32

__all__ = ["Merge", "Merging"]

Merge = Literal["logit", "probability", "weighted"]
LEAST_WEIGHT = 1e-30  # of the largest; whichever views are merged, their weights sum to something


@dataclass(frozen=True)
class Merging:
    r"""The rule by which outputs :math:`z_1, \dots, z_n` for n views become one, :math:`z`.

    .. math::
        z = \tfrac1n \sum_j z_j \;\text{(logit)}, \quad
        z = \log \tfrac1n \sum_j \operatorname{softmax} z_j \;\text{(probability)}, \quad
        z = \sum_j w_j z_j \big/ \sum_j w_j \;\text{(weighted)}

    and then z / temperature. A sum grows view by view: :meth:`scores` of what the model returned
    have a :meth:`total`, two totals make one by :meth:`joined`, and :meth:`merged` ends it.

    Arguments:
        merge: Which of the three.
        temperature: Divides the merged output; log-probabilities are normalized again.
        output: Picks the tensor out of what the model returns. Without it a tensor is taken as it
            is, and the obvious one of a dict, an object or a tuple.

    Example:
        >>> rule = Merging("probability")
        >>> scores = rule.scores({"logits": torch.tensor([[0.0, 0.0], [9.0, 0.0]])}, 2)
        >>> two_views_of_one_input = scores.view(2, 1, 2)
        >>> ones = torch.ones(2, 1)
        >>> rule.merged(rule.total(two_views_of_one_input, ones), ones, torch.tensor([2])).exp()
        tensor([[0.7499, 0.2501]])
    """

    merge: Merge = "logit"
    temperature: float = 1.0
    output: Output | None = None

    def __post_init__(self) -> None:
        if self.merge not in get_args(Merge):
            raise UnknownNameError("merge rule", self.merge, get_args(Merge))
        if not 0 < self.temperature < inf:
            raise ArgumentError(
                f"`temperature` must be a number above 0: got {self.temperature}. 1 changes "
                "nothing, more makes the model less certain."
            )

    def scores(self, returned: object, n_inputs: int) -> Inexact[Tensor, " inputs *rest"]:
        """What adds up over views, in float32 at least, from what the model returned."""
        output = rows_of(returned, n_inputs, self.output)
        if self.merge == "probability" and (output.ndim < 2 or output.shape[1] < 2):
            raise ShapeError(
                "`model` must return a logit per class, (N, C, ...) with C ≥ 2, for "
                f'merge="probability": got {tuple(output.shape)}. Use merge="logit".'
            )
        output = output if output.is_complex() else at_least_float32(output)
        return output.log_softmax(dim=1) if self.merge == "probability" else output

    def weights(self, views: Views) -> Float[Tensor, "n batch"]:
        """How much each view counts, relative to the one of the same input that counts most."""
        if self.merge != "weighted" or views.weight is None:
            return torch.ones(views.theta.shape[:2], device=views.theta.device)
        weight = at_least_float32(views.weight)
        largest = weight.detach().amax(dim=0).clamp(min=torch.finfo(weight.dtype).tiny)
        return (weight / largest).clamp(min=LEAST_WEIGHT)

    def total(
        self, scores: Inexact[Tensor, "n batch *rest"], weight: Float[Tensor, "n batch"]
    ) -> Inexact[Tensor, " batch *rest"]:
        """The sum over views; for probabilities, its logarithm."""
        if self.merge == "probability":
            return scores.logsumexp(dim=0)
        if self.merge == "weighted":
            scores = scores * _as_wide(weight, scores)
        return scores.sum(dim=0)

    def joined(self, one: Tensor, other: Tensor) -> Tensor:
        """The total of two sets of views, from the total of each."""
        return torch.logaddexp(one, other) if self.merge == "probability" else one + other

    def merged(
        self,
        total: Inexact[Tensor, " batch *rest"],
        weight: Float[Tensor, "n batch"],
        n_views: Int[Tensor, " batch"],
    ) -> Inexact[Tensor, " batch *rest"]:
        """The output for each input, from the total over its first ``n_views`` views."""
        mass = weight.cumsum(dim=0).gather(0, n_views[None] - 1)[0]
        mass = _as_wide(mass.to(total.dtype), total)
        if self.merge == "probability":
            log_probs = total - mass.log()
            return log_probs if self.temperature == 1 else self._tempered(log_probs)
        return total / (mass * self.temperature)

    def _tempered(self, log_probs: Tensor) -> Tensor:
        return (log_probs / self.temperature).log_softmax(dim=1)


def _as_wide(value: Tensor, like: Tensor) -> Tensor:
    """With as many axes as ``like``, the new ones last and of length one."""
    return value.view(*value.shape, *[1] * (like.ndim - value.ndim))
