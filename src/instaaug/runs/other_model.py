"""Another model in place of the one that views were fitted for."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.data.labels import quote_first
from instaaug.errors import ArgumentError
from instaaug.frozen.resized_views import ResizedViews
from instaaug.networks.model_interface import device_of, output_rows
from instaaug.runs.frozen_model import (
    FrozenModel,
    build_model,
    find_channels,
    find_class_names,
    find_model,
)
from instaaug.runs.settings import OtherModelSettings, TtaSettings
from instaaug.runs.tta import FittedViews

__all__ = ["use_other_model"]


def use_other_model(fitted: FittedViews, other: OtherModelSettings) -> FittedViews:
    """The same views for another model, which was not fitted for.

    φ reads what it has learned to read, the features of the first model among it, once for the
    whole image. The views are rendered in the size of the other model, normalized as it expects,
    and its outputs are put into the order of the first model's classes. There are no temperatures:
    those of the first model say nothing on this one.

    Arguments:
        fitted: The views, with the model that they were fitted for.
        other: What is known of the other model.

    Raises:
        ArgumentError: If it takes other channels, or has other classes; or if the run has taught
            a head to its own backbone.
    """
    if not isinstance(fitted.config, TtaSettings):
        raise ArgumentError(
            f"`model` needs views that were fitted by `instaaug tta fit`: got {other.name!r} for "
            "a run of another kind, whose head reads its own backbone. Fit views for it."
        )
    config = replace(fitted.config, model=other)
    facts = fitted.facts
    source = find_model(other.name)
    channels = find_channels(source, config)
    if channels != facts.channels:
        raise ArgumentError(
            f"`model` must take images of {facts.channels} channels, as the one that views were "
            f"fitted for: {other.name!r} takes {channels}. Name another model, or fit views for "
            "this one."
        )
    classes = find_class_names(config, source, facts.classes)
    order = _order_classes(other.name, classes, facts.classes)
    model = build_model(source, config, len(classes))
    size = other.image_size or source.size or facts.image_size
    model.check_outputs(size, classes)
    adapted = _AdaptedModel(model, like=fitted.model, order=order)
    return replace(
        fitted,
        facts=replace(facts, image_size=size),
        model=replace(fitted.model, module=adapted.eval(), output=None),
        temperatures={},
        elsewhere=ResizedViews(fitted.aug, size).eval(),
    )


def _order_classes(name: str, own: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where each of the wanted classes is among the model's own."""
    missing, new = sorted({*wanted} - {*own}), sorted({*own} - {*wanted})
    if missing or new:
        found = f"does not know {quote_first(missing)}" if missing else f"adds {quote_first(new)}"
        raise ArgumentError(
            f"`model` must have the {len(wanted)} classes that views were fitted for: {name!r} "
            f"{found}. Name its classes in the order of its outputs by --model.classes, or fit "
            "views for it."
        )
    return [list(own).index(one) for one in wanted]


class _AdaptedModel(nn.Module):
    """Takes images normalized for one model, and asks another, in the first one's class order."""

    scale: Tensor
    shift: Tensor
    order: Tensor

    def __init__(self, model: FrozenModel, *, like: FrozenModel, order: Sequence[int]) -> None:
        super().__init__()
        self.module, self.output = model.module, model.output
        zeros, ones = (0.0,) * model.channels, (1.0,) * model.channels
        mean, std = torch.tensor(model.mean or zeros), torch.tensor(model.std or ones)
        old_mean, old_std = torch.tensor(like.mean or zeros), torch.tensor(like.std or ones)
        self.register_buffer("scale", (old_std / std)[:, None, None])
        self.register_buffer("shift", ((old_mean - mean) / std)[:, None, None])
        self.register_buffer("order", torch.tensor(order))
        self.to(device_of(model.module))

    @override
    def forward(self, x: Tensor) -> Tensor:
        seen = (x * self.scale + self.shift).to(x.dtype)
        return output_rows(self.module(seen), len(x), self.output)[:, self.order]
