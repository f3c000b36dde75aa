"""A figure on which every place is known: inches from the upper left."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instaaug.report.theme import INK, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = ["Sheet", "inset", "sheet", "shorten", "size_in_inches"]


@dataclass(frozen=True)
class Sheet:
    """Panels and words at places in inches.

    Arguments:
        canvas: The figure.
        width: Of the figure, in inches.
        height: Likewise.
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
