"""What the loss on held-out inputs would be after a step of the model, as weights see it."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, autograd, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from instaaug.networks.evaluation_mode import evaluation_mode
from instaaug.networks.frozen_features import eager, plain

__all__ = ["Call", "LossesOfModel", "look_ahead_loss"]

Call = Callable[[Tensor], Tensor]
"""The model, as a function."""

LossesOfModel = Callable[[Call], Float[Tensor, " rows"]]
"""From a model to one loss per input."""


def look_ahead_loss(
    model: nn.Module,
    weights: Float[Tensor, " rows"],
    train_losses: LossesOfModel,
    held_out_losses: LossesOfModel,
    *,
    learning_rate: float,
) -> Float[Tensor, ""]:
    r"""The mean held-out loss after one step of gradient descent on the weighted training loss.

    .. math:: L\Big(f - \eta \sum_i w_i \nabla \ell_i(f)\Big), \qquad
        \frac{\partial L}{\partial w_i} = -\eta\, \nabla L \cdot \nabla \ell_i(f)

    The value is that of the formula, the gradient reaches ``weights`` and nothing else. Neither
    parameters, gradients, buffers nor torch's random state change. The training losses are those
    of the model in its present mode; the held-out ones those of evaluation.

    Arguments:
        model: Any module; parameters that do not learn do not take the step.
        weights: w, one per training loss, with gradient.
        train_losses: Calls the model it is given and returns one loss per training input.
        held_out_losses: Likewise, of held-out inputs.
        learning_rate: η.

    Example:
        >>> model, x = nn.Linear(1, 1, bias=False), torch.ones(1, 1)
        >>> nn.init.zeros_(model.weight)
        Parameter containing:
        tensor([[0.]], requires_grad=True)
        >>> weights = torch.ones(1, requires_grad=True)
        >>> loss = look_ahead_loss(
        ...     model,
        ...     weights,
        ...     lambda f: f(x)[:, 0],  # the slope is 1, so the parameter goes to -0.5
        ...     lambda f: (f(x)[:, 0] - 1) ** 2,
        ...     learning_rate=0.5,
        ... )
        >>> loss.item(), torch.autograd.grad(loss, weights)[0].item()  # 1.5², 2·1.5·0.5
        (2.25, 1.5)
    """
    model, used = plain(model), weights.detach()
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    with eager(model), sdpa_kernel(SDPBackend.MATH):  # faster ones have no forward derivative
        with torch.enable_grad(), _borrowed(model, learned) as call:
            gradient = _gradient(train_losses(call), learned, used)
        stepped = {
            name: (p.detach() - learning_rate * gradient[name]).requires_grad_()
            for name, p in learned.items()
        }
        with torch.enable_grad(), evaluation_mode(model), _borrowed(model, stepped) as call:
            held_out = held_out_losses(call)
            slope = _gradient(held_out, stepped, torch.full_like(held_out, 1 / len(held_out)))
        # ∇L·∇ℓ for all inputs at once is the derivative of the losses along ∇L: one more forward
        # pass with dual numbers. Backward through the step, the textbook way, gives the same
        # numbers in about the same time, but keeps the graph of the gradient in memory as well.
        with torch.no_grad(), _dual_numbers():
            moving = {
                name: forward_ad.make_dual(p.detach(), slope[name]) for name, p in learned.items()
            }
            with _borrowed(model, moving) as call:
                tangent = forward_ad.unpack_dual(train_losses(call)).tangent
    effect = torch.zeros_like(used) if tangent is None else -learning_rate * tangent
    return held_out.detach().mean() + (effect.to(weights) * (weights - used)).sum()


def _gradient(
    losses: Tensor, parameters: Mapping[str, Tensor], weights: Tensor
) -> dict[str, Tensor]:
    """The gradient of the weighted sum of the losses; zero where a parameter has no part."""
    found = autograd.grad(
        losses, list(parameters.values()), weights.to(losses), materialize_grads=True
    )
    return dict(zip(parameters, found, strict=True))


@contextmanager
def _dual_numbers() -> Iterator[None]:
    """Forward derivatives; torch itself makes their rules with what it has deprecated since."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)
        with forward_ad.dual_level():
            yield


@contextmanager
def _borrowed(model: nn.Module, parameters: Mapping[str, Tensor]) -> Iterator[Call]:
    """The model with other parameters and with copies of its buffers.

    Every pass begins in torch's present random state and leaves it alone, so that dropout drops
    the same in the two passes over the training inputs, and in the model's own step.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = {p.device for p in parameters.values() if p.device.type == "cuda"}

    def call(x: Tensor) -> Tensor:
        return functional_call(model, {**parameters, **buffers}, (x,))

    with torch.random.fork_rng(devices=sorted(devices, key=str)):
        yield call
