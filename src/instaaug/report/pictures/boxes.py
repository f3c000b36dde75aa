"""Boxes on photos: likely ones, where their centers lie, those drawn, how large they are."""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation.observed import ObservedFactor
from instaaug.functional.warp import pixel_centers
from instaaug.report.pictures.ranges import PALE
from instaaug.report.pictures.rows import PanelColumn, panel_aspect
from instaaug.report.pictures.sheet import Image, draw_pixels, inset, pixels, size_in_inches
from instaaug.report.theme import BLUE, INK, MUTED
from instaaug.report.units import percent
from instaaug.shapes import Images

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Transform

__all__ = [
    "DENSITIES",
    "ProbabilityInk",
    "box_columns",
    "box_probabilities",
    "box_sides",
    "center_density",
    "centers_column",
    "draw_boxes",
    "draw_centers",
    "draw_content",
    "draw_drawn_boxes",
    "draw_sizes",
    "likeliest_column",
    "overhang",
    "sampled_density",
    "samples_column",
    "shares_above",
    "sizes_column",
]

DARKEST = 0.25  # of viridis, so that an unlikely box can still be seen on a dim photo
LINE, THIN = 2.2, 0.9
LABEL = (0.5, 0.195)  # width and height of a label, in inches
INSET = 0.025
MOST_MARGIN = 1 / 7
OUTSIDE = "#e4e9ee"

Spot = tuple[float, float]
Color = str | tuple[float, ...]

DENSITIES = "inferno"
SPREAD = 0.5  # of the grid's spacing: neighbors melt into one another, and no further
NARROWEST = 0.05  # spread of a drawn center, in the normalized frame

SAME = 1e-4  # sides that differ by less are one size

N_LIKELIEST = 3
MOST_DRAWN = 12
DRAWN_COLOR = "#fff3c4"


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

    x, y, w, h = _box_shares(box)
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


def _box_shares(box: Float[Tensor, " 4"]) -> tuple[float, float, float, float]:
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
    left, top, width, height = _box_shares(box)
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
        width: Of the result, in pixels.

    Example:
        >>> boxes = torch.tensor([[-0.5, 0.0, 1.0, 1.0], [0.5, 0.0, 1.0, 1.0]])
        >>> density = center_density(torch.tensor([0.9, 0.1]), boxes, height=2, width=4)
        >>> density.argmax(dim=1)  # in the left half
        tensor([1, 1])
    """
    spread = SPREAD * _spacing(boxes)
    return _mixture(probs, boxes, spread, height=height, width=width)


def _mixture(
    probs: Float[Tensor, " k"],
    boxes: Float[Tensor, "k 4"],
    spread: Float[Tensor, "k 2"],
    *,
    height: int,
    width: int,
) -> Float[Tensor, "height width"]:
    along_x, along_y = (
        torch.exp(-0.5 * ((pixel_centers(n, like=boxes) - c[:, None]) / s[:, None]) ** 2)
        / s[:, None]
        for n, c, s in zip((width, height), boxes.T[:2], spread.T, strict=True)
    )
    return torch.einsum("k,kh,kw->hw", probs, along_y, along_x) / (2 * torch.pi)


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


def sampled_density(
    boxes: Float[Tensor, "n 4"], *, height: int, width: int
) -> Float[Tensor, "height width"]:
    """The density of the centers of boxes that were drawn: Gaussians as wide as Scott's rule says.

    Arguments:
        boxes: Drawn boxes, center x and center y first.
        height: Of the result, in pixels.
        width: Of the result, in pixels.
    """
    n = len(boxes)
    spread = boxes[:, :2].std(dim=0, correction=0) * n ** (-1 / 6)
    spread = spread.clamp(min=NARROWEST).expand(n, 2)
    return _mixture(torch.full((n,), 1 / n), boxes, spread, height=height, width=width)


def draw_centers(axes: "Axes", image: Image, density: Float[Tensor, "h w"]) -> None:
    """The density over the photo in dark gray; where there is none, the photo alone."""
    relative = density / density.max()
    draw_pixels(axes, 0.1 + 0.4 * pixels(image.mean(dim=0, keepdim=True)))
    strength = 0.75 * relative**0.7
    axes.imshow(relative.numpy(), cmap=DENSITIES, vmin=0, vmax=1, alpha=strength.numpy())


def box_sides(boxes: Float[Tensor, "k 4"]) -> Float[Tensor, " k"]:
    """The side of each box, as a share of the image side; of a rectangle, the square's as large.

    Example:
        >>> box_sides(torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]]))
        tensor([1.0000, 0.5000])
    """
    return (boxes[:, 2] * boxes[:, 3]).sqrt() / 2


def shares_above(
    boxes: Float[Tensor, "k 4"], probs: Float[Tensor, " k"]
) -> tuple[Float[Tensor, " sizes"], Float[Tensor, " sizes"]]:
    """The sizes that occur, in order, and the probability of a box at least as large as each.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
        >>> shares_above(boxes, torch.tensor([0.25, 0.75]))
        (tensor([0.5000, 1.0000]), tensor([1.0000, 0.2500]))
    """
    sides, members = (box_sides(boxes) / SAME).round().unique(return_inverse=True)
    mass = probs.new_zeros(len(sides)).index_add(0, members, probs)
    return sides * SAME, mass.flip(0).cumsum(0).flip(0)


def draw_sizes(axes: "Axes", boxes: Float[Tensor, "k 4"], probs: Float[Tensor, " k"]) -> None:
    """For every size the share of crops at least as large: a staircase from 100 % down.

    The mark on the axis is the mean size.

    Arguments:
        axes: Where to draw.
        boxes: The boxes, or all that were drawn.
        probs: How probable each is; equal shares for boxes that were drawn.
    """
    from matplotlib.patheffects import withStroke

    sizes, shares = (values.tolist() for values in shares_above(boxes, probs))
    inset(axes, left=0.27, bottom=0.16, top=0.06, right=0.06)
    edges = [0.0, *sizes]
    axes.stairs(shares, edges, fill=True, color=PALE)
    axes.stairs(shares, edges, color=BLUE, lw=1.8)
    mean = float((box_sides(boxes) * probs).sum())
    halo = [withStroke(linewidth=2, foreground="white")]
    axes.plot([mean, mean], [0, 0.07], color=INK, lw=2.2, solid_capstyle="butt")
    axes.text(0.5, 0.1, f"mean {mean:.2f}", fontsize=6.5, ha="center", path_effects=halo)
    axes.set(xlim=(0, 1.04), ylim=(0, 1.04))
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.set_yticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes.tick_params(labelsize=5.5, length=2, pad=1.5, color=MUTED, labelcolor=INK)
    axes.spines[["left", "bottom"]].set_visible(True)


def box_columns(factor: ObservedFactor, images: Images) -> Iterator[PanelColumn]:
    """What is likely, if boxes have probabilities, else what was drawn; and sizes."""
    if factor.probs is None:
        yield samples_column(factor, images)
    else:
        yield centers_column(factor, images)
        yield likeliest_column(factor, images)
    yield sizes_column(factor)


def box_probabilities(
    factor: ObservedFactor, i: int
) -> tuple[Float[Tensor, "k 4"], Float[Tensor, " k"]]:
    """Boxes and how probable each is for an input; of drawn ones all are alike."""
    if factor.probs is not None and factor.table is not None:
        return factor.table, factor.probs[i]
    n = len(factor.theta)
    return factor.theta[:, i], torch.full((n,), 1 / n)


def centers_column(factor: ObservedFactor, images: Images) -> PanelColumn:
    """The density of the centers."""
    height, width = images.shape[-2:]

    def draw(axes: "Axes", i: int) -> None:
        boxes, probs = box_probabilities(factor, i)
        if factor.probs is None:
            density = sampled_density(boxes, height=height, width=width)
        else:
            density = center_density(probs, boxes, height=height, width=width)
        draw_centers(axes, images[i], density)

    return PanelColumn("centers, bright: likely", panel_aspect(images), draw, sacrifice=2)


def likeliest_column(factor: ObservedFactor, images: Images) -> PanelColumn:
    """The likeliest boxes with their probabilities, colored on one scale for all inputs."""
    assert factor.table is not None  # noqa: S101
    assert factor.probs is not None  # noqa: S101
    table, top = factor.table, factor.probs.topk(min(N_LIKELIEST, len(factor.table)))
    margin = overhang(table[top.indices.flatten()])
    ink = ProbabilityInk(float(top.values.max()))

    def draw(axes: "Axes", i: int) -> None:
        boxes = table[top.indices[i]]
        draw_boxes(axes, images[i], boxes, top.values[i].tolist(), ink, margin=margin)

    return PanelColumn("likeliest boxes", panel_aspect(images), draw)


def samples_column(
    factor: ObservedFactor, images: Images, ink: ProbabilityInk | None = None
) -> PanelColumn:
    """Some of the boxes that were drawn, the likeliest on top, colored by probability.

    Arguments:
        factor: The boxes.
        images: The inputs.
        ink: The scale of probabilities; without one, or without probabilities, all are alike.
    """
    drawn = factor.theta[:MOST_DRAWN]
    margin = overhang(drawn.flatten(0, 1))

    def draw(axes: "Axes", i: int) -> None:
        boxes = drawn[:, i]
        colors: list[str | tuple[float, ...]] = [DRAWN_COLOR] * len(boxes)
        if ink is not None and factor.probs is not None and factor.table is not None:
            nearest = torch.cdist(boxes, factor.table).argmin(dim=1)  # jitter moves boxes
            probs, order = factor.probs[i, nearest].sort()
            boxes, colors = boxes[order], [ink.edge(p) for p in probs.tolist()]
        draw_drawn_boxes(axes, images[i], boxes, colors, margin=margin)

    return PanelColumn("boxes drawn", panel_aspect(images), draw)


def sizes_column(factor: ObservedFactor) -> PanelColumn:
    """The share of boxes above each size."""

    def draw(axes: "Axes", i: int) -> None:
        draw_sizes(axes, *box_probabilities(factor, i))

    return PanelColumn("share above size", 1.0, draw, sacrifice=1)
