"""A figure on which every place is known in inches from the upper left; photos and scales."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from instaaug.report.theme import INK, MUTED, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = [
    "Image",
    "Sheet",
    "draw_photo",
    "draw_pixels",
    "draw_scale",
    "inset",
    "pixels",
    "sheet",
    "shorten",
    "size_in_inches",
]

SCREEN = 72  # dots per inch that an image of few pixels has less than

Image = Float[Tensor, "c h w"]

SCALE_WIDTH, SCALE_HEIGHT = 1.9, 0.09  # inches


@dataclass(frozen=True)
class Sheet:
    """Panels and words at places in inches.

    Arguments:
        canvas: The figure.
        width: Of the figure, in inches.
        height: Of the figure, in inches.
    """

    canvas: "Figure"
    width: float
    height: float

    def panel(self, left: float, top: float, width: float, height: float) -> "Axes":
        """Axes without ticks and frame, whose upper left corner is at (left, top)."""
        axes: Axes = self.canvas.add_axes(
            (
                left / self.width,
                1 - (top + height) / self.height,
                width / self.width,
                height / self.height,
            )
        )
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.patch.set_visible(False)
        return axes

    def write(
        self, left: float, top: float, words: str, *, room: float | None = None, **style: Any
    ) -> "Text":
        """Write at a place; what needs more than ``room`` inches is cut short with "…"."""
        settings = {"fontsize": 9, "color": INK, "va": "center", "parse_math": False, **style}
        text = self.canvas.text(left / self.width, 1 - top / self.height, words, **settings)
        if room is not None:
            shorten(text, room * self.canvas.dpi)
        return text


@contextmanager
def sheet(width: float, height: float) -> Iterator[Sheet]:
    """A blank sheet in the house style, of this size in inches.

    Example:
        >>> with sheet(4.0, 2.0) as page:
        ...     axes = page.panel(1.0, 0.5, 2.0, 1.0)
        >>> [float(share) for share in axes.get_position().bounds]  # from the lower left
        [0.25, 0.25, 0.5, 0.5]
    """
    with figure(width, height) as canvas:
        canvas.set_layout_engine("none")
        yield Sheet(canvas, width, height)


def shorten(text: "Text", most: float) -> None:
    """Cut a text until it is at most this many pixels wide; an ellipsis marks the cut."""
    words = text.get_text()
    keep = len(words)
    while keep > 1 and (width := text.get_window_extent().width) > most:
        keep = min(keep - 1, int(keep * most / width) + 1)
        text.set_text(f"{words[:keep].rstrip()}…")


def size_in_inches(axes: "Axes") -> tuple[float, float]:
    """Width and height of the place that axes take."""
    box = axes.get_position(original=True)
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101
    width, height = figure.get_size_inches()
    return float(box.width * width), float(box.height * height)


def inset(
    axes: "Axes", *, left: float = 0.0, right: float = 0.0, top: float = 0.0, bottom: float = 0.0
) -> None:
    """Draw the edges of axes in, by inches, so that ticks and their numbers have room."""
    width, height = size_in_inches(axes)
    box = axes.get_position(original=True)
    x, y = box.width / width, box.height / height
    axes.set_position(
        (
            box.x0 + left * x,
            box.y0 + bottom * y,
            (width - left - right) * x,
            (height - top - bottom) * y,
        )
    )


def pixels(image: Image) -> Any:
    """RGB for matplotlib; an image that has neither 1 nor 3 channels is shown by their mean."""
    if image.shape[0] != 3:
        image = image.mean(dim=0, keepdim=True)
    return image.clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy()


def draw_photo(axes: "Axes", image: Image) -> None:
    """The photo as it is."""
    draw_pixels(axes, pixels(image))


def draw_pixels(axes: "Axes", array: Any, *, fill: bool = False) -> None:
    """An array of pixels; a small one goes into SVG as it is, and is not blown up.

    Arguments:
        axes: Where to draw.
        array: Rows of colors.
        fill: Whether to fill the panel, whatever its shape.
    """
    is_small = array.shape[0] < SCREEN * size_in_inches(axes)[1]
    axes.imshow(
        array, interpolation="none" if is_small else "auto", aspect="auto" if fill else "equal"
    )


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
        left: Left edge of the strip.
        top: Upper edge of the strip.
        words: What the numbers are.
        colors: From the lowest to the highest.
        most: The highest number.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    axes = page.panel(left, top, SCALE_WIDTH, SCALE_HEIGHT)
    mappable = ScalarMappable(Normalize(0.0, most), colors)
    bar = page.canvas.colorbar(mappable, cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=6, color=MUTED, length=2, pad=1)
    bar.set_label(words, fontsize=7, labelpad=1)
