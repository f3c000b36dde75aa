"""Finding the last feature map of a model, and the layer that makes classes of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks.evaluation_mode import evaluation_mode
from instaaug.networks.model_input import suited_to
from instaaug.networks.model_output import Output, picked
from instaaug.shapes import Maps

__all__ = ["LastMap", "find_last_map"]

N_WATCHED = 2  # images: what is the same for all of them has another length
MOST_OTHER_TOKENS = 5  # for the class, registers
ALIKE = 0.02  # of the largest number; half precision is not more exact
ROUNDING = 1e-6


@dataclass(frozen=True)
class LastMap:
    """Where a model's last feature map comes from.

    Arguments:
        name: The module whose output it is.
        channels: Of the map.
        shape: Its height and width.
        call: Which call of the module, for a model that calls it several times.
        channels_last: Whether the output is ``(B, h, w, C)``.
        skipped: Tokens before the first patch, for a transformer; None for a map.
        head: The linear layer that turns averaged features into classes, if there is one.
        is_class_map: Whether its channels are the classes already.
        rectified: Whether the model takes the positive part before it averages.
    """

    name: str
    channels: int
    shape: tuple[int, int]
    call: int = 0
    channels_last: bool = False
    skipped: int | None = None
    head: str | None = None
    is_class_map: bool = False
    rectified: bool = False

    @property
    def has_classes(self) -> bool:
        """Whether every place can be asked for its classes."""
        return self.head is not None or self.is_class_map

    @property
    def story(self) -> str:
        """What is read, in words."""
        kind = "class evidence" if self.has_classes else f"{self.channels} channels"
        after = " after ReLU" if self.rectified else ""
        return f"{kind} at {self.name!r}{after}, {self.shape[0]}×{self.shape[1]}"

    def as_map(self, output: Tensor) -> Maps:
        """The output of the module as a map ``(B, C, h, w)``."""
        if self.skipped is not None:
            patches = output[:, self.skipped :].movedim(1, 2)
            rows_and_columns = _rectangle(patches.shape[2], self.shape[0] / self.shape[1])
            output = patches.unflatten(2, rows_and_columns)
        elif self.channels_last:
            output = output.movedim(3, 1)
        return output.relu() if self.rectified else output

    def classifier(self, model: nn.Module) -> tuple[Tensor | None, Tensor | None]:
        """Weight and bias of the linear layer; None where the map holds classes already."""
        if self.head is None:
            return None, None
        layer = model.get_submodule(self.head)
        assert isinstance(layer, nn.Linear | nn.Conv2d)  # noqa: S101  # found as such
        bias: Tensor | None = layer.bias  # torch's own annotation forgets bias=False
        weight = layer.weight.detach().flatten(1)
        return weight, bias if bias is None else bias.detach()


def find_last_map(
    model: nn.Module,
    image_shape: tuple[int, int, int],
    *,
    output: Output | None = None,
) -> LastMap:
    """Run the model once on images of noise and watch what its modules return.

    The best find is the last map, or tokens that fill a rectangle, with as many channels as the
    final linear layer takes and no other linear layer in between, for pooling does not matter;
    then a map whose channels average to the classes; then whatever map or tokens come last.

    Arguments:
        model: Its mode and state are left as they are.
        image_shape: Channels, height and width of the images it takes.
        output: Picks the tensor out of what the model returns.
    """
    records, logits = _watched(model, image_shape, output)
    aspect = image_shape[1] / image_shape[2]
    found = [(i, place) for i, r in enumerate(records) for place in _places(r, aspect)][::-1]
    if not found:
        raise ArgumentError(
            "`model` must have a feature map or tokens of patches to read: found none among the "
            f'outputs of its {len(records)} modules. Let φ read pixels: features="pyramid".'
        )
    plain = next((place for _, place in found if not place.channels_last), found[0][1])
    return _below_head(records, found, logits) or _class_map(records, found, logits) or plain


class _Record(NamedTuple):
    """What one call of a module took and gave."""

    name: str
    call: int
    module: nn.Module
    given: Any
    out: Tensor


_Found = Sequence[tuple[int, LastMap]]
"""Readings of the record with that number, the last first."""


def _watched(
    model: nn.Module, image_shape: tuple[int, int, int], output: Output | None
) -> tuple[list[_Record], Tensor]:
    records: list[_Record] = []
    calls: Counter[str] = Counter()

    def watch(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
            if isinstance(out, Tensor):
                records.append(_Record(name, calls[name], module, given, out))
            calls[name] += 1

        return hook

    noise = torch.rand(N_WATCHED, *image_shape, generator=torch.Generator().manual_seed(0))
    with ExitStack() as hooks, torch.no_grad(), evaluation_mode(model):
        for name, module in model.named_modules():
            if name:
                hooks.callback(module.register_forward_hook(watch(name)).remove)
        try:
            returned = model(suited_to(model, noise))
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise ArgumentError(
                f"`model` must take images of shape {image_shape}: it raised "
                f"{type(error).__name__}, {error}. Give the size that it takes with size=."
            ) from error
    found = picked(returned, output)
    if not isinstance(found, Tensor):
        raise ArgumentError(
            f"`model` must return a tensor: got {type(found).__name__}. Pick the tensor with "
            'output=, such as output=lambda o: o["logits"].'
        )
    return records, found


def _places(record: _Record, aspect: float) -> Iterator[LastMap]:
    """The ways to read an output as a map, the likeliest last."""
    shape = record.out.shape
    if shape[:1] != (N_WATCHED,):
        return
    name, call = record.name, record.call
    if len(shape) == 3:
        height, width = _rectangle(shape[1], aspect)
        skipped = shape[1] - height * width
        if min(height, width) > 1 and skipped <= MOST_OTHER_TOKENS:
            yield LastMap(name, shape[2], (height, width), call, skipped=skipped)
    if len(shape) == 4 and min(shape[1:]) > 1:
        yield LastMap(name, shape[3], (shape[1], shape[2]), call, channels_last=True)
    if len(shape) == 4 and shape[2] * shape[3] > 1:
        yield LastMap(name, shape[1], (shape[2], shape[3]), call)


def _rectangle(n_tokens: int, aspect: float) -> tuple[int, int]:
    """Rows and columns of the largest grid among so many tokens, with this height / width."""
    height = int((n_tokens * aspect) ** 0.5 + ROUNDING)
    return height, int(height / aspect + ROUNDING)


def _below_head(records: Sequence[_Record], found: _Found, logits: Tensor) -> LastMap | None:
    """The last map that the final linear layer could be asked about."""
    linear = [i for i, record in enumerate(records) if _is_linear(record)]
    heads = [i for i in linear if records[i].out.flatten(1).shape == logits.shape]
    if not heads or not records[heads[-1]].given:
        return None
    head = records[heads[-1]]
    pooled = head.given[0].flatten(1)
    before = max((i for i in linear if i < heads[-1] and i not in heads), default=-1)
    for i, place in found:
        if i > heads[-1] or place.channels != pooled.shape[1]:
            continue
        features = place.as_map(records[i].out)
        averaged = _averages_to(features, pooled)
        rectified = not averaged and _averages_to(features.relu(), pooled)
        if averaged or rectified or i >= before:
            return replace(place, head=head.name, rectified=rectified)
    return None


def _is_linear(record: _Record) -> bool:
    """Whether a call made a vector from a vector, or from what was pooled to a single place."""
    module, shape = record.module, record.out.shape
    if isinstance(module, nn.Conv2d):
        return module.kernel_size == (1, 1) and module.groups == 1 and shape[2:].numel() == 1
    return isinstance(module, nn.Linear) and len(shape) == 2


def _class_map(records: Sequence[_Record], found: _Found, logits: Tensor) -> LastMap | None:
    """The last map whose channels, or their positive parts, average to the classes."""
    for i, place in found:
        features = place.as_map(records[i].out)
        if _averages_to(features, logits) or _averages_to(features.relu(), logits):
            return replace(place, is_class_map=True)
    return None


def _averages_to(features: Maps, pooled: Tensor) -> bool:
    mean, pooled = features.float().mean(dim=(2, 3)), pooled.float()
    room = ALIKE * float(pooled.abs().max())
    return mean.shape == pooled.shape and torch.allclose(mean, pooled, rtol=0.0, atol=room)
