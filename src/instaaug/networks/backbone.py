"""Features of any network, and a linear classifier on top of them."""

from copy import deepcopy

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.networks.model_interface import (
    Output,
    as_input_of,
    device_of,
    evaluation_mode,
    pick_output,
    unwrap_compiled,
)
from instaaug.shapes import Images

__all__ = ["Backbone", "FeatureClassifier", "pool_features"]

N_WATCHED = 2  # images of noise


class Backbone(nn.Module):
    """A trained network as a function from images to one vector of features each.

    A classifier that ends in a linear layer gives what that layer reads. Any other network gives
    its output: vectors as they are, maps averaged over places, tokens by their class token or,
    without one, averaged.

    Tensors are shared with the network that is given, which is not changed; layers and modes are
    not shared.

    Arguments:
        model: The network.
        image_shape: Channels, height and width of the images it takes.
        output: Picks the tensor out of what the network returns.
        use_output: Whether to take the output even where the last layer is linear, as for a
            projection.

    Shape:
        - ``forward``: ``(B, C, H, W)`` to ``(B, E)``

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> backbone = Backbone(PreActResNet18(10, width=0.125), image_shape=(3, 32, 32))
        >>> backbone.n_features, backbone(torch.rand(2, 3, 32, 32)).shape
        (64, torch.Size([2, 64]))
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        image_shape: tuple[int, int, int],
        output: Output | None = None,
        use_output: bool = False,
    ) -> None:
        super().__init__()
        model = unwrap_compiled(model)
        shared = {id(t): t for t in (*model.parameters(), *model.buffers())}
        self.model = deepcopy(model, dict(shared)).eval()
        self.image_shape, self.use_output = image_shape, use_output
        self._output = output
        self.has_class_token = hasattr(model, "cls_token")
        generator = torch.Generator().manual_seed(0)  # the user's stays as it is
        x = torch.rand(N_WATCHED, *image_shape, generator=generator).to(device_of(model))
        last = None if use_output else _last_linear(self.model, as_input_of(self.model, x), output)
        if last is not None:
            self.model.set_submodule(last, nn.Identity())
        with torch.no_grad():
            self.n_features = self(x).shape[1]

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch e"]:
        returned = pick_output(self.model(as_input_of(self.model, x)), self._output)
        if not isinstance(returned, Tensor) or returned.shape[0] != x.shape[0]:
            got = (
                tuple(returned.shape) if isinstance(returned, Tensor) else type(returned).__name__
            )
            raise ArgumentError(
                f"`backbone` must return features with one row per image, {len(x)} here: got "
                f"{got}. Pick a tensor by --backbone.output."
            )
        return pool_features(returned, has_class_token=self.has_class_token).float()

    @override
    def train(self, mode: bool = True) -> "Backbone":
        """Stay in evaluation mode: the network is frozen."""
        return super().train(False)


def pool_features(features: Tensor, *, has_class_token: bool = False) -> Float[Tensor, "batch e"]:
    """One vector per image from vectors, maps ``(B, E, h, w)`` or tokens ``(B, T, E)``.

    Example:
        >>> pool_features(torch.ones(2, 5, 3, 3)).shape, pool_features(torch.ones(2, 9, 7)).shape
        (torch.Size([2, 5]), torch.Size([2, 7]))
    """
    if features.ndim == 2:
        return features
    if features.ndim == 3:
        return features[:, 0] if has_class_token else features.mean(dim=1)
    if features.ndim == 4:
        return features.mean(dim=(2, 3))
    raise ArgumentError(
        "`backbone` must return features (B, E), maps (B, E, h, w) or tokens (B, T, E): got shape "
        f"{tuple(features.shape)}. Wrap it in a module that returns one of these."
    )


class FeatureClassifier(nn.Module):
    """A frozen backbone and a linear layer on its features: images to logits.

    Arguments:
        backbone: Gives features.
        num_classes: Logits per image.

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> backbone = Backbone(PreActResNet18(10, width=0.125), image_shape=(3, 32, 32))
        >>> FeatureClassifier(backbone, 5)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 5])
    """

    def __init__(self, backbone: Backbone, num_classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.n_features, num_classes).to(device_of(backbone.model))

    @override
    def forward(self, x: Images) -> Float[Tensor, "batch classes"]:
        return self.head(self.backbone(x))


def _last_linear(model: nn.Module, x: Tensor, output: Output | None) -> str | None:
    """The name of the linear layer whose output is the model's; None if there is none."""
    calls: list[tuple[str, Tensor]] = []
    hooks = [
        module.register_forward_hook(
            lambda _, __, out, name=name: calls.append((name, out.detach()))
        )
        for name, module in model.named_modules()
        if name and isinstance(module, nn.Linear)
    ]
    try:
        with torch.no_grad(), evaluation_mode(model):
            returned = pick_output(model(x), output)
    finally:
        for hook in hooks:
            hook.remove()
    if not calls or not isinstance(returned, Tensor):
        return None
    name, out = calls[-1]
    is_last = out.ndim == 2 and out.shape == returned.shape and torch.equal(out, returned)
    return name if is_last and [n for n, _ in calls].count(name) == 1 else None
