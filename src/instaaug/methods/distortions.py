"""The fixed distortions of contrastive learning: flip, color jitter, gray, blur."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional import pixel_operations as pixels
from instaaug.functional.color import Normalization, hsv_jitter, luma
from instaaug.functional.filters import gaussian_blur
from instaaug.functional.probability import host_generator
from instaaug.shapes import Images, Scalars, check_images

__all__ = ["Distortions", "DrawnDistortions", "change_where"]


def change_where(
    flags: Bool[Tensor, " batch"],
    x: Images,
    change: Callable[[Images, Tensor | slice], Images],
) -> Images:
    """``x``, with the flagged images changed and all others the same to the last bit.

    On a CPU only the flagged images are computed. Elsewhere, to count them would make the
    host wait for the device, so that all are, and the flagged ones are selected.

    Arguments:
        flags: Which images to change.
        x: Images.
        change: Makes of some images, and of their index in ``x``, the new ones. It must have a
            finite value and gradient for images that are not flagged as well.

    Example:
        >>> x = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1)
        >>> change_where(torch.tensor([False, True]), x, lambda some, _: -some).flatten()
        tensor([ 1., -2.])
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.where(flags[:, None, None, None], change(x, slice(None)), x)
    rows = flags.nonzero().flatten()
    if len(rows) == 0:
        return x
    if len(rows) == len(x):
        return change(x, rows)
    return x.index_copy(0, rows, change(x[rows], rows))


Flags = Bool[Tensor, " batch"]
FACTOR, HUE = 0.8, 0.2  # of strength 1: half-widths of the ranges of factors and of the hue
STRONGEST = 2.5  # the hue is anywhere on the circle
SIGMAS = (0.1, 2.0)
IN_CACHE = 400_000  # numbers; 15 to 25 % faster than 512 images of 32 pixels at once


def _shift_hue(x: Images, hue: Scalars) -> Images:
    one = torch.ones_like(hue)
    return hsv_jitter(x, hue, one, one)


JITTER: Mapping[str, Callable[[Images, Scalars], Images]] = {
    "brightness": pixels.brightness,
    "contrast": pixels.contrast,
    "saturation": pixels.saturation,
    "hue": _shift_hue,
}
OF_COLORS = ("saturation", "hue")


@dataclass(frozen=True)
class DrawnDistortions:
    """What was drawn for each image.

    Arguments:
        flip: Which images are mirrored.
        jitter: Which images have their colors changed.
        gray: Which images lose their colors.
        blur: Which images are blurred.
        amounts: By operation, in the order in which they follow one another: factors of
            brightness, contrast and saturation, and the shift of the hue as a share of the circle.
        sigma: Of the blur, in pixels.
    """

    flip: Flags
    jitter: Flags
    gray: Flags
    blur: Flags
    amounts: Mapping[str, Scalars]
    sigma: Scalars


class Distortions(nn.Module):
    r"""SimCLR's distortions, drawn for each image of a batch, and the same for every method.

    With strength s, in this order:

    ======  ======================================================================================
    flip    left and right change places
    jitter  brightness, contrast and saturation by factors from U(1 - 0.8 s, 1 + 0.8 s), at least
            0, and the hue by U(-0.2 s, 0.2 s) of the circle
    gray    all channels become the luma
    blur    by a Gaussian of σ from U(0.1, 2) pixels, cut off at a twentieth of the smaller side,
            but not below one pixel, to either side: SimCLR's kernel of a tenth. Edges are repeated
    ======  ======================================================================================

    Each takes place with the probability given. The four operations of the jitter follow one
    another in random order: one order per call, where torchvision draws one per image. Images that
    nothing happens to are the same to the last bit. Saturation, hue and gray leave images alone
    that do not have three channels. All of it has a gradient.

    The defaults are those of the code that the InstaAug paper is based on. SimCLR's own for
    ImageNet are ``strength=1, gray=0.2, blur=0.5``.

    Arguments:
        strength: s, from 0 to 2.5.
        jitter: Probability of changing the colors.
        gray: Probability of removing them.
        blur: Probability of blurring.
        flip: Probability of mirroring.
        mean: Per-channel mean the images were normalized with; None if they lie in [0, 1].
        std: Per-channel standard deviation the images were normalized with.

    References:
        | A Simple Framework for Contrastive Learning of Visual Representations (Chen et al., 2020)
        | https://arxiv.org/abs/2002.05709
        | Whitening for Self-Supervised Representation Learning (Ermolov et al., 2021): the base
        | https://arxiv.org/abs/2007.06346

    Example:
        >>> x = torch.rand(4, 3, 32, 32)
        >>> Distortions()(x).shape
        torch.Size([4, 3, 32, 32])
        >>> mirror = Distortions(jitter=0.0, gray=0.0, flip=1.0)
        >>> torch.equal(mirror(x), x.flip(-1))
        True
    """

    def __init__(
        self,
        *,
        strength: float = 0.5,
        jitter: float = 0.8,
        gray: float = 0.1,
        blur: float = 0.0,
        flip: float = 0.5,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= strength <= STRONGEST:
            raise ArgumentError(
                f"`strength` must lie in [0, {STRONGEST}]: got {strength}. 0.5 suits small "
                "images, 1 is SimCLR's."
            )
        named = {"flip": flip, "jitter": jitter, "gray": gray, "blur": blur}
        for name, probability in named.items():
            if not 0 <= probability <= 1:
                raise ArgumentError(
                    f"`{name}` must be a probability in [0, 1]: got {probability}. 0 leaves it "
                    "out."
                )
        self.strength = float(strength)
        self.probabilities = {name: float(p) for name, p in named.items()}
        if strength == 0:
            self.probabilities["jitter"] = 0.0
        self.normalization = Normalization(mean, std)

    @override
    def forward(self, x: Images, generator: Generator | None = None) -> Images:
        check_images(x)
        return self.apply_drawn(x, self.draw(x, generator))

    def draw(self, x: Images, generator: Generator | None = None) -> DrawnDistortions:
        """What happens to each image; a seeded generator makes it repeatable."""
        n_flags, n_amounts = len(self.probabilities), len(JITTER)
        shape = (n_flags + n_amounts + 1, len(x))
        shares = torch.rand(shape, generator=generator, device=x.device)
        order = torch.randperm(n_amounts, generator=host_generator(generator)).tolist()
        limits = self.probabilities.values()
        flip, jitter, gray, blur = (s < p for s, p in zip(shares[:n_flags], limits, strict=True))
        has_colors = x.shape[1] == 3
        amounts = {
            name: self._amount(name, shares[n_flags + i], jitter)
            for i, name in ((i, list(JITTER)[i]) for i in order)
            if has_colors or name not in OF_COLORS
        }
        sigma = SIGMAS[0] + (SIGMAS[1] - SIGMAS[0]) * shares[-1]
        return DrawnDistortions(flip, jitter, gray & has_colors, blur, amounts, sigma)

    def _amount(self, name: str, share: Scalars, jitter: Flags) -> Scalars:
        middle, half = (0.0, HUE) if name == "hue" else (1.0, FACTOR)
        low, high = middle - half * self.strength, middle + half * self.strength
        low = low if name == "hue" else max(low, 0.0)
        return torch.where(jitter, low + (high - low) * share, middle)

    def apply_drawn(self, x: Images, drawn: DrawnDistortions) -> Images:
        """Apply the distortions that were drawn."""
        if self._is_possible("flip"):
            x = change_where(drawn.flip, x, lambda some, _: some.flip(-1))
        if not self._is_possible("jitter", "gray", "blur"):
            return x
        changed = drawn.jitter | drawn.gray | drawn.blur
        return change_where(changed, x, lambda some, rows: self._change(some, rows, drawn))

    def _change(self, x: Images, rows: Tensor | slice, drawn: DrawnDistortions) -> Images:
        x = self.normalization.denormalize(x)
        if self._is_possible("jitter"):
            x = _jitter(x, {name: amount[rows] for name, amount in drawn.amounts.items()})
        if self._is_possible("gray"):
            x = change_where(drawn.gray[rows], x, lambda some, _: luma(some).expand_as(some))
        if self._is_possible("blur"):
            sigma = drawn.sigma[rows]
            x = change_where(
                drawn.blur[rows], x, lambda some, blurred: _blur(some, sigma[blurred])
            )
        return self.normalization.normalize(x)

    def _is_possible(self, *names: str) -> bool:
        """Whether any of these distortions can occur."""
        return any(self.probabilities[name] > 0 for name in names)

    @override
    def extra_repr(self) -> str:
        shares = [f"{name} {p:.0%}" for name, p in self.probabilities.items() if p > 0]
        return ", ".join([f"strength {self.strength:g}", *shares])


def _jitter(x: Images, amounts: Mapping[str, Scalars]) -> Images:
    """Jitter colors; on a CPU in pieces that fit into its cache."""
    n_rows = len(x) if x.device.type != "cpu" else max(1, IN_CACHE // x[0].numel())
    pieces = []
    for start in range(0, len(x), n_rows):
        rows = slice(start, start + n_rows)
        piece = x[rows]
        for name, amount in amounts.items():
            piece = JITTER[name](piece, amount[rows])
        pieces.append(piece)
    return torch.cat(pieces)


def _blur(x: Images, sigma: Scalars) -> Images:
    radius = max(1, min(x.shape[-2:]) // 20)
    return gaussian_blur(x, sigma, max_sigma=radius / 3)  # which decides the kernel's size alone
