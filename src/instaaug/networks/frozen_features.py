"""Feature maps for φ from a model that is not trained: where it sees evidence for which class."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.networks.class_evidence import N_EVIDENCE, class_evidence
from instaaug.networks.last_map import LastMap, find_last_map
from instaaug.networks.model_output import Output, picked
from instaaug.shapes import Images, Maps

__all__ = ["FrozenFeatures"]

CHUNK_ON_CPU = 32


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
        >>> features = FrozenFeatures(PreActResNet18(10, width=0.125).eval(), size=32)
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
        self.place: LastMap = find_last_map(
            plain(model), (in_channels, height, side), output=output
        )
        channels = N_EVIDENCE if self.place.has_classes else self.place.channels
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("std", torch.ones(channels, 1, 1))
        self.mix = nn.Conv2d(channels, width, 1)
        self.out_channels = (width,)

    @property
    def model(self) -> nn.Module:
        """The model whose features these are."""
        return self._model[0]

    @torch.no_grad()
    def look(self, x: Images) -> tuple[Maps, Any]:
        """What the model sees at each place, ``(B, E, h, w)``, and what it returns for ``x``."""
        found: list[Tensor] = []
        own = next((p for p in self.model.parameters() if p.is_floating_point()), x)
        model = plain(self.model)
        module = model.get_submodule(self.place.name)
        handle = module.register_forward_hook(lambda _, __, out: found.append(out))
        try:
            returned = model(x.to(own.dtype))
        finally:
            handle.remove()
        features = self.place.as_map(found[-1]).float()
        if not self.place.has_classes:
            return features, returned
        logits = picked(returned, self._output)
        assert isinstance(logits, Tensor)  # noqa: S101  # it was when the map was sought
        weight, bias = self.place.classifier(model)
        return class_evidence(features, logits.float(), weight, bias), returned

    def standardize(self, seen: Maps) -> None:
        """Let mean and spread of each channel be those of ``seen``, a sample of what is seen."""
        values = seen.float().movedim(1, 0).flatten(1)
        self.mean.copy_(values.mean(dim=1)[:, None, None])
        self.std.copy_(values.std(dim=1).clamp(min=1e-6)[:, None, None])

    def maps(self, seen: Maps) -> list[Maps]:
        """The feature maps that belong to what :meth:`look` returned."""
        return [self.mix((seen - self.mean) / self.std)]

    @override
    def forward(self, x: Float[Tensor, "batch c h w"]) -> list[Maps]:
        chunk = CHUNK_ON_CPU if x.device.type == "cpu" else len(x)
        return self.maps(torch.cat([self.look(part)[0] for part in x.split(chunk)]))

    @override
    def __repr__(self) -> str:
        return f"FrozenFeatures({self.place.story})"


def plain(model: nn.Module) -> nn.Module:
    """The model behind ``torch.compile``, whose hooks would not be heard."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, nn.Module) else model
