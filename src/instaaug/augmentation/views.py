"""What a model is to see of each input at test time."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

__all__ = ["Select", "Views"]

Select = Literal["sample", "top"]


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
