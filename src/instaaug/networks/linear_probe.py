"""A linear classifier on standardized features, and the statistics that standardize them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from instaaug.errors import ShapeError

__all__ = ["LinearProbe", "feature_statistics"]

ROUNDING = 1e-6  # a deviation so much smaller than the mean is float32's rounding
SMALLEST = torch.finfo(torch.float32).tiny
ROWS_AT_ONCE = 4096  # bounds the memory of the copy in double precision


class LinearProbe(nn.Module):
    r"""Logits :math:`W (h - \mu) / \sigma + b` of features :math:`h`.

    It is affine in the features: the logits of averaged features are the average of the logits.
    A new probe has zero weights; :func:`~instaaug.tasks.representation.fit_probe` fits them.

    Arguments:
        n_features: Numbers per input, :math:`D`.
        num_classes: Classes, :math:`C`.

    Shape:
        - ``forward``: ``(B, D)`` to ``(B, C)``

    Example:
        >>> probe = LinearProbe(2, 3)
        >>> probe
        LinearProbe(n_features=2, num_classes=3)
        >>> probe(torch.ones(1, 2)).tolist()
        [[0.0, 0.0, 0.0]]
    """

    mean: Tensor
    std: Tensor

    def __init__(self, n_features: int, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("std", torch.ones(n_features))
        self.weight = nn.Parameter(torch.zeros(num_classes, n_features))
        self.bias = nn.Parameter(torch.zeros(num_classes))

    @property
    def n_features(self) -> int:
        """Numbers per input."""
        return self.weight.shape[1]

    @property
    def num_classes(self) -> int:
        """Logits per input."""
        return self.weight.shape[0]

    @override
    def forward(self, features: Float[Tensor, "*rows_and_d"]) -> Float[Tensor, "batch classes"]:
        if features.ndim != 2 or features.shape[1] != self.n_features:
            raise ShapeError(
                f"`features` must be (B, {self.n_features}): got {tuple(features.shape)}. "
                "Use the encoder whose features the probe was fitted on."
            )
        z = (features.to(self.weight.dtype) - self.mean) / self.std
        return F.linear(z, self.weight, self.bias)

    @override
    def extra_repr(self) -> str:
        return f"n_features={self.n_features}, num_classes={self.num_classes}"


def feature_statistics(
    features: Float[Tensor, "n d"],
) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """Mean and standard deviation of each feature, in double precision.

    A feature that does not vary, or only by the rounding of float32, has the deviation 1: it is
    centered and has no say. The deviation is that of the population, divided by n.

    Example:
        >>> mean, std = feature_statistics(torch.tensor([[0.0, 7.0], [4.0, 7.0]]))
        >>> mean.tolist(), std.tolist()
        ([2.0, 7.0], [2.0, 1.0])
    """
    total = features.new_zeros(features.shape[1], dtype=torch.float64)
    for rows in features.split(ROWS_AT_ONCE):
        total += rows.double().sum(dim=0)
    mean = total / len(features)
    squares = torch.zeros_like(total)
    for rows in features.split(ROWS_AT_ONCE):
        squares += (rows.double() - mean).square().sum(dim=0)
    std = (squares / len(features)).sqrt()
    varies = std > (ROUNDING * mean.abs()).clamp(min=SMALLEST)
    return mean, torch.where(varies, std, 1.0)
