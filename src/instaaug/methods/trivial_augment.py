"""TrivialAugment: one operation at random, of a random strength."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.functional.warp import PaddingMode
from instaaug.methods.operations import (
    RAND_OPERATIONS,
    WIDE,
    DrawnOperations,
    Interpolation,
    operation_index,
)
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images

__all__ = ["TrivialAugment"]


@METHODS.register("trivialaugment")
class TrivialAugment(DrawnOperations):
    """Draws one of 14 operations per input, at a magnitude drawn from its bins.

    The ranges are the wide ones (31 bins of shear 0.99, 32 pixels, 135°, factors 1 ± 0.99, 8 to 2
    bits, thresholds 255 to 0), as torchvision has them; so is the black outside of the image.

    Arguments:
        n_bins: Magnitudes per operation.
        mean: Per-channel mean the images were normalized with; operations see them without.
        std: Per-channel standard deviation the images were normalized with.
        interpolation: How a warp reads between pixels: ``"nearest"`` as in the source, or
            ``"bilinear"``.
        padding_mode: What lies outside of the image; ``"zeros"`` is black, also for
            normalized images.
        size: Output side, or height and width; the input's own by default.

    References:
        | TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation
        | (Müller and Hutter, 2021)
        | https://arxiv.org/abs/2103.10158

    Example:
        >>> TrivialAugment().draw(torch.rand(2, 3, 32, 32), n_samples=4).shape
        torch.Size([4, 2, 2])
    """

    averages_views = False

    def __init__(
        self,
        *,
        n_bins: int = 31,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        interpolation: Interpolation = "nearest",
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            1, WIDE, n_bins, mean=mean, std=std, interpolation=interpolation,
            padding_mode=padding_mode, size=size,
        )  # fmt: skip

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        numbers = torch.tensor(
            [operation_index(name) for name in RAND_OPERATIONS], device=x.device
        )
        drawn = (n_samples, len(x), 1)
        which = torch.randint(len(numbers), drawn, generator=generator, device=x.device)
        bins = torch.randint(self.n_bins, drawn, generator=generator, device=x.device)
        return self.signed_theta(x, numbers[which], bins, generator)

    @override
    def extra_repr(self) -> str:
        return f"one of {len(RAND_OPERATIONS)} operations, one of {self.n_bins} magnitudes"
