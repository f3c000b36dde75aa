"""Finding the last feature map of a model, and the layer that makes classes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks.evaluation_mode import evaluation_mode
from instaaug.networks.model_output import Output, picked
from instaaug.shapes import Maps

__all__ = ["LastMap", "find_last_map"]


@dataclass(frozen=True)
class LastMap:
    """Where a model's last feature map comes from.

    Arguments:
        name: The module whose output it is.
        channels: Of the map.
        shape: Its height and width.
        head: The linear layer that turns averaged features into classes, if there is one.
        is_class_map: Whether its channels are the classes already.
        skipped: Tokens before the first patch, for a transformer; None for a map.
    """

    name: str
    channels: int
    shape: tuple[int, int]
    head: str | None = None
    is_class_map: bool = False
    skipped: int | None = None

    @property
    def has_classes(self) -> bool:
        """Whether every place can be asked for its classes."""
        return self.head is not None or self.is_class_map

    @property
    def story(self) -> str:
        """What is read, in words."""
        kind = "class evidence" if self.has_classes else f"{self.channels} channels"
        return f"{kind} at {self.name!r}, {self.shape[0]}×{self.shape[1]}"

    def as_map(self, output: Tensor) -> Maps:
        """The output of the module as a map ``(B, C, h, w)``."""
        if self.skipped is None:
            return output
        patches = output[:, self.skipped :]
        side = isqrt(patches.shape[1])
        return patches.movedim(1, 2).unflatten(2, (side, side))

    def classifier(self, model: nn.Module) -> tuple[Tensor | None, Tensor | None]:
        """Weight and bias of the linear layer; None where the map holds classes already."""
        if self.head is None:
            return None, None
        linear = model.get_submodule(self.head)
        assert isinstance(linear, nn.Linear)  # noqa: S101  # found as such
        bias: Tensor | None = linear.bias  # torch's own annotation forgets bias=False
        return linear.weight.detach(), bias if bias is None else bias.detach()


def find_last_map(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    *,
    output: Output | None = None,
) -> LastMap:
    """Run the model once on a blank image and watch what its modules return.

    The best find is the last map with as many channels as the final linear layer takes, for
    pooling in between does not matter; then a map whose channels are the classes; then the tokens
    of a transformer on a square; then whatever map comes last.

    Arguments:
        model: Its mode and state are left as they are.
        image_shape: Channels, height and width of the images it takes.
        output: Picks the tensor out of what the model returns.
    """
    records, logits = _watched(model, image_shape, output)
    n_classes = logits.shape[-1] if logits.ndim == 2 else -1
    heads = [(n, m.in_features) for n, m, out in records if _is_head(m, out, n_classes)]
    maps = [(n, out) for n, _, out in records if out.ndim == 4 and out[0, 0].numel() > 1]
    found = _below_head(records, maps, *heads[-1]) if heads else None
    if found is not None:
        return found
    for name, out in reversed(maps):
        if out.shape[1] == n_classes:
            return LastMap(name, n_classes, _side(out), is_class_map=True)
    if not maps:
        raise ArgumentError(
            "`model` must have a feature map or tokens on a square to read: found none among the "
            f'outputs of its {len(records)} modules. Let φ read pixels: features="pyramid".'
        )
    name, out = maps[-1]
    return LastMap(name, out.shape[1], _side(out))


Record = tuple[str, nn.Module, Tensor]


def _watched(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    output: Output | None,
) -> tuple[list[Record], Tensor]:
    records: list[Record] = []

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, _: Any, out: Any) -> None:
            if isinstance(out, Tensor):
                records.append((name, module, out))

        return hook

    named = [(name, module) for name, module in model.named_modules() if name]
    handles = [module.register_forward_hook(watch(name)) for name, module in named]
    like = next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(1))
    try:
        with torch.no_grad(), evaluation_mode(model):
            returned = model(like.new_zeros(1, *image_shape))
    finally:
        for handle in handles:
            handle.remove()
    found = picked(returned, output)
    if not isinstance(found, Tensor):
        raise ArgumentError(
            f"`model` must return a tensor: got {type(found).__name__}. Pick the tensor with "
            'output=, such as output=lambda o: o["logits"].'
        )
    return records, found


def _below_head(
    records: Sequence[Record], maps: Sequence[tuple[str, Tensor]], head: str, width: int
) -> LastMap | None:
    """The last map, or the last tokens, that the linear layer could be asked about."""
    for name, out in reversed(maps):
        if out.shape[1] == width:
            return LastMap(name, width, _side(out), head=head)
    for name, _, out in reversed(records):
        if out.ndim == 3 and out.shape[2] == width and (side := _square(out.shape[1])):
            skipped = out.shape[1] - side**2
            return LastMap(name, width, (side, side), head=head, skipped=skipped)
    return None


def _is_head(module: nn.Module, out: Tensor, n_classes: int) -> TypeGuard[nn.Linear]:
    return isinstance(module, nn.Linear) and out.ndim == 2 and out.shape[1] == n_classes


def _side(out: Tensor) -> tuple[int, int]:
    return out.shape[2], out.shape[3]


def _square(n_tokens: int) -> int:
    """The side of the square of patches, if ``n_tokens`` are that and at most a few others."""
    side = isqrt(n_tokens)
    return side if side > 1 and n_tokens - side**2 <= 5 else 0
