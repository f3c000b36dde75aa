"""What a step on a view is worth to other images, to first order in the model's last layer."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.functional.processes import mean_over_processes

__all__ = ["Usefulness"]

PULL = 0.1  # of a new gradient
SLOW_PULL = 0.02
LEAST_SCALE = 1e-12


class Usefulness(nn.Module):
    r"""How much a step on each view would lower the loss of other images.

    A step of size η on view i changes the mean loss of others by
    :math:`-\eta\,\langle g_i, \bar g \rangle`, where :math:`g_i` is the gradient of its loss and
    :math:`\bar g` that of theirs. In the last layer, :math:`g_i = r_i h_i^\top` with the residual
    :math:`r = \partial \ell / \partial \text{output}` and the features h that enter it, so that

    .. math:: u_i = r_i^\top \bar G\, h_i, \qquad \bar G = \mathbb{E}_{\text{others}}[r h^\top]

    costs two small products. A view that is easy has no residual and teaches nothing; one that
    shows something else than its label says has a residual that points the wrong way. A φ that
    minimizes the loss looks for the first kind; one that maximizes usefulness avoids both.

    :math:`\bar G` is a moving average, and u is divided by its usual size, which changes a
    thousandfold in training. Both are buffers, and are saved with the run.

    Arguments:
        n_outputs: Of the last layer.
        n_features: That enter it.

    References:
        | Learning to Reweight Examples for Robust Deep Learning (Ren et al., 2018)
        | Estimating Training Data Influence by Tracing Gradient Descent (Pruthi et al., 2020)

    Example:
        >>> useful = Usefulness(n_outputs=2, n_features=1)
        >>> others = torch.tensor([[-1.0, 1.0]])  # want more of class 0 where the feature is on
        >>> useful.update(others, torch.ones(1, 1))
        >>> views = torch.tensor([[-0.5, 0.5], [0.0, 0.0], [0.5, -0.5]])
        >>> useful(views, torch.ones(3, 1)).sign()  # the same wish, known already, the opposite
        tensor([ 1.,  0., -1.])
    """

    direction: Tensor
    scale: Tensor

    def __init__(self, n_outputs: int, n_features: int) -> None:
        super().__init__()
        self.register_buffer("direction", torch.zeros(n_outputs, n_features + 1))
        self.register_buffer("scale", torch.tensor(0.0))

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Usefulness":
        """Move devices, but keep what moves slowly in float32."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.direction, self.scale = self.direction.float(), self.scale.float()
        return self

    @torch.no_grad()
    def update(self, residuals: Float[Tensor, "n c"], features: Float[Tensor, "n d"]) -> None:
        """Let the gradient of other images count; processes agree on its mean."""
        gradient = _exact_product(residuals.T, _with_one(features)) / len(residuals)
        pull = torch.where(self.direction.any(), PULL, 1.0)
        self.direction.copy_(torch.lerp(self.direction, mean_over_processes(gradient), pull))

    @torch.no_grad()
    @override
    def forward(
        self, residuals: Float[Tensor, "n c"], features: Float[Tensor, "n d"]
    ) -> Float[Tensor, " n"]:
        """The usefulness of views, in units of its usual size; moves what is usual in training."""
        wishes = _exact_product(residuals, self.direction)
        useful = (wishes * _with_one(features)).sum(dim=-1)
        if self.training:
            size = mean_over_processes(useful.square().mean())
            pull = torch.where(self.scale > 0, SLOW_PULL, 1.0)
            self.scale.copy_(torch.lerp(self.scale, size, pull))
        return useful / self.scale.sqrt().clamp(min=LEAST_SCALE)


def _exact_product(a: Float[Tensor, "n k"], b: Float[Tensor, "k m"]) -> Float[Tensor, "n m"]:
    """The matrix product in float32, whatever precision the model is trained in."""
    with torch.autocast(a.device.type, enabled=False):
        return a.float() @ b.float()


def _with_one(features: Float[Tensor, "n d"]) -> Float[Tensor, "n d_plus_1"]:
    return torch.cat([features.float(), features.new_ones(len(features), 1).float()], dim=-1)
