"""RandAugment: operations drawn at random, all of one strength."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import (
    NARROW,
    RAND_OPERATIONS,
    DrawnOperations,
    Interpolation,
    operation_index,
)
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images

__all__ = ["RandAugment"]


@METHODS.register("randaugment")
class RandAugment(DrawnOperations):
    """Draws N of 14 operations per input, with replacement, all at magnitude M.

    The defaults and ranges (31 bins of shear 0.3, 150/331 of the side, 30°, factors 1 ± 0.9, 8 to
    4 bits, thresholds 255 to 0) and the black outside of the image are torchvision's.

    Arguments:
        n_operations: N, operations per input.
        magnitude: M, the bin of all magnitudes, from 0 to ``n_bins`` - 1.
        n_bins: Magnitudes per operation.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width; the input's own by default.

    References:
        | RandAugment: Practical Automated Data Augmentation with a Reduced Search Space
        | (Cubuk et al., 2020)
        | https://arxiv.org/abs/1909.13719

    Example:
        >>> aug = RandAugment(n_operations=3)
        >>> aug.draw(torch.rand(2, 3, 32, 32), n_samples=4).shape
        torch.Size([4, 2, 6])
    """

    averages_views = False

    def __init__(
        self,
        *,
        n_operations: int = 2,
        magnitude: int = 9,
        n_bins: int = 31,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            n_operations, NARROW, n_bins, mean=mean, std=std, interpolation=interpolation,
            padding_mode=padding_mode, size=size,
        )  # fmt: skip
        if not 0 <= magnitude < n_bins:
            raise ArgumentError(
                f"`magnitude` must be a bin from 0 to {n_bins - 1}: got {magnitude}. 9 of 31 is "
                "the default."
            )
        self.n_operations, self.magnitude = n_operations, magnitude

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        numbers = torch.tensor(
            [operation_index(name) for name in RAND_OPERATIONS], device=x.device
        )
        drawn = (n_samples, len(x), self.n_operations)
        which = torch.randint(len(numbers), drawn, generator=generator, device=x.device)
        magnitude_bin = torch.full_like(which, self.magnitude)
        return self.signed_theta(x, numbers[which], magnitude_bin, generator)

    @override
    def extra_repr(self) -> str:
        return (
            f"{self.n_operations} of {len(RAND_OPERATIONS)} operations, magnitude "
            f"{self.magnitude} of {self.n_bins}"
        )
