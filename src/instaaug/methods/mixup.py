"""MixUp: every input is blended with another one."""

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.methods.mixing import MixingAugmenter, draw_beta
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images, Rows, Scalars

__all__ = ["MixUp"]


@METHODS.register("mixup")
class MixUp(MixingAugmenter):
    r"""Blends every input and its loss with those of another input of the batch.

    .. math:: \tilde x_i = \lambda\,x_i + (1 - \lambda)\,x_{\pi(i)}, \qquad
              \ell_i = \lambda\,\ell(f(\tilde x_i), y_i)
                       + (1 - \lambda)\,\ell(f(\tilde x_i), y_{\pi(i)})

    with λ from Beta(α, α), one for the whole batch as in the source's code, and a random
    permutation π. θ is λ and π(i). At test time nothing is mixed.

    Arguments:
        alpha: α; 1 is the source's for small images, 0.2 for ImageNet.
        per_input: Whether every input has a λ of its own.

    References:
        | mixup: Beyond Empirical Risk Minimization (Zhang et al., 2018)
        | https://arxiv.org/abs/1710.09412

    Example:
        >>> x, y = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1), torch.tensor([0, 1])
        >>> batch = MixUp()(x, targets=y)
        >>> blend = batch.own_share * batch.targets + (1 - batch.own_share) * batch.partner_targets
        >>> torch.allclose(batch.inputs.flatten(), blend)
        True
    """

    def __init__(self, *, alpha: float = 1.0, per_input: bool = False) -> None:
        super().__init__(alpha)
        self.per_input = per_input

    @override
    def draw_amounts(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch m"]:
        shape = (n_samples, len(x) if self.per_input else 1, 1)
        share = draw_beta(self.alpha, shape, like=x, generator=generator)
        return share.float().expand(-1, len(x), -1)

    @override
    def mixed(self, own: Images, partner: Images, amounts: Rows) -> tuple[Images, Scalars]:
        share = amounts[:, 0]
        return torch.lerp(partner, own, share.to(own.dtype)[:, None, None, None]), share

    @override
    def extra_repr(self) -> str:
        return f"alpha {self.alpha:g}, a share per {'input' if self.per_input else 'batch'}"
