"""Feature maps for φ from a frozen model: where it finds evidence for which class."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks.model_interface import (
    Output,
    as_input_of,
    evaluation_mode,
    pick_output,
    run_eagerly,
    unwrap_compiled,
)
from instaaug.shapes import Images, Maps, has_channels_last

__all__ = ["N_EVIDENCE", "FrozenFeatures", "LastMap", "class_evidence", "find_last_map"]

CHUNK_ON_CPU = 32
SMALLEST_SPREAD = 1e-6  # of a channel that says anything
N_CANDIDATES = 16  # classes that are scored at each place
N_EVIDENCE = 12
N_WATCHED = 2  # images: what is the same for all of them has another length
MOST_OTHER_TOKENS = 5  # for the class, registers
ALIKE = 0.02  # of the largest number; half precision is not more exact
ROUNDING = 1e-6


class FrozenFeatures(nn.Module):
    """What a frozen model sees in the whole image, as feature maps for φ.

    The features of a trained model say where the object is, so that a small head on top learns
    from few images; and they come from a pass that test-time augmentation makes anyway, for the
    whole image is one of its views. Where the model ends in pooling and a linear layer, that layer
    is applied at every place of the last map
    (:func:`~instaaug.networks.frozen_features.class_evidence`); otherwise the last map itself is
    read.

    The model is borrowed, not owned: it is not among the parameters, does not follow ``.to()`` or
    ``.train()``, and is not saved.

    Arguments:
        model: Predicts classes; it is run in evaluation mode.
        size: Side, or height and width, of the images it takes.
        in_channels: Channels of the images.
        width: Channels of the map that φ's heads read.
        output: Picks the tensor out of what the model returns.
        evidence: Whether to ask the linear layer; otherwise the last map itself is read.

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> features = FrozenFeatures(PreActResNet18(10, width=0.125), size=32)
        >>> features
        FrozenFeatures(class evidence at 'norm', 4×4)
        >>> [m.shape for m in features(torch.rand(2, 3, 32, 32))]
        [torch.Size([2, 16, 4, 4])]
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        size: int | tuple[int, int],
        in_channels: int = 3,
        width: int = 16,
        output: Output | None = None,
        evidence: bool = True,
    ) -> None:
        super().__init__()
        height, side = (size, size) if isinstance(size, int) else size
        self._model = (model,)  # in a tuple, or it would become part of this module
        self._output = output
        with run_eagerly(model):
            image_shape = (in_channels, height, side)
            self.place: LastMap = find_last_map(unwrap_compiled(model), image_shape, output=output)
        if not evidence:
            self.place = replace(self.place, head=None, is_class_map=False)
        channels = N_EVIDENCE if self.place.has_classes else self.place.channels
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("std", torch.ones(channels, 1, 1))
        self.mix = nn.Conv2d(channels, width, 1)
        self.out_channels = (width,)

    @property
    def model(self) -> nn.Module:
        """The model whose features these are."""
        return self._model[0]

    def reads(self, model: nn.Module | None) -> bool:
        """Whether these are features of ``model``, compiled or not."""
        return model is not None and unwrap_compiled(model) is unwrap_compiled(self.model)

    def features_and_outputs(self, x: Images) -> tuple[Maps, Any]:
        """The model's features at each place, ``(B, E, h, w)``, and what it returns for ``x``.

        The features carry no gradient; what it returns does, as if the model had been called.
        """
        model, outputs = unwrap_compiled(self.model), list[Tensor]()
        with ExitStack() as stack:
            module = model.get_submodule(self.place.name)
            hook = module.register_forward_hook(lambda _, __, out: outputs.append(out))
            stack.callback(hook.remove)
            if not torch.compiler.is_compiling():  # tracing has done that already
                stack.enter_context(run_eagerly(model))
                stack.enter_context(evaluation_mode(model))
            returned = model(as_input_of(model, x))
        with torch.no_grad():
            features = self.place.as_map(outputs[self.place.call].detach()).float()
            if not self.place.has_classes:
                return features, returned
            logits = pick_output(returned, self._output)
            assert isinstance(logits, Tensor)  # noqa: S101  # it was when the map was sought
            weight, bias = self.place.classifier(model)
            return class_evidence(features, logits.float(), weight, bias), returned

    def features_in_chunks(
        self, x: Images, *, chunk_size: int | None = None
    ) -> Iterator[tuple[Maps, Any]]:
        """The results of :meth:`features_and_outputs`, chunk by chunk.

        Arguments:
            x: Images.
            chunk_size: Most images at once; by default 32 on a CPU, all on an accelerator.
        """
        chunk_size = chunk_size or (CHUNK_ON_CPU if x.device.type == "cpu" else len(x))
        return (self.features_and_outputs(part) for part in x.split(chunk_size))

    @torch.no_grad()
    def standardize(self, features: Maps) -> None:
        """Standardize each channel from now on by its mean and spread in a sample of features."""
        values = features.float().movedim(1, 0).flatten(1)
        spread = values.std(dim=1)
        spread = torch.where(spread > SMALLEST_SPREAD, spread, 1.0)
        self.mean.copy_(values.mean(dim=1)[:, None, None])
        self.std.copy_(spread[:, None, None])

    def maps(self, features: Maps) -> list[Maps]:
        """The feature maps that φ's heads read, from the model's features."""
        return [self.mix((features.to(self.mean) - self.mean) / self.std)]

    @override
    def forward(self, x: Images) -> list[Maps]:
        with torch.no_grad():
            features = torch.cat([part for part, _ in self.features_in_chunks(x)])
        return self.maps(features)

    @override
    def __repr__(self) -> str:
        return f"FrozenFeatures({self.place.description})"


def class_evidence(
    features: Maps,
    logits: Float[Tensor, "batch classes"],
    weight: Float[Tensor, "classes channels"] | None,
    bias: Float[Tensor, " classes"] | None,
) -> Float[Tensor, "batch evidence height width"]:
    r"""Twelve numbers per place, none of which knows any class by name.

    A linear layer on averaged features may as well be asked before averaging: at place p it gives
    :math:`z_p = W h_p + b`, the class activation map. Of the 16 classes that the whole image makes
    most probable, ask for each place: how strong is the strongest, how certain is the place, does
    it agree with the whole? Three more numbers say how certain the whole image is.

    Few images suffice to learn from these, because 1280 channels have become twelve, and what is
    learned holds for classes that were never seen.

    Arguments:
        features: The last map of the model.
        logits: The model's output for the whole image.
        weight: Of its linear layer; None if the channels of the map are the classes.
        bias: Of its linear layer, if it has one.

    References:
        | Learning Deep Features for Discriminative Localization (Zhou et al., 2016)
        | https://arxiv.org/abs/1512.04150
    """
    best, classes = logits.topk(min(N_CANDIDATES, logits.shape[1]), dim=1)
    here = _local_logits(features, classes, weight, bias)
    local = here.log_softmax(dim=1)
    whole = best.log_softmax(dim=1)
    agreement = (local + whole[:, :, None, None]).logsumexp(dim=1, keepdim=True)
    second = min(1, best.shape[1] - 1)
    about_places = [
        here.amax(dim=1, keepdim=True),
        local.amax(dim=1, keepdim=True),
        (local.exp() * local).sum(dim=1, keepdim=True),
        local[:, :1],
        agreement,
        local[:, :5].logsumexp(dim=1, keepdim=True),
        here[:, :1],
        here[:, second : second + 1],
        features.norm(dim=1, keepdim=True),
    ]
    about_whole = torch.stack(
        [whole[:, 0], (whole.exp() * whole).sum(dim=1), best[:, 0] - best[:, second]], dim=1
    )
    spread = about_whole[:, :, None, None].expand(-1, -1, *features.shape[2:])
    return torch.cat([*about_places, spread], dim=1)


def _local_logits(
    features: Maps,
    classes: Tensor,
    weight: Float[Tensor, "classes channels"] | None,
    bias: Float[Tensor, " classes"] | None,
) -> Float[Tensor, "batch candidates height width"]:
    if weight is None:
        index = classes[:, :, None, None].expand(-1, -1, *features.shape[2:])
        return features.gather(1, index)
    scores = torch.bmm(weight[classes].float(), features.flatten(2)).unflatten(
        2, features.shape[2:]
    )
    return scores if bias is None else scores + bias[classes].float()[:, :, None, None]


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
    def description(self) -> str:
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
        bias: Tensor | None = layer.bias  # torch's annotation ignores bias=False
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
    records, logits = _record_calls(model, image_shape, output)
    aspect = image_shape[1] / image_shape[2]
    found = [(i, place) for i, r in enumerate(records) for place in _places(r, aspect)][::-1]
    if not found:
        raise ArgumentError(
            "`model` must have a feature map or tokens of patches to read: found none among the "
            f'outputs of its {len(records)} modules. Let φ read pixels: features="pyramid".'
        )
    last = next((place for _, place in found if not place.channels_last), found[0][1])
    return _below_head(records, found, logits) or _class_map(records, found, logits) or last


class _Record(NamedTuple):
    """What one call of a module took and gave."""

    name: str
    call: int
    module: nn.Module
    given: Any
    out: Tensor


_Found = Sequence[tuple[int, LastMap]]
"""Readings of the record with that number, the last first."""


def _shape_advice(images: Tensor) -> str:
    if has_channels_last(images):
        return "Their channels come last: call images.permute(0, 3, 1, 2) first."
    return "Give the size that it takes with size=."


def _record_calls(
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
            returned = model(as_input_of(model, noise))
        except (RuntimeError, ValueError, TypeError, AssertionError) as error:
            raise ArgumentError(
                f"`model` must take images of shape {image_shape}: it raised "
                f"{type(error).__name__}, {error}. {_shape_advice(noise)}"
            ) from error
    found = pick_output(returned, output)
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
