"""What a run makes of some of its test images, input by input."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from instaaug.augmentation.observed import ObservedFactor

__all__ = ["Observations", "joined"]


@dataclass(frozen=True)
class Observations:
    """N inputs, what was found for each, and what the model says of n views of it.

    Arguments:
        pictures: The inputs, small enough for a page, ``(N, h, w, C)``.
        views: The first views of each, as the model sees them, likewise, ``(m, N, h, w, C)``.
        factors: θ, part by part: distributions and all n draws.
        plain: Probabilities of the classes, or outputs, for the inputs as they are.
        merged: The same from the first 1, ..., n views, ``(n, N, C)``.
        loss: Of the inputs as they are.
        loss_merged: From all views.
        disagreement: Share of views that vote for another class than all of them together; in a
            regression the standard deviation of their outputs.
        keeps_original: Whether the first view is the input as it is.
        outlines: The corners of what each view shows, where that is no upright box, ``(n, N, 4,
            2)``.
    """

    pictures: UInt8[Tensor, "inputs h w c"]
    views: UInt8[Tensor, "m inputs hv wv c"]
    factors: tuple[ObservedFactor, ...]
    plain: Float[Tensor, "inputs classes"]
    merged: Float[Tensor, "n inputs classes"]
    loss: Float[Tensor, " inputs"]
    loss_merged: Float[Tensor, " inputs"]
    disagreement: Float[Tensor, " inputs"]
    keeps_original: bool = False
    outlines: Float[Tensor, "n inputs 4 2"] | None = None


def joined(parts: Sequence[Observations]) -> Observations:
    """Observations of several batches as one."""
    first = parts[0]
    return Observations(
        pictures=torch.cat([part.pictures for part in parts]),
        views=torch.cat([part.views for part in parts], dim=1),
        factors=tuple(
            _joined_factors([part.factors[i] for part in parts]) for i in range(len(first.factors))
        ),
        plain=torch.cat([part.plain for part in parts]),
        merged=torch.cat([part.merged for part in parts], dim=1),
        loss=torch.cat([part.loss for part in parts]),
        loss_merged=torch.cat([part.loss_merged for part in parts]),
        disagreement=torch.cat([part.disagreement for part in parts]),
        keeps_original=first.keeps_original,
        outlines=None
        if first.outlines is None
        else torch.cat([part.outlines for part in parts if part.outlines is not None], dim=1),
    )


def _joined_factors(parts: Sequence[ObservedFactor]) -> ObservedFactor:
    first = parts[0]

    def rows(name: str) -> Tensor | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else torch.cat(values)

    return ObservedFactor(
        name=first.name,
        space=first.space,
        theta=torch.cat([part.theta for part in parts], dim=1),
        entropy=rows("entropy"),
        max_entropy=first.max_entropy,
        band=first.band,
        table=first.table,
        probs=rows("probs"),
        low=rows("low"),
        high=rows("high"),
    )
