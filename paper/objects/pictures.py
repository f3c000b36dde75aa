"""Crops and objects: a chart of sizes and overlaps, and photos with the likeliest crops."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ShapeError
from instaaug.functional.boxes import coverage
from instaaug.report.charts.axes import GRAY, quiet
from instaaug.report.pictures.boxes import ProbabilityInk, box_sides, draw_boxes, overhang
from instaaug.report.pictures.sheet import Image, Sheet, draw_pixels, draw_scale, pixels, sheet
from instaaug.report.theme import BLUE, INK, RED, figure
from instaaug.stats import mean_and_standard_error
from paper.objects.findings import (
    COMPARED,
    PLACES,
    Findings,
    describe_correlation,
    describe_gain,
    write_number,
)
from paper.objects.overlap import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "binned_means",
    "draw_object_crops",
    "draw_objects",
    "evenly_sized",
    "pixel_probability",
]

WIDTH, HEIGHT = 10.4, 4.8
SHOWN = ("learned", *COMPARED)
MARKERS = {"learned": "o", "average": "s", "grid": "D", "anywhere": "^"}
N_BINS = 10
FEWEST_IN_BIN = 5
LEAST_HEIGHT = 0.1  # of the axis of sizes: what is smaller does not matter
LEAST_WIDTH = 0.02  # of the axes of overlaps
COLUMNS = (8, 54)  # points to the right of the axes
NOTE = (
    "bars: 95 % interval of the difference on the same images; off the line, it is beyond chance"
)
Z = 1.96  # of the normal interval of a bin's mean

MOST_PHOTOS = 12
N_TOP = 3
TILE, GAP = 1.5, 0.07  # inches, like all that follows
TITLE, HEADING, MARGIN, GUTTER, FOOT = 0.27, 0.25, 0.15, 0.35, 0.8
HEADINGS = ("likeliest crops", "where crops look", "less the average")
LOOKS, MORE = "inferno", "cividis"
VEIL = 0.8  # how little of the photo shines through a map
LEAST_MORE = 0.02  # of a probability: what is smaller is not worth a bright color
STEP = 2.25  # from scale to scale
CAPTION = (
    "Dashed: the object. Photos are evenly spaced by the object’s side, from the smallest to the "
    "largest; none was picked by eye."
)


def draw_objects(found: Findings) -> "Figure":
    """Expected size of the crop against that of the object; overlaps by where crops lie.

    On the left a dot per image, with means of tenths of the images. On the right mean overlaps; a
    bar is the 95 % interval of the paired difference to learned crops, so that one that misses
    the vertical line is a difference beyond chance.

    Arguments:
        found: What to draw.

    Example:
        >>> from paper.objects.findings import find_objects
        >>> boxes = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.0, 0.0, 2.0, 2.0]])
        >>> drawing = draw_objects(
        ...     find_objects(torch.eye(2).repeat(3, 1), boxes, boxes.repeat(3, 1))
        ... )
        >>> [axes.get_title(loc="left") for axes in drawing.axes][:2]
        ['Size of crop and object', 'Overlap, mean of 6 images']
    """
    with figure(WIDTH, HEIGHT) as canvas:
        grid = canvas.add_gridspec(len(MEASURES), 2, width_ratios=(1.0, 1.0))
        _draw_sizes(canvas.add_subplot(grid[:, 0]), found)
        panels = [canvas.add_subplot(grid[row, 1]) for row in range(len(MEASURES))]
        for axes, measure in zip(panels, MEASURES, strict=True):
            _draw_overlaps(axes, found, measure)
        panels[0].set_title(f"Overlap, mean of {found.n_images:,} images", loc="left")
        for offset, words in zip(COLUMNS, ("mean", "learned less this"), strict=True):
            _beside(panels[0], -0.75, words, offset, INK)
        canvas.supxlabel(NOTE, x=0.99, ha="right", fontsize=8, color=GRAY)
    return canvas


def binned_means(x: Tensor, y: Tensor, n_bins: int) -> list[tuple[float, float, float]]:
    """Mean x, mean y and the standard error of the latter, for groups of images of similar x.

    Groups have the same write_number of images, five at least.

    Example:
        >>> x = torch.arange(10.0)
        >>> binned_means(x, 2 * x, 2)
        [(2.0, 4.0, 1.41...), (7.0, 14.0, 1.41...)]
    """
    n_bins = max(1, min(n_bins, len(x) // FEWEST_IN_BIN))
    order = x.argsort(stable=True)
    groups = zip(x[order].tensor_split(n_bins), y[order].tensor_split(n_bins), strict=True)
    return [(float(a.mean()), *mean_and_standard_error(b.tolist())) for a, b in groups]


def _draw_sizes(axes: "Axes", found: Findings) -> None:
    x, y = found.object_side, found.crop_side
    size = min(26.0, max(5.0, 9000.0 / len(x)))
    axes.scatter(x, y, s=size, color=BLUE, alpha=0.3, linewidths=0, zorder=2, rasterized=True)
    bins = binned_means(x, y, N_BINS)
    middle, mean, error = (list(column) for column in zip(*bins, strict=True))
    axes.errorbar(
        middle, mean, yerr=[Z * e for e in error], color=INK, lw=1.6, marker="o", ms=5,
        markeredgecolor="white", capsize=0, zorder=4,
    )  # fmt: skip
    quiet(axes, grid="both")
    low, high = _limits([*y.tolist(), *mean], LEAST_HEIGHT)
    axes.set(xlim=(0, 1.02), ylim=(low, high + 0.08 * (high - low)))
    axes.set_xlabel("side of the object (√ of its share of the image)", color=INK)
    axes.set_ylabel("expected side of the crop (share of the image’s)", color=INK)
    axes.set_title("Size of crop and object", loc="left")
    halo = _halo()
    axes.text(
        0.015, 0.985, describe_correlation(found.size_correlation), transform=axes.transAxes,
        va="top", fontsize=9, color=INK, path_effects=halo, zorder=6,
    )  # fmt: skip


def _draw_overlaps(axes: "Axes", found: Findings, measure: str) -> None:
    means = {place: found.mean(measure, place) for place in SHOWN}
    gains = {place: found.gain(measure, place) for place in COMPARED}
    quiet(axes, grid="x")
    axes.axvline(means["learned"], color=RED, lw=1.0, ls=(0, (4, 3)), zorder=1)
    ends = list(means.values())
    for y, place in enumerate(SHOWN):
        color = RED if place == "learned" else GRAY
        if place in gains:
            low, high = (means["learned"] - end for end in gains[place].interval)
            axes.plot([low, high], [y, y], color=color, lw=2.4, solid_capstyle="butt", zorder=3)
            ends += [low, high]
        axes.scatter(
            [means[place]], [y], s=30, marker=MARKERS[place], color=color, edgecolors="white",
            linewidths=0.8, zorder=4,
        )  # fmt: skip
        _beside(axes, y, write_number(means[place]), COLUMNS[0], color)
        if place in gains:
            _beside(axes, y, describe_gain(gains[place]), COLUMNS[1], color)
    axes.set(ylim=(len(SHOWN) - 0.5, -0.5), xlim=_limits(ends, LEAST_WIDTH))
    axes.set_yticks(range(len(SHOWN)), [PLACES[place] for place in SHOWN], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(MEASURES[measure], color=INK, fontsize=9)


def _beside(axes: "Axes", y: float | int, words: str, offset: int, color: str) -> None:
    """Write at the right of the axes, in the row at y."""
    axes.annotate(
        words, (1.0, y), xycoords=("axes fraction", "data"), xytext=(offset, 0),
        textcoords="offset points", va="center", fontsize=8, color=color, annotation_clip=False,
    )  # fmt: skip


def _limits(values: Sequence[float], least: float) -> tuple[float, float]:
    """Around all values, and never closer than ``least``."""
    low, high = min(values), max(values)
    room = 0.06 * max(high - low, least) + max(0.0, least - (high - low)) / 2
    return low - room, high + room


def _halo() -> list[object]:
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground="white")]


def evenly_sized(sides: Float[Tensor, " n"], most: int) -> list[int]:
    """Images whose objects have evenly spaced sides, from the smallest to the largest.

    Arguments:
        sides: Of the object of each image.
        most: How many images to choose.

    Example:
        >>> evenly_sized(torch.tensor([0.9, 0.1, 0.2, 0.52, 0.15]), 3)
        [1, 3, 0]
    """
    left = list(range(len(sides)))
    chosen = []
    for wanted in torch.linspace(float(sides.min()), float(sides.max()), min(most, len(left))):
        best = min(left, key=lambda i: abs(float(sides[i] - wanted)))
        left.remove(best)
        chosen.append(best)
    return sorted(chosen, key=lambda i: float(sides[i]))


def pixel_probability(
    probs: Float[Tensor, "n k"], boxes: Float[Tensor, "k 4"], *, height: int, width: int
) -> Float[Tensor, "n height width"]:
    """The probability that a crop shows a pixel, for every pixel.

    Example:
        >>> halves = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0]])
        >>> pixel_probability(torch.tensor([[0.75, 0.25]]), halves, height=1, width=2)
        tensor([[[0.7500, 0.2500]]])
    """
    covered = coverage(boxes, height=height, width=width).flatten(1)
    return (probs.to(covered) @ covered).unflatten(1, (height, width))


def draw_object_crops(
    images: Float[Tensor, "n c h w"],
    probs: Float[Tensor, "n k"],
    boxes: Float[Tensor, "k 4"],
    objects: Float[Tensor, "n 4"],
    average: Float[Tensor, " k"],
    *,
    titles: Sequence[str] | None = None,
) -> "Figure":
    """Show photos with the outline of the object over the three likeliest crops and two maps.

    The first map is the probability that a crop shows a pixel; the second is by how much that is
    more, or less, than for the average image: what looking at this image has changed.

    Arguments:
        images: Photos in [0, 1], gray or RGB; at most 12.
        probs: Probability of each box, a row per photo.
        boxes: Center x, center y, width and height, in the frame in which the whole image is
            (0, 0, 2, 2).
        objects: The box around the object of each photo, in the same frame.
        average: Mean probability of each box over all images.
        titles: A line per photo.

    Example:
        >>> boxes = torch.tensor(
        ...     [[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0], [0.0, 0.0, 2.0, 2.0]]
        ... )
        >>> probs = torch.tensor([[0.5, 0.3, 0.2]])
        >>> drawing = draw_object_crops(torch.rand(1, 3, 8, 8), probs, boxes, boxes[:1], probs[0])
        >>> [text.get_text() for text in drawing.axes[0].texts]
        ['1 · 50%', '2 · 30%', '3 · 20%']
    """
    n, _, height, width = images.shape
    if not 1 <= n <= MOST_PHOTOS or not n == len(probs) == len(objects):
        raise ShapeError(
            f"`images`, `probs` and `objects` must have the same 1 to {MOST_PHOTOS} rows: got "
            f"{n}, {len(probs)} and {len(objects)}."
        )
    images, probs, boxes, objects = (
        v.detach().cpu().float() for v in (images, probs, boxes, objects)
    )
    seen = pixel_probability(probs, boxes, height=height, width=width)
    usual = pixel_probability(average.cpu().float()[None], boxes, height=height, width=width)
    most = max(LEAST_MORE, float((seen - usual).abs().max()))
    top = probs.topk(min(N_TOP, len(boxes))).indices
    margin = overhang(boxes[top.flatten()])
    ink = ProbabilityInk(float(probs.max()))
    places = _Places((TILE * width / height, TILE), n)
    with sheet(places.width, places.height) as page:
        _draw_headings(page, places)
        for i, (image, row, best) in enumerate(zip(images, probs, top, strict=True)):
            panels = [page.panel(*spot) for spot in places.spots(i)]
            draw_boxes(panels[0], image, boxes[best], row[best].tolist(), ink, margin=margin)
            _draw_map(panels[1], image, seen[i], LOOKS, (0.0, 1.0))
            _draw_map(panels[2], image, seen[i] - usual[0], MORE, (-most, most))
            for axes in panels:
                _draw_object(axes, image, objects[i])
            words = f"object’s side {float(box_sides(objects[i : i + 1])):.2f}"
            words = words if titles is None else f"{words} · {titles[i]}"
            left, above = places.corner(i)
            page.write(left, above - 0.1, words, fontsize=8, room=places.block)
        _draw_foot(page, places, ink, most)
    return page.canvas


@dataclass(frozen=True)
class _Places:
    """Where everything stands, in inches from the upper left; photos run down the columns."""

    tile: tuple[float, float]
    n: int

    @property
    def columns(self) -> int:
        return 1 if self.n <= 3 else 2

    @property
    def rows(self) -> int:
        return ceil(self.n / self.columns)

    @property
    def block(self) -> float:
        """Width of all that belongs to one photo."""
        return 3 * (self.tile[0] + GAP) - GAP

    @property
    def width(self) -> float:
        """As wide as the photos, or as the three scales."""
        return 2 * MARGIN + max(self.columns * (self.block + GUTTER) - GUTTER, 3 * STEP)

    @property
    def height(self) -> float:
        return HEADING + self.rows * (TITLE + TILE) + FOOT

    def corner(self, i: int) -> tuple[float, float]:
        """Upper left of the tiles of photo i."""
        column, row = divmod(i, self.rows)
        return MARGIN + column * (self.block + GUTTER), HEADING + TITLE + row * (TITLE + TILE)

    def spots(self, i: int) -> list[tuple[float, float, float, float]]:
        """Left, top, width and height of the tiles of photo i."""
        left, top = self.corner(i)
        return [(left + k * (self.tile[0] + GAP), top, *self.tile) for k in range(3)]


def _draw_headings(page: Sheet, places: _Places) -> None:
    for column in range(places.columns):
        left, _ = places.corner(column * places.rows)
        for k, words in enumerate(HEADINGS):
            place = left + k * (places.tile[0] + GAP)
            page.write(place, 0.15, words, fontweight="bold", room=places.tile[0])


def _draw_map(
    axes: "Axes", image: Image, values: Float[Tensor, "h w"], colors: str,
    limits: tuple[float, float],
) -> None:  # fmt: skip
    """A map over the photo in gray, through which its shapes can be seen."""
    draw_pixels(axes, pixels(image.mean(dim=0, keepdim=True)))
    axes.imshow(values.numpy(), cmap=colors, vmin=limits[0], vmax=limits[1], alpha=VEIL)


def _draw_object(axes: "Axes", image: Image, box: Float[Tensor, " 4"]) -> None:
    from matplotlib.patches import Rectangle

    _, height, width = image.shape
    x, y, w, h = (float(value) / 2 for value in box)
    corner = ((0.5 + x - w / 2) * width - 0.5, (0.5 + y - h / 2) * height - 0.5)
    for color, line, dashes in (("black", 2.4, "-"), ("white", 1.4, (0, (3, 2)))):
        axes.add_patch(
            Rectangle(
                corner,
                w * width,
                h * height,
                fill=False,
                edgecolor=color,
                linewidth=line,
                linestyle=dashes,
                zorder=4,
                clip_on=False,
            )
        )


def _draw_foot(page: Sheet, places: _Places, ink: ProbabilityInk, most: float) -> None:
    top = places.height - FOOT + 0.12
    left = MARGIN + 0.1
    draw_scale(page, left, top, "probability of a crop", ink.colors, most=ink.most)
    draw_scale(page, left + STEP, top, "probability that a pixel is in the crop", LOOKS)
    draw_scale(page, left + 2 * STEP, top, "that less the average image’s", MORE, most=2 * most)
    middle = page.canvas.axes[-1]  # the scale begins at 0, and its middle is meant to be 0
    words = [write_number(end, decimals=2, signed=True) for end in (-most, 0.0, most)]
    middle.set_xticks([0.0, most, 2 * most], [words[0], "0", words[2]])
    page.write(MARGIN, places.height - 0.12, CAPTION, fontsize=7.5, color=GRAY)
