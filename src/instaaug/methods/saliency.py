"""Where a model looks: by the gradient of its loss, or by the magnitude of its feature maps."""

from contextlib import ExitStack

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.methods.mixing import MixingAugmenter
from instaaug.networks.model_interface import (
    as_input_of,
    batch_statistics,
    evaluation_mode,
    pick_output,
    run_eagerly,
    unwrap_compiled,
)
from instaaug.shapes import Images

__all__ = [
    "SaliencyMixer",
    "check_labels",
    "feature_saliency",
    "gradient_saliency",
    "normalize_saliency",
]

SaliencyMaps = Float[Tensor, "batch rows columns"]
LEAST_SIDE = 4  # of a feature map that tells one place from another


def gradient_saliency(
    model: nn.Module, x: Images, targets: Int[Tensor, " batch"], *, clean: float = 0.0
) -> tuple[SaliencyMaps, Float[Tensor, ""] | None]:
    r"""How much the loss depends on each pixel, and the loss itself to learn from.

    .. math:: s = \sqrt{\tfrac1C \sum_c (\partial \ell / \partial x_c)^2}

    with the cross-entropy ℓ. Neither parameters, buffers nor gradients of the model change.

    Arguments:
        model: Returns logits.
        x: Images as the model takes them.
        targets: Their classes.
        clean: Weight of the mean loss that is returned; its gradient for the model comes out of
            the same pass. If 0, there is none, and BatchNorm is in evaluation mode.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2, bias=False))
        >>> _ = nn.init.constant_(model[1].weight, 0.0)
        >>> with torch.no_grad():
        ...     model[1].weight[0, 2] = 1.0  # it looks at the third pixel alone
        >>> maps, _ = gradient_saliency(model, torch.rand(1, 1, 2, 2), torch.tensor([1]))
        >>> maps > 0
        tensor([[[False, False],
                 [ True, False]]])
    """
    model = unwrap_compiled(model)
    learned = [p for p in model.parameters() if p.requires_grad] if clean else []
    with ExitStack() as stack:
        stack.enter_context(run_eagerly(model))
        stack.enter_context(batch_statistics(model) if clean else evaluation_mode(model))
        stack.enter_context(torch.enable_grad())
        seen = as_input_of(model, x).detach().requires_grad_()
        outputs = pick_output(model(seen))
        assert isinstance(outputs, Tensor)  # noqa: S101  # the task has checked it
        loss = F.cross_entropy(outputs, targets)
        slope, *gradients = torch.autograd.grad(loss, [seen, *learned], materialize_grads=True)
    maps = slope.float().square().mean(dim=1).sqrt()
    if not clean:
        return maps, None
    # a linear function with the value and the gradient of the loss: its graph is used up
    added = loss.detach().float()
    for gradient, parameter in zip(gradients, learned, strict=True):
        added = added + (gradient * (parameter - parameter.detach())).sum()
    return maps, clean * added


def feature_saliency(model: nn.Module, x: Images) -> SaliencyMaps:
    """The mean magnitude of the last feature maps of at least 4 × 4 places; no backward pass.

    The model is in evaluation mode, and nothing of it changes.

    Arguments:
        model: Has feature maps ``(B, C, h, w)`` somewhere.
        x: Images as the model takes them.

    Example:
        >>> from instaaug.networks import PreActResNet18
        >>> feature_saliency(PreActResNet18(10, width=0.125), torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 4, 4])
    """
    model, found = unwrap_compiled(model), list[Tensor]()

    def note(_: nn.Module, __: object, output: object) -> None:
        if not isinstance(output, Tensor) or output.ndim != 4 or len(output) != len(x):
            return
        if min(output.shape[-2:]) >= LEAST_SIDE:
            found[:] = [output]

    with ExitStack() as stack:
        for module in model.modules():
            stack.callback(module.register_forward_hook(note).remove)
        stack.enter_context(run_eagerly(model))
        stack.enter_context(evaluation_mode(model))
        stack.enter_context(torch.no_grad())
        model(as_input_of(model, x))
    if not found:
        raise ArgumentError(
            "`model` must have feature maps of at least 4 × 4 places, which say where it looks: "
            f"got none in {type(model).__name__} for {x.shape[-2]} × {x.shape[-1]} pixels. Train "
            "a convolutional model, or choose another method."
        )
    return found[0].float().abs().mean(dim=1)


def normalize_saliency(maps: SaliencyMaps) -> SaliencyMaps:
    """Maps whose sum is 1; the same in all places where there is none.

    Example:
        >>> normalize_saliency(torch.tensor([[[1.0, 3.0]], [[0.0, 0.0]]]))
        tensor([[[0.2500, 0.7500]],
        <BLANKLINE>
                [[0.5000, 0.5000]]])
    """
    maps = maps + torch.finfo(maps.dtype).tiny * 1e6
    return maps / maps.sum(dim=(1, 2), keepdim=True)


class SaliencyMixer(MixingAugmenter):
    """Mixes inputs by where the model looks; :meth:`attach` says which model."""

    _model: tuple[nn.Module, ...] = ()  # a tuple, or the model would become part of the augmenter

    @override
    def attach(self, model: nn.Module) -> None:
        """Look at where ``model`` looks from now on."""
        self._model = (unwrap_compiled(model),)

    @property
    def model(self) -> nn.Module:
        """The model that is being trained."""
        if not self._model:
            raise ArgumentError(
                f"`model` must be known to {type(self).__name__}, which mixes by where it looks: "
                "got none. Call attach(model) first."
            )
        return self._model[0]


def check_labels(targets: Tensor | None) -> Int[Tensor, " batch"]:
    """The labels; raise if there are none, or no whole numbers."""
    if targets is None or targets.ndim != 1 or targets.is_floating_point():
        got = "none" if targets is None else f"{targets.dtype} of shape {tuple(targets.shape)}"
        raise ArgumentError(
            "`targets` must be one class per input, for the gradient of the loss says where the "
            f"model looks: got {got}. Call the augmenter with targets=."
        )
    return targets
