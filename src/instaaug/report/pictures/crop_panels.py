"""Boxes on a photo, and what is in them."""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.report.pictures.photo_panels import Image, draw_pixels, pixels
from instaaug.report.pictures.sheet import size_in_inches
from instaaug.report.units import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

__all__ = [
    "ProbabilityInk",
    "draw_boxes",
    "draw_content",
    "draw_drawn_boxes",
    "overhang",
]

DARKEST = 0.25  # of viridis, so that an unlikely box can still be seen on a dim photo
LINE, THIN = 2.2, 0.9
LABEL = (0.5, 0.195)  # width and height of a label, in inches
INSET = 0.025
MOST_MARGIN = 1 / 7
OUTSIDE = "#e4e9ee"

Spot = tuple[float, float]
Color = str | tuple[float, ...]


class ProbabilityInk:
    """The scale of probabilities, and the color to write with on each of its colors.

    Arguments:
        most: The largest probability.
    """

    def __init__(self, most: float) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import ListedColormap, Normalize

        shades = torch.linspace(DARKEST, 1, 256).numpy()
        self.most = most
        self._norm = Normalize(0.0, most)
        self.colors = ListedColormap(colormaps["viridis"](shades))

    def edge(self, p: float) -> tuple[float, ...]:
        """The color that stands for a probability."""
        return tuple(self.colors(self._norm(p)))

    def letters(self, p: float) -> str:
        """Black or white, whichever can be read on the color."""
        red, green, blue, _ = self.edge(p)
        return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def overhang(boxes: Float[Tensor, "n 4"]) -> float:
    """How far boxes stick out of the image, as a share of its side; at most a seventh is shown.

    Example:
        >>> overhang(torch.tensor([[-0.9, 0.0, 0.4, 0.4]]))  # from -1.1 on, where the side is 2
        0.05
    """
    outside = float((boxes[:, :2].abs() + boxes[:, 2:] / 2 - 1).max()) / 2
    return round(min(max(outside, 0.0), MOST_MARGIN), 3)


def draw_boxes(
    axes: "Axes",
    image: Image,
    boxes: Float[Tensor, "n 4"],
    probs: Sequence[float],
    ink: ProbabilityInk,
    *,
    margin: float = 0.0,
) -> None:
    """Boxes on the dimmed photo, each with its rank and probability; the likeliest on top.

    Arguments:
        axes: Where to draw.
        image: The photo.
        boxes: The likeliest first.
        probs: How probable each is.
        ink: The color of each probability.
        margin: How much to show of what lies around the photo, as a share of its side.
    """
    _draw_dimmed(axes, image, margin)
    label = _label_shares(axes)
    taken: list[Spot] = []
    for rank, (box, p) in enumerate(zip(boxes, probs, strict=True)):
        _outline(axes, image, box, ink.edge(p), LINE, zorder=3 - 0.1 * rank)
        taken.append(_free_spot(box, label, taken))
        place = _on_photo(image, *taken[-1])
        _label(axes, f"{rank + 1} · {percent(p)}", place, axes.transData, p, ink)


def draw_drawn_boxes(
    axes: "Axes",
    image: Image,
    boxes: Float[Tensor, "n 4"],
    colors: Sequence[Color],
    *,
    margin: float = 0.0,
) -> None:
    """Boxes that were drawn, on the dimmed photo; later ones lie on top.

    Arguments:
        axes: Where to draw.
        image: The photo.
        boxes: In the order in which they are to be painted.
        colors: Of the edge of each.
        margin: How much to show of what lies around the photo, as a share of its side.
    """
    _draw_dimmed(axes, image, margin)
    for box, color in zip(boxes, colors, strict=True):
        _outline(axes, image, box, color, THIN)


def _draw_dimmed(axes: "Axes", image: Image, margin: float) -> None:
    draw_pixels(axes, 0.55 * pixels(image))
    _, height, width = image.shape
    x, y = margin * width + 0.5, margin * height + 0.5
    axes.set(xlim=(-x, width - 1 + x), ylim=(height - 1 + y, -y))
    if margin:
        axes.patch.set(visible=True, facecolor=OUTSIDE)


def _outline(
    axes: "Axes",
    image: Image,
    box: Float[Tensor, " 4"],
    color: Color,
    width: float,
    *,
    zorder: float = 2.0,
) -> None:
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import Normal, withStroke

    x, y, w, h = _shares(box)
    axes.add_patch(
        Rectangle(
            _on_photo(image, x, y),
            w * image.shape[2],
            h * image.shape[1],
            fill=False,
            edgecolor=color,
            linewidth=width,
            zorder=zorder,
            path_effects=[withStroke(linewidth=width + 1, foreground="black"), Normal()],
        )
    )


def _on_photo(image: Image, x: float, y: float) -> Spot:
    """Shares of the photo's sides as coordinates of the panel."""
    return x * image.shape[2] - 0.5, y * image.shape[1] - 0.5


def _label_shares(axes: "Axes") -> Spot:
    """How much of the photo's sides a label takes."""
    (photo,) = axes.images
    height, width = photo.get_size()
    spans = (abs(end - start) for start, end in (axes.get_xlim(), axes.get_ylim()))
    scale = min(inches / span for inches, span in zip(size_in_inches(axes), spans, strict=True))
    return LABEL[0] / (scale * width), LABEL[1] / (scale * height)


def draw_content(axes: "Axes", content: Image, rank: int, p: float, ink: ProbabilityInk) -> None:
    """What a box holds, in a frame of the box's color."""
    draw_pixels(axes, pixels(content), fill=True)
    axes.spines[:].set(visible=True, color=ink.edge(p), linewidth=LINE)
    _label(axes, str(rank), (0.06, 0.94), axes.transAxes, p, ink)


def _shares(box: Float[Tensor, " 4"]) -> tuple[float, float, float, float]:
    """Left, top, width and height as shares of the photo's sides."""
    x, y, w, h = (float(value) / 2 for value in box)
    return 0.5 + x - w / 2, 0.5 + y - h / 2, w, h


def _free_spot(box: Float[Tensor, " 4"], label: Spot, taken: Sequence[Spot]) -> Spot:
    """Where a label hides no other: in a corner of its box, else in the box, else near it."""
    spots = list(_spots(box, label))
    for x, y in spots:
        if all(abs(x - a) >= label[0] or abs(y - b) >= label[1] for a, b in taken):
            return x, y
    return spots[0]


def _spots(box: Float[Tensor, " 4"], label: Spot) -> Iterator[Spot]:
    left, top, width, height = _shares(box)
    xs, ys = _ends(left, width, label[0]), _ends(top, height, label[1])
    rows = torch.linspace(*_ends(0.0, 1.0, label[1]), 15).tolist()
    columns = torch.linspace(*_ends(0.0, 1.0, label[0]), 9).tolist()
    return chain(
        ((x, y) for y in ys for x in xs),
        ((x, y) for y in torch.linspace(*ys, 8).tolist() for x in xs),
        sorted(
            product(columns, rows), key=lambda spot: abs(spot[0] - xs[0]) + abs(spot[1] - ys[0])
        ),
    )


def _ends(start: float, extent: float, label: float) -> Spot:
    """First and last place of a label along one side of a box, within the photo."""
    first = min(max(start, 0.0) + INSET, 1 - INSET - label)
    last = min(start + extent, 1.0) - INSET - label
    return first, max(first, last)


def _label(
    axes: "Axes", words: str, spot: Spot, transform: "Transform", p: float, ink: ProbabilityInk
) -> None:
    axes.text(
        *spot,
        words,
        transform=transform,
        ha="left",
        va="top",
        fontsize=6,
        fontweight="bold",
        color=ink.letters(p),
        zorder=5,
        bbox={"boxstyle": "round,pad=0.18", "facecolor": ink.edge(p), "edgecolor": "none"},
    )
