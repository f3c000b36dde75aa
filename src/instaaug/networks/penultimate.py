"""The features that a classifier's last linear layer makes its logits of."""

from contextlib import ExitStack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks.evaluation_mode import evaluation_mode
from instaaug.networks.frozen_features import eager, plain
from instaaug.networks.model_input import suited_to
from instaaug.networks.model_output import Output, picked
from instaaug.shapes import Images

__all__ = ["PenultimateFeatures"]


class PenultimateFeatures:
    """What enters the last ``nn.Linear`` of a model that someone else trains.

    It is no module: whoever holds it does not own the model. The head is the linear layer that
    was registered last, so that its width is known before the model has seen an image; the first
    call finds out whether the logits do come from it.

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
        self.model = plain(model)
        self._output = output
        linear = [part for part in self.model.modules() if isinstance(part, nn.Linear)]
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
        given: list[Tensor] = []
        made: list[Tensor] = []

        def watch(_: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
            given.append(inputs[0])
            made.append(logits)

        with ExitStack() as stack:
            stack.callback(self.head.register_forward_hook(watch).remove)
            stack.enter_context(eager(self.model))
            stack.enter_context(evaluation_mode(self.model))
            stack.enter_context(torch.set_grad_enabled(gradient))
            returned = self.model(suited_to(self.model, x))
        if not self._is_checked:
            self._check(picked(returned, self._output), made)
            self._is_checked = True
        return given[-1]

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
