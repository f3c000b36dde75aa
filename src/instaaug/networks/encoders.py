"""Encoders: a classifier without its last layer, or with a projection in its place."""

from contextlib import ExitStack
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError, ShapeError
from instaaug.networks.model_interface import (
    Output,
    as_input_of,
    evaluation_mode,
    pick_output,
    run_eagerly,
    unwrap_compiled,
)
from instaaug.shapes import Images

__all__ = ["PenultimateFeatures", "ProjectedEncoder", "backbone_parameters", "remove_head"]


class PenultimateFeatures:
    """What enters the last ``nn.Linear`` of a model that someone else trains.

    It is not a module, so that holding it does not make the model a submodule. The head is the
    classifier that a model of timm names, or the linear layer that was registered last, so that
    its width is known before the model has seen an image; the first call checks that the logits do
    come from it.

    Arguments:
        model: Its logits come from a final linear layer.
        output: Picks the logits out of what the model returns.

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> features = PenultimateFeatures(SmallCNN(10, channels=2))
        >>> features.n_features, features.head.out_features
        (128, 10)
        >>> features(torch.rand(4, 3, 32, 32)).shape
        torch.Size([4, 128])
    """

    def __init__(self, model: nn.Module, *, output: Output | None = None) -> None:
        self.model = unwrap_compiled(model)
        self._output = output
        linear = [part for part in self.model.modules() if isinstance(part, nn.Linear)]
        linear += [head for head in own_heads(self.model) if isinstance(head, nn.Linear)]
        if not linear or not linear[-1].in_features:
            got = "one that has not seen an input yet" if linear else "no linear layer"
            raise ArgumentError(
                f"`model` must make its logits with a final nn.Linear: got {got} in "
                f"{type(self.model).__name__}. Give the number of inputs of a lazy layer, or end "
                "the model in pooling and nn.Linear."
            )
        self.head = linear[-1]
        self._is_checked = False

    @property
    def n_features(self) -> int:
        """How many features an image has."""
        return self.head.in_features

    def __call__(self, x: Images, *, gradient: bool = False) -> Float[Tensor, "batch features"]:
        """The features of each image, by the model in evaluation mode; no buffer changes.

        Arguments:
            x: Images as the model takes them.
            gradient: Whether the features carry gradient to ``x`` and to the model's parameters.
        """
        with ExitStack() as stack:
            stack.enter_context(run_eagerly(self.model))
            stack.enter_context(evaluation_mode(self.model))
            stack.enter_context(torch.set_grad_enabled(gradient))
            return self.with_outputs(as_input_of(self.model, x))[0]

    def with_outputs(self, x: Images) -> tuple[Float[Tensor, "batch features"], Any]:
        """The features of each image and what the model returns, in the mode that it is in."""
        given: list[Tensor] = []
        made: list[Tensor] = []

        def watch(_: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
            given.append(inputs[0])
            made.append(logits)

        hook = self.head.register_forward_hook(watch)
        try:
            returned = self.model(x)
        finally:
            hook.remove()
        if not self._is_checked:
            self._check(pick_output(returned, self._output), made)
            self._is_checked = True
        return given[-1], returned

    def _check(self, logits: object, made: list[Tensor]) -> None:
        """Raise unless the logits are what the head made last."""
        if made and made[-1].ndim == 2 and isinstance(logits, Tensor):
            found, expected = logits.flatten(), made[-1].flatten()
            same = found.shape == expected.shape
            if same and torch.allclose(found, expected, rtol=0.0, atol=0.0, equal_nan=True):
                return
        raise ArgumentError(
            "`model` must return what its last nn.Linear makes of one vector per image: "
            f"{type(self.model).__name__} has {self.head} last, but returned something else. "
            "Register the layer that makes the logits last, and pick them with output=, such as "
            'output=lambda o: o["logits"].'
        )


class ProjectedEncoder(nn.Module):
    """Features of an encoder, then two linear layers with BatchNorm and ReLU between.

    The loss compares projections; what one keeps are the features, for the projection throws away
    what two views of an image do not share.

    Arguments:
        encoder: From images to features ``(B, n_features)``.
        n_features: How many.
        hidden: Width between the two layers.
        n_projected: Length of a projection.

    Example:
        >>> encoder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> model = ProjectedEncoder(encoder, n_features=8)
        >>> model(torch.rand(4, 3, 16, 16)).shape, model.encoder(torch.rand(4, 3, 16, 16)).shape
        (torch.Size([4, 128]), torch.Size([4, 8]))
    """

    def __init__(
        self, encoder: nn.Module, *, n_features: int, hidden: int = 1024, n_projected: int = 128
    ) -> None:
        super().__init__()
        counts = {"n_features": n_features, "hidden": hidden, "n_projected": n_projected}
        for name, count in counts.items():
            if count < 1:
                raise ArgumentError(f"`{name}` must be at least 1: got {count}.")
        self.encoder, self.n_features = encoder, n_features
        self.projection = nn.Sequential(
            nn.Linear(n_features, hidden, bias=False),
            nn.BatchNorm1d(hidden),
            nn.ReLU(inplace=True),
            nn.Linear(hidden, n_projected),
        )

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch d"]:
        features = self.encoder(x)
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        if got != (len(x), self.n_features):
            raise ShapeError(
                f"`encoder` must return one vector per image, ({len(x)}, {self.n_features}): got "
                f"{got}. End it in pooling and nn.Flatten, and say `n_features` as it is."
            )
        return self.projection(features)


def own_heads(model: nn.Module) -> list[nn.Module]:
    """What a model says that makes its outputs, as models of timm do; empty for others."""
    find: Any = getattr(model, "get_classifier", None)
    heads: Any = None if find is None else find()
    heads = heads if isinstance(heads, tuple | list) else [heads]
    return [head for head in heads if isinstance(head, nn.Module)]


def backbone_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters of all layers but those that make the outputs.

    The latter are what ``model.get_classifier()`` returns, as models of timm have it, or else the
    linear layer that was registered last.

    Example:
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 2))
        >>> [tuple(p.shape) for p in backbone_parameters(model)]
        [(8, 3, 3, 3), (8,)]
    """
    found = [p for head in own_heads(model) for p in head.parameters()]
    outer = {id(p) for p in found or PenultimateFeatures(model).head.parameters()}
    return [p for p in model.parameters() if id(p) not in outer]


def remove_head(model: nn.Module, image: Images) -> tuple[nn.Module, int]:
    """A classifier cut off before its last linear layer, and the number of its features.

    Arguments:
        model: Its logits come from a final ``nn.Linear``; it is changed.
        image: An input as it takes them, to find out whether they do.

    Example:
        >>> from instaaug.networks import SmallCNN
        >>> encoder, n_features = remove_head(SmallCNN(10, channels=2), torch.rand(1, 3, 32, 32))
        >>> n_features, encoder(torch.rand(4, 3, 32, 32)).shape
        (128, torch.Size([4, 128]))
    """
    features = PenultimateFeatures(model)
    n_features = features(image).shape[1]
    if features.head is model:
        return nn.Flatten(), n_features
    for part in model.modules():
        for name, child in part.named_children():
            if child is features.head:
                setattr(part, name, nn.Identity())
    return model, n_features
