"""A strip of color with numbers: what the colors of a figure stand for."""

from typing import TYPE_CHECKING

from instaaug.report.pictures.sheet import Sheet
from instaaug.report.theme import MUTED

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

__all__ = ["draw_scale"]

WIDTH, HEIGHT = 1.9, 0.09  # inches


def draw_scale(
    page: Sheet,
    left: float,
    top: float,
    words: str,
    colors: "str | Colormap",
    *,
    most: float = 1.0,
) -> None:
    """A scale from 0 to ``most``, at a place in inches, with words below.

    Arguments:
        page: Where to draw.
        left: Of the strip.
        top: Likewise.
        words: What the numbers are.
        colors: From the lowest to the highest.
        most: The highest number.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    axes = page.panel(left, top, WIDTH, HEIGHT)
    mappable = ScalarMappable(Normalize(0.0, most), colors)
    bar = page.canvas.colorbar(mappable, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=6, color=MUTED, length=2, pad=1)
    bar.set_label(words, fontsize=7, labelpad=1)
