"""Random resized crops: boxes of random area and shape, as in Inception and SimCLR."""

from collections.abc import Sequence
from math import log, sqrt

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.registry import METHODS
from instaaug.methods.simple import TransformAugmenter
from instaaug.shapes import Images, constant
from instaaug.transforms import Crop

__all__ = ["RandomResizedCrop"]

N_ATTEMPTS = 10
WIDEST = 1000.0


@METHODS.register("random_resized_crop")
class RandomResizedCrop(TransformAugmenter):
    r"""Crops boxes whose area is uniform and whose shape is log-uniform.

    The law is torchvision's: the share a of the area is drawn from U(``smallest``, ``largest``),
    the ratio r of width to height from :math:`e^{U(-\log s,\, \log s)}` with s = ``stretch``; the
    sides :math:`\sqrt{a r}` and :math:`\sqrt{a / r}` are rounded to whole pixels. A box that is
    not within the image is drawn again, up to ten times in all; after that it is the largest
    central box of an allowed shape, which for square images is the whole. Its place, in whole
    pixels, is uniform.

    θ is the box (center x, center y, width, height) in the frame in which the whole image is
    (0, 0, 2, 2).

    Arguments:
        smallest: Least share of the area. The code that the InstaAug paper is based on has 0.2,
            SimCLR for ImageNet 0.08.
        largest: Largest share.
        stretch: Largest ratio of width to height, and of height to width.
        mean: Per-channel mean the images were normalized with, to show them as they were.
        std: Per-channel standard deviation the images were normalized with.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    References:
        | Going Deeper with Convolutions (Szegedy et al., 2015)
        | https://arxiv.org/abs/1409.4842
        | A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020)
        | https://arxiv.org/abs/2002.05709

    Example:
        >>> crops = RandomResizedCrop(smallest=0.25, largest=0.25, stretch=1.0)
        >>> theta = crops.draw(torch.rand(2, 3, 32, 32), n_samples=4)
        >>> theta.shape, theta[..., 2:].unique()  # half of the image side, which is 2 long
        (torch.Size([4, 2, 4]), tensor([1.]))
    """

    def __init__(
        self,
        *,
        smallest: float = 0.2,
        largest: float = 1.0,
        stretch: float = 4 / 3,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(Crop(), mean=mean, std=std, padding_mode=padding_mode, size=size)
        if not 0 < smallest <= largest <= 1:
            raise ArgumentError(
                "`smallest` and `largest` must be shares of the area with 0 < smallest ≤ largest "
                f"≤ 1: got {smallest} and {largest}. 0.2 and 1 are usual."
            )
        if not 1 <= stretch <= WIDEST:
            raise ArgumentError(
                f"`stretch` must be a ratio of sides from 1 to {WIDEST:g}: got {stretch}. 4/3 is "
                "usual, 1 gives squares."
            )
        self.smallest, self.largest, self.stretch = float(smallest), float(largest), float(stretch)

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        width, height = x.shape[-1], x.shape[-2]
        attempts = torch.rand(
            N_ATTEMPTS, n_samples, len(x), 2, generator=generator, device=x.device
        )
        image = constant((width, height), like=attempts)
        place = torch.rand(n_samples, len(x), 2, generator=generator, device=x.device)
        sides = self._sides(attempts, n_pixels=width * height)
        fits = ((sides >= 1) & (sides <= image)).all(dim=-1)
        first = fits.int().argmax(dim=0)  # the first of the largest, which is 1 if any fits
        chosen = sides.gather(0, first[None, ..., None].expand(1, *place.shape))[0]
        corner = (place * (image - chosen + 1)).floor().minimum(image - chosen)
        found = fits.any(dim=0)[..., None]
        central = constant(self._central_sides(width=width, height=height), like=sides)
        chosen = torch.where(found, chosen, central)
        corner = torch.where(found, corner, ((image - central) / 2).floor())
        return torch.cat([(2 * corner + chosen) / image - 1, 2 * chosen / image], dim=-1)

    def _sides(
        self, shares: Float[Tensor, "*drawn 2"], *, n_pixels: int
    ) -> Float[Tensor, "*drawn 2"]:
        """Width and height in whole pixels, whether or not such a box is within the image."""
        area = n_pixels * (self.smallest + (self.largest - self.smallest) * shares[..., 0])
        log_ratio = log(self.stretch) * (2 * shares[..., 1] - 1)
        widths_and_heights = torch.stack([log_ratio, -log_ratio], dim=-1)
        return (area[..., None] * widths_and_heights.exp()).sqrt().round()

    def _central_sides(self, *, width: int, height: int) -> tuple[int, int]:
        """The largest box of an allowed shape."""
        if width * self.stretch < height:
            return width, round(width * self.stretch)
        if width > height * self.stretch:
            return round(height * self.stretch), height
        return width, height

    @override
    def extra_repr(self) -> str:
        sides = f"{sqrt(self.smallest):.2g} to {sqrt(self.largest):.2g} sides"
        return f"area {self.smallest:g} to {self.largest:g} ({sides}), stretch {self.stretch:.3g}"
