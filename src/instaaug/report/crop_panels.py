"""The panels of the figure of crops: centers, boxes, and what is in them."""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.functional.warp import pixel_centers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "DENSITIES",
    "ProbabilityInk",
    "center_density",
    "draw_boxes",
    "draw_centers",
    "draw_content",
    "draw_photo",
]

DENSITIES = "inferno"
SPREAD = 0.5  # of the grid's spacing: neighbors melt into one another, and no further
DARKEST = 0.25  # of viridis, so that an unlikely box can still be seen on a dim photo
LINE = 2.2
LABEL = (0.33, 0.13)  # width and height of a label, as shares of a photo's height
INSET = 0.025

Image = Float[Tensor, "c h w"]
Spot = tuple[float, float]


def center_density(
    probs: Float[Tensor, " k"], boxes: Float[Tensor, "k 4"], *, height: int, width: int
) -> Float[Tensor, "height width"]:
    """The density of crop centers at every pixel: a mixture of one Gaussian per box.

    A Gaussian is half as wide as the distance between neighbors on its grid, so that a uniform
    choice looks flat. A box without neighbors of its size spreads over half its own side: the
    whole image says next to nothing about a place.

    Arguments:
        probs: Probability of each box.
        boxes: Center x, center y, width and height in the normalized frame.
        height: Of the result, in pixels.
        width: Likewise.

    Example:
        >>> boxes = torch.tensor([[-0.5, 0.0, 1.0, 1.0], [0.5, 0.0, 1.0, 1.0]])
        >>> density = center_density(torch.tensor([0.9, 0.1]), boxes, height=2, width=4)
        >>> density.argmax(dim=1)  # in the left half
        tensor([1, 1])
    """
    spread = SPREAD * _spacing(boxes)
    along_x, along_y = (
        torch.exp(-0.5 * ((pixel_centers(n, like=boxes) - c[:, None]) / s[:, None]) ** 2)
        / s[:, None]
        for n, c, s in zip((width, height), boxes.T[:2], spread.T, strict=True)
    )
    mass = torch.einsum("k,kh,kw->hw", probs, along_y, along_x)
    return mass / (2 * torch.pi)


def _spacing(boxes: Float[Tensor, "k 4"]) -> Float[Tensor, "k 2"]:
    """Distance of neighbors among the boxes of one size, per axis; else the box's own extent."""
    spacing = boxes[:, 2:].clone()
    for extent in boxes[:, 2:].unique(dim=0):
        members = (boxes[:, 2:] == extent).all(dim=1)
        for axis in (0, 1):
            places = boxes[members, axis].unique()
            if len(places) > 1:
                spacing[members, axis] = places.diff().min()
    return spacing.clamp(min=1e-3)


class ProbabilityInk:
    """The scale of probabilities, and the color to write with on each of its colors.

    Arguments:
        most: The largest probability.
    """

    def __init__(self, most: float) -> None:
        from matplotlib import colormaps
        from matplotlib.colors import ListedColormap, Normalize

        shades = torch.linspace(DARKEST, 1, 256).numpy()
        self.norm = Normalize(0.0, most)
        self.colors = ListedColormap(colormaps["viridis"](shades))

    def edge(self, p: float) -> tuple[float, ...]:
        """The color that stands for a probability."""
        return tuple(self.colors(self.norm(p)))

    def letters(self, p: float) -> str:
        """Black or white, whichever can be read on the color."""
        red, green, blue, _ = self.edge(p)
        return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def draw_photo(axes: "Axes", image: Image) -> None:
    """The photo as it is."""
    axes.imshow(_pixels(image))


def draw_centers(axes: "Axes", image: Image, density: Float[Tensor, "h w"]) -> None:
    """The density over the photo in gray; where there is none, the photo alone."""
    relative = density / density.max()
    axes.imshow(0.2 + 0.6 * _pixels(image.mean(dim=0, keepdim=True)))
    strength = 0.75 * relative**0.7
    axes.imshow(relative.numpy(), cmap=DENSITIES, vmin=0, vmax=1, alpha=strength.numpy())


def draw_boxes(
    axes: "Axes",
    image: Image,
    boxes: Float[Tensor, "n 4"],
    probs: Sequence[float],
    ink: ProbabilityInk,
) -> None:
    """Boxes on the dimmed photo, each with its rank and probability; the likeliest on top."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import Normal, withStroke

    axes.imshow(0.55 * _pixels(image))
    _, height, width = image.shape
    label = (LABEL[0] * height / width, LABEL[1])
    taken: list[Spot] = []
    for rank, (box, p) in enumerate(zip(boxes, probs, strict=True)):
        x, y, w, h = _shares(box)
        axes.add_patch(
            Rectangle(
                (x * width - 0.5, y * height - 0.5),
                w * width,
                h * height,
                fill=False,
                edgecolor=ink.edge(p),
                linewidth=LINE,
                zorder=3 - 0.1 * rank,
                path_effects=[withStroke(linewidth=LINE + 1, foreground="black"), Normal()],
            )
        )
        taken.append(_free_spot(box, label, taken))
        _label(axes, f"{rank + 1} · {_percent(p)}", taken[-1], p, ink)


def draw_content(axes: "Axes", content: Image, rank: int, p: float, ink: ProbabilityInk) -> None:
    """What a box holds, in a frame of the box's color."""
    axes.imshow(_pixels(content), aspect="auto")
    axes.spines[:].set(visible=True, color=ink.edge(p), linewidth=LINE)
    _label(axes, str(rank), (0.06, 0.06), p, ink)


def _pixels(image: Image) -> Any:
    return image.clamp(0, 1).expand(3, -1, -1).permute(1, 2, 0).numpy()


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


def _label(axes: "Axes", words: str, spot: Spot, p: float, ink: ProbabilityInk) -> None:
    axes.text(
        spot[0],
        1 - spot[1],
        words,
        transform=axes.transAxes,
        ha="left",
        va="top",
        fontsize=6,
        fontweight="bold",
        color=ink.letters(p),
        zorder=5,
        bbox={"boxstyle": "round,pad=0.18", "facecolor": ink.edge(p), "edgecolor": "none"},
    )


def _percent(p: float) -> str:
    if p < 0.001:
        return "<0.1%"
    return f"{100 * p:.1f}%" if p < 0.0995 else f"{100 * p:.0f}%"
