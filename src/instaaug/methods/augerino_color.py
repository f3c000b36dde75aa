"""Augerino's color variant: learned ranges of hue, saturation and value for all inputs."""

from collections.abc import Sequence
from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from instaaug.augmentation.settings import as_composition
from instaaug.errors import ArgumentError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.augerino import LearnedRanges
from instaaug.spaces import Interval
from instaaug.transforms import Transform
from instaaug.transforms.color import ColorTransform

__all__ = ["AugerinoColor"]


class AugerinoColor(LearnedRanges):
    r"""Learns how far the colors of every input may change, in either direction.

    Each parameter has two raw limits :math:`l`, which become shares :math:`s = 2\,\sigma(l) - 1`
    of the way from doing nothing to an end of its range; θ is uniform between the two. A range
    need neither be symmetric nor contain doing nothing. The objective is
    :math:`\mathbb{E}[\ell] - \lambda \sum_p |s_p^{\text{high}} - s_p^{\text{low}}|`.

    The source changes brightness and contrast, by formulas of its own; the InstaAug paper compares
    itself with hue, saturation and value, which are the default here.
    ``AugerinoColor(["contrast", "brightness"])`` does the former with this library's transforms.

    Arguments:
        transforms: Color transforms, or their names.
        weight: λ.
        start: Raw limits at the start, one below and one above zero; 2 stands for 76% of the way.
        mean: Per-channel mean the images were normalized with; colors are changed without.
        std: Per-channel standard deviation, likewise.
        padding_mode: What lies outside of an image that is resized.
        size: Side, or height and width, of what comes out; the input's own by default.

    References:
        | Learning Invariances in Neural Networks (Benton et al., 2020)
        | https://arxiv.org/abs/2010.11882
        | Instance-Specific Augmentation: Capturing Local Invariances (Miao et al., 2022)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> aug = AugerinoColor(start=2.0)
        >>> hue, saturation, value = aug.fixed_ranges()["hsv_jitter"]
        >>> round(hue[1], 2), round(value[0], 2)  # 76% of half the circle; 1 - 76% of 1
        (0.38, 0.24)
    """

    ranges: Tensor

    def __init__(
        self,
        transforms: Transform | str | Sequence[Transform | str] = "hsv_jitter",
        *,
        weight: float = 0.1,
        start: float = 2.0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        transform = as_composition(transforms, mean=mean, std=std, size=size)
        for part in transform.transforms:
            if not isinstance(part, ColorTransform):
                raise ArgumentError(
                    "`transforms` must change colors, pixel by pixel: got "
                    f"{part.name!r}. Augerino learns the affine ones."
                )
        super().__init__(transform, weight=weight, padding_mode=padding_mode)
        if not (isfinite(start) and start > 0):
            raise ArgumentError(f"`start` must be a number above 0: got {start}. 2 is usual.")
        spaces = transform.spaces.values()
        parameters = [p for s in spaces if isinstance(s, Interval) for p in s.parameters]
        rows = [(p.low, p.identity, p.high) for p in parameters]
        self.register_buffer("ranges", torch.tensor(rows), persistent=False)
        self.raw_low = nn.Parameter(torch.full((len(rows),), -start))
        self.raw_high = nn.Parameter(torch.full((len(rows),), start))

    def shares(self) -> Float[Tensor, "d 2"]:
        """s, of the two limits of every parameter, in (-1, 1), with gradient."""
        return 2 * torch.stack([self.raw_low, self.raw_high], dim=-1).sigmoid() - 1

    @override
    def ends(self) -> Float[Tensor, "d 2"]:
        shares = self.shares()
        low, identity, high = self.ranges.unsqueeze(-1).unbind(1)
        limits = identity + shares * torch.where(shares < 0, identity - low, high - identity)
        return torch.stack([limits.amin(dim=-1), limits.amax(dim=-1)], dim=-1)

    @override
    def bonus(self) -> Float[Tensor, ""]:
        """The sum of all widths, as shares."""
        low, high = self.shares().unbind(-1)
        return (high - low).abs().sum()
