"""Un-Mix: mixtures of views for contrastive learning, in proportion to their shares."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.probability import host_generator
from instaaug.functional.warp import PaddingMode
from instaaug.methods.mixing import CutMix, MixUp
from instaaug.methods.random_resized_crop import RandomResizedCrop
from instaaug.methods.registry import METHODS
from instaaug.shapes import Images, check_images

__all__ = ["UnMix"]


@METHODS.register("unmix")
class UnMix(RandomResizedCrop):
    r"""Random resized crops, of which a contrastive task also sees mixtures.

    The views of a batch are mixed with the same views in reverse order, all to the same share λ:

    .. math:: \tilde x_i = \lambda\,x_i \oplus (1 - \lambda)\,x_{B-1-i}

    by MixUp or by CutMix. Reversed, the mixtures have the share 1 - λ of the views in their own
    order, so that one pass through the model serves two terms, which are added to the loss of the
    plain views:

    .. math:: \lambda\,L(\tilde z, z') + (1 - \lambda)\,L(\tilde z_\text{reversed}, z')

    with z' of the other views. θ, and views at test time, are crops alone.

    Arguments:
        alpha: α of the law of λ, Beta(α, α), one draw per batch; after CutMix λ is the share of
            the pixels that is left. 1 is the source's.
        mixup: Probability of MixUp; the others are CutMix. 0.5 is the source's.
        smallest: Least share of the area of a crop.
        largest: Largest share.
        stretch: Largest ratio of the sides of a crop.
        mean: Per-channel mean the images were normalized with, to show them as they were.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    References:
        | Un-Mix: Rethinking Image Mixtures for Unsupervised Visual Representation Learning
        | (Shen et al., 2022)
        | https://arxiv.org/abs/2003.05438

    Example:
        >>> black_and_white = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 3, 8, 8)
        >>> mixed, share = UnMix(mixup=1.0).mix(black_and_white)
        >>> (mixed[0] == 1 - share).all(), (mixed[1] == share).all()
        (tensor(True), tensor(True))
    """

    tasks = frozenset({"contrastive"})

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        mixup: float = 0.5,
        smallest: float = 0.2,
        largest: float = 1.0,
        stretch: float = 4 / 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            smallest=smallest, largest=largest, stretch=stretch, mean=mean, std=std,
            padding_mode=padding_mode, size=size,
        )  # fmt: skip
        if not 0 <= mixup <= 1:
            raise ArgumentError(
                f"`mixup` must be a probability in [0, 1]: got {mixup}. 0 is CutMix alone."
            )
        self.mixup = float(mixup)
        self.blending, self.pasting = MixUp(alpha=alpha), CutMix(alpha=alpha)

    def mix(
        self, views: Images, generator: Generator | None = None
    ) -> tuple[Images, Float[Tensor, ""]]:
        """Views mixed with those in reverse order, and the share that is their own.

        Arguments:
            views: One view of each input, ready for the model.
            generator: Source of randomness.
        """
        check_images(views)
        coin = float(torch.rand((), generator=host_generator(generator)))
        mixing = self.blending if coin < self.mixup else self.pasting
        amounts = mixing.draw_amounts(views, 1, generator)[0]
        mixed, share = mixing.mix(views, views.flip(0), amounts)
        return mixed, share[0]

    @override
    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, MixUp {self.mixup:.0%}, else CutMix"
