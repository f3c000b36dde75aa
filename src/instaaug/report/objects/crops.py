"""Some photos with their objects, the likeliest crops, and where crops look."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ShapeError
from instaaug.functional.boxes import coverage
from instaaug.report.charts.axes import GRAY
from instaaug.report.objects.words import number
from instaaug.report.pictures.color_scales import draw_scale
from instaaug.report.pictures.crop_panels import ProbabilityInk, draw_boxes, overhang
from instaaug.report.pictures.crop_sizes import box_sides
from instaaug.report.pictures.photo_panels import Image, draw_pixels, pixels
from instaaug.report.pictures.sheet import Sheet, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_object_crops", "evenly_sized", "looks"]

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


def looks(
    probs: Float[Tensor, "n k"], boxes: Float[Tensor, "k 4"], *, height: int, width: int
) -> Float[Tensor, "n height width"]:
    """The probability that a crop shows a pixel, for every pixel.

    Example:
        >>> halves = torch.tensor([[-0.5, 0.0, 1.0, 2.0], [0.5, 0.0, 1.0, 2.0]])
        >>> looks(torch.tensor([[0.75, 0.25]]), halves, height=1, width=2)
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
        objects: Where the object of each photo is, likewise.
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
    seen = looks(probs, boxes, height=height, width=width)
    usual = looks(average.cpu().float()[None], boxes, height=height, width=width)
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
    words = [number(end, decimals=2, signed=True) for end in (-most, 0.0, most)]
    middle.set_xticks([0.0, most, 2 * most], [words[0], "0", words[2]])
    page.write(MARGIN, places.height - 0.12, CAPTION, fontsize=7.5, color=GRAY)
