"""Feature maps for φ from a model that is not trained: where it sees evidence for which class."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.networks.class_evidence import N_EVIDENCE, class_evidence
from instaaug.networks.evaluation_mode import evaluation_mode
from instaaug.networks.last_map import LastMap, find_last_map
from instaaug.networks.model_input import suited_to
from instaaug.networks.model_output import Output, picked
from instaaug.shapes import Images, Maps

__all__ = ["FrozenFeatures"]

CHUNK_ON_CPU = 32
SMALLEST_SPREAD = 1e-6  # of a channel that says anything


class FrozenFeatures(nn.Module):
    """What a frozen model sees in the whole image, as feature maps for φ.

    The features of a trained model say where the object is, so that a small head on top learns
    from few images; and they come from a pass that test-time augmentation makes anyway, for the
    whole image is one of its views. Where the model ends in pooling and a linear layer, that layer
    is asked at every place of the last map which class it would name
    (:func:`~instaaug.networks.class_evidence.class_evidence`); otherwise the last map itself is
    read.

    The model is borrowed, not owned: it is not among the parameters, does not follow ``.to()`` or
    ``.train()``, and is not saved.

    Arguments:
        model: Predicts classes; in evaluation mode whenever it is asked.
        size: Side, or height and width, of the images it takes.
        in_channels: Channels of the images.
        width: Channels of the map that φ's heads read.
        output: Picks the tensor out of what the model returns.

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
    ) -> None:
        super().__init__()
        height, side = (size, size) if isinstance(size, int) else size
        self._model = (model,)  # in a tuple, or it would become part of this module
        self._output = output
        with eager(model):
            image_shape = (in_channels, height, side)
            self.place: LastMap = find_last_map(plain(model), image_shape, output=output)
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
        """Whether these are features of ``model``, be it compiled or not."""
        return model is not None and plain(model) is plain(self.model)

    def look(self, x: Images) -> tuple[Maps, Any]:
        """What the model sees at each place, ``(B, E, h, w)``, and what it returns for ``x``.

        What it sees carries no gradient; what it returns does, as if the model had been called.
        """
        model, outputs = plain(self.model), list[Tensor]()
        with ExitStack() as stack:
            module = model.get_submodule(self.place.name)
            hook = module.register_forward_hook(lambda _, __, out: outputs.append(out))
            stack.callback(hook.remove)
            if not torch.compiler.is_compiling():  # whoever traces it has done that
                stack.enter_context(eager(model))
                stack.enter_context(evaluation_mode(model))
            returned = model(suited_to(model, x))
        with torch.no_grad():
            features = self.place.as_map(outputs[self.place.call].detach()).float()
            if not self.place.has_classes:
                return features, returned
            logits = picked(returned, self._output)
            assert isinstance(logits, Tensor)  # noqa: S101  # it was when the map was sought
            weight, bias = self.place.classifier(model)
            return class_evidence(features, logits.float(), weight, bias), returned

    def looks(self, x: Images, *, chunk_size: int | None = None) -> Iterator[tuple[Maps, Any]]:
        """What :meth:`look` gives for one chunk of ``x`` after the other.

        Arguments:
            x: Images.
            chunk_size: Most images at once; by default 32 on a processor, all on an accelerator.
        """
        chunk_size = chunk_size or (CHUNK_ON_CPU if x.device.type == "cpu" else len(x))
        return (self.look(part) for part in x.split(chunk_size))

    @torch.no_grad()
    def standardize(self, seen: Maps) -> None:
        """Let mean and spread of each channel be those of ``seen``, a sample of what is seen."""
        values = seen.float().movedim(1, 0).flatten(1)
        spread = values.std(dim=1)
        spread = torch.where(spread > SMALLEST_SPREAD, spread, 1.0)
        self.mean.copy_(values.mean(dim=1)[:, None, None])
        self.std.copy_(spread[:, None, None])

    def maps(self, seen: Maps) -> list[Maps]:
        """The feature maps that belong to what :meth:`look` returned."""
        return [self.mix((seen.to(self.mean) - self.mean) / self.std)]

    @override
    def forward(self, x: Images) -> list[Maps]:
        with torch.no_grad():
            seen = torch.cat([seen for seen, _ in self.looks(x)])
        return self.maps(seen)

    @override
    def __repr__(self) -> str:
        return f"FrozenFeatures({self.place.story})"


def plain(model: nn.Module) -> nn.Module:
    """The model behind ``torch.compile``, whose hooks would not be heard."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, nn.Module) else model


@contextmanager
def eager(model: nn.Module) -> Iterator[None]:
    """Leave out what ``model.compile()`` made: every new hook would have it compile again."""
    compiled = any(getattr(part, "_compiled_call_impl", None) for part in model.modules())
    with ExitStack() as stack:
        if compiled and hasattr(torch.compiler, "set_stance"):  # from torch 2.6 on
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield
