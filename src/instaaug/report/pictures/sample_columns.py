"""Samples side by side in one panel."""

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from instaaug.report.pictures.columns import Column
from instaaug.report.pictures.photo_panels import draw_pixels, pixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["mosaic", "sample_column"]

GAP = 0.08  # between samples, as a share of their height

Samples = Float[Tensor, "n batch channels height width"]


def mosaic(
    samples: Float[Tensor, "n c h w"], *, lines: int, columns: int
) -> Float[Tensor, "c _ _"]:
    """One image of several, line by line, with white between them and in place of missing ones.

    Example:
        >>> mosaic(torch.zeros(3, 1, 50, 50), lines=2, columns=2).shape  # with 4 pixels between
        torch.Size([1, 104, 104])
    """
    _, channels, height, width = samples.shape
    gap = _gap(height)
    extent = _extent(height, width, lines, columns)
    sheet = samples.new_ones(channels, *extent)
    for k, sample in enumerate(samples[: lines * columns]):
        line, column = divmod(k, columns)
        top, left = line * (height + gap), column * (width + gap)
        sheet[:, top : top + height, left : left + width] = sample
    return sheet


def _gap(height: int) -> int:
    return max(1, round(GAP * height))


def _extent(height: int, width: int, lines: int, columns: int) -> tuple[int, int]:
    gap = _gap(height)
    return lines * (height + gap) - gap, columns * (width + gap) - gap


def sample_column(samples: Samples, *, lines: int, columns: int, heading: str = "") -> Column:
    """The first samples of each input, in lines below one another."""

    def draw(axes: "Axes", i: int) -> None:
        shown = mosaic(samples[:, i], lines=lines, columns=columns)
        draw_pixels(axes, pixels(shown))
        axes.set_anchor("W")

    height, width = _extent(samples.shape[-2], samples.shape[-1], lines, columns)
    return Column(heading, width / height, draw)
