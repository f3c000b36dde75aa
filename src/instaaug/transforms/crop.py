"""Crops: a box of the image, blown up to the whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.affine import box_matrix
from instaaug.shapes import Matrices, Rows
from instaaug.spaces import Boxes, Interval, Level, Parameter, Space
from instaaug.transforms.geometric import GeometricTransform
from instaaug.transforms.transform import register

__all__ = ["PAPER_LEVELS", "WINDOW_LEVELS", "Crop", "UniformCrop", "Window"]

PAPER_LEVELS: tuple[Level, ...] = ((0.375, 16), (0.75, 8), (1.0, 1))
"""The paper's crops at 64 × 64: 256 + 64 + 1 = 321 boxes."""

WINDOW_LEVELS: tuple[Level, ...] = ((0.5, 16), (0.65, 12), (0.8, 8), (1.0, 1))
"""37 windows of half of a signal and more."""

WINDOW_DIVERSITY = (0.45, 0.7)  # 17 to 26 of 37


@register
@dataclass(frozen=True)
class Crop(GeometricTransform):
    """Cut a box out and blow it up to the size of the image; what lies outside is padding.

    θ is the box (center x, center y, width, height) in the normalized frame, where the whole
    image is (0, 0, 2, 2). Boxes come from a finite set, one per unit of φ's feature maps.

    Arguments:
        levels: Pairs (size, n): ``n`` × ``n`` boxes of that fraction of the image side.
        jitter: Whether a box moves uniformly within its cell of the grid.
        max_outside: Share of a box, per axis, that may lie outside; boxes beyond are moved
            inwards.

    Example:
        >>> x = torch.arange(16.0).view(1, 1, 4, 4)
        >>> upper_left = torch.tensor([[-0.75, -0.75, 0.5, 0.5]])  # one pixel of sixteen
        >>> Crop().apply(x, upper_left, padding_mode="border").mean() < x.mean()
        tensor(True)
    """

    levels: tuple[Level, ...] = PAPER_LEVELS
    jitter: bool = False
    max_outside: float = 1.0
    name: ClassVar[str] = "crop"
    identity_box: ClassVar[tuple[float, float, float, float]] = (0.0, 0.0, 2.0, 2.0)

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"box": Boxes(tuple(self.levels), self.jitter, self.max_outside)}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return box_matrix(theta)


@register
@dataclass(frozen=True)
class Window(Crop):
    """Cut a stretch out along the width, at full height, and draw it out to the whole width.

    For signals, which are images of one row, ``(B, C, 1, length)``, and for spectrograms, whose
    frequencies stay where they are.

    Arguments:
        levels: Pairs (size, n): ``n`` windows in a row of that fraction of the width.
        jitter: Whether a window moves uniformly within its cell.
        max_outside: Share of a window that may lie outside.

    Example:
        >>> signal = torch.arange(8.0).view(1, 1, 1, 8)
        >>> second_half = torch.tensor([[0.5, 0.0, 1.0, 2.0]])
        >>> Window().apply(signal, second_half, padding_mode="border").flatten()
        tensor([3.7500, 4.2500, 4.7500, 5.2500, 5.7500, 6.2500, 6.7500, 7.0000])
    """

    levels: tuple[Level, ...] = WINDOW_LEVELS
    max_outside: float = 0.0
    name: ClassVar[str] = "window"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {
            "box": Boxes(
                tuple(self.levels),
                self.jitter,
                self.max_outside,
                default_diversity=WINDOW_DIVERSITY,
                whole_height=True,
            )
        }


@register
@dataclass(frozen=True)
class UniformCrop(GeometricTransform):
    """Crop with position and size as independent intervals: the ablation "without LRP".

    θ is (right, down, size). The position is relative to the room that the size leaves, from -1
    to 1, so that a box never leaves the image.

    Arguments:
        min_size: Smallest box, as a fraction of the image side.
    """

    min_size: float = 0.2
    name: ClassVar[str] = "uniform_crop"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_size <= 0:
            raise ArgumentError(
                f"`min_size` must be above 0: got {self.min_size}. 0.2 allows boxes of a fifth of "
                "the image side."
            )

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        position = (Parameter("right", -1.0, 1.0), Parameter("down", -1.0, 1.0))
        size = Parameter("size", self.min_size, 1.0, identity=1.0)
        return {"box": Interval((*position, size))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        position, size = theta[:, :2], theta[:, 2:]
        return box_matrix(torch.cat([position * (1 - size), (2 * size).expand(-1, 2)], dim=-1))
