r"""NT-Xent, the loss of SimCLR: which of all views in a batch is the other one of my image?

With unit vectors :math:`z`, a temperature :math:`t` and :math:`r'` for the other view of the image
of view :math:`r`,

.. math:: \ell_r = -\log p_{rr'}, \qquad
          p_{rc} = \frac{\exp(z_r \cdot z_c / t)}{\sum_{k \ne r} \exp(z_r \cdot z_k / t)}.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from instaaug.errors import ArgumentError
from instaaug.shapes import at_least_float32

__all__ = ["NTXent", "check_temperature", "nt_xent"]

Projections = Float[Tensor, "2 batch d"]
ViewNumbers = Float[Tensor, "2 batch"]


@dataclass(frozen=True)
class NTXent:
    """The NT-Xent losses of two views of every input.

    Arguments:
        losses: NT-Xent of every view, with gradient.
        log_probs: Log-probability that row r (view by view, input by input) takes column c for
            the other view of its image, with gradient; minus infinity for itself.
    """

    losses: ViewNumbers
    log_probs: Float[Tensor, "rows rows"]

    @property
    def is_found(self) -> Bool[Tensor, "2 batch"]:
        """Whether the view nearest to a view is the other one of its image."""
        return (self.log_probs.detach().amax(dim=1) == -self.losses.detach().flatten()).view(
            self.losses.shape
        )

    def credits(self) -> ViewNumbers:
        r"""The losses with their gradients; each value is what its view adds to all losses.

        A view enters the loss of its own row, that of its partner, and as a negative those of all
        others. What would be without the view does not depend on it, and may be subtracted:

        .. math:: C_c = \ell_c + \ell_{c'}
                  + \sum_{r \ne c, c'} \bigl(\ell_r - \ell_r^{-c}\bigr) - b_c,
                  \qquad \ell_r^{-c} = \ell_r + \log(1 - p_{rc}),

        so that the mean of :math:`C_c \nabla \log p(\theta_c \mid x)` is an unbiased estimate of
        the gradient of the mean loss. The baseline is what the others would pay were the whole
        image absent, :math:`b = \overline{2\,\ell_r^{-cc'} + 1 - \exp(-\ell_r^{-cc'})}`: twice a
        loss, and the share of a negative.
        """
        with torch.no_grad():
            credit = self._pair_losses() + self._cost_to_others() - self._baseline()
        return self.losses + (credit - self.losses).detach()

    def _pair_losses(self) -> ViewNumbers:
        """The losses of a view and of its partner, added."""
        return self.losses + self.losses.flip(0)

    def _cost_to_others(self) -> ViewNumbers:
        """What every view, as a negative, adds to the losses of all others."""
        taken = -torch.log1p(-self.log_probs.exp())
        taken = taken.minimum(self.losses.reshape(-1, 1))  # what is left has at least the partner
        others = ~_same_input(self.losses.shape[1], like=taken)
        return (taken * others).sum(dim=0).view_as(self.losses)

    def _baseline(self) -> Float[Tensor, " batch"]:
        """The losses of the others if the input were not in the batch; 0 for a single input."""
        n = self.losses.shape[1]
        if n == 1:
            return self.losses.new_zeros(1)
        share = self.log_probs.exp().view(2 * n, 2, n).sum(dim=1)
        left = torch.log1p(-share.clamp(max=1)) + self.losses.reshape(-1, 1)
        left = left.clamp(min=0)
        others = ~_same_input(n, like=left)[:, :n]
        return ((2 * left + 1 - (-left).exp()) * others).sum(dim=0) / (2 * n - 2)


def check_temperature(temperature: float) -> None:
    """Raise unless it can divide cosines."""
    if not temperature > 0:
        raise ArgumentError(f"`temperature` must be above 0: got {temperature}. 0.5 is usual.")


def nt_xent(z: Projections, *, temperature: float) -> NTXent:
    """Compare two views of every input with one another and with all views of the others.

    Arguments:
        z: Projections of the first views and of the second ones, of any length.
        temperature: Divides the cosines; a lower one cares more for the nearest negatives.

    References:
        | A Simple Framework for Contrastive Learning of Visual Representations
        | (Chen et al., 2020)
        | https://arxiv.org/abs/2002.05709

    Example:
        >>> z = torch.eye(2).expand(2, 2, 2)  # both views alike, both inputs at right angles
        >>> found = nt_xent(z, temperature=1.0)
        >>> found.losses[0, 0], torch.log(1 + 2 * torch.exp(torch.tensor(-1.0)))
        (tensor(0.5514), tensor(0.5514))
        >>> found.is_found.all()
        tensor(True)
    """
    check_temperature(temperature)
    n = z.shape[1]
    rows = F.normalize(at_least_float32(z), dim=-1).flatten(0, 1)
    cosines = rows @ rows.T / temperature
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    log_probs = cosines.masked_fill(itself, -torch.inf).log_softmax(dim=1)
    partner = torch.arange(2 * n, device=z.device).roll(n)
    losses = -log_probs.gather(1, partner[:, None])[:, 0]
    return NTXent(losses.view(2, n), log_probs)


def _same_input(n: int, *, like: Tensor) -> Bool[Tensor, "rows rows"]:
    """Whether row and column are views of the same input."""
    return torch.eye(n, dtype=torch.bool, device=like.device).repeat(2, 2)
