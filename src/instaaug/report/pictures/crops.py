"""Figures of crops: those of one model with their contents, and those of several methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from textwrap import wrap
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation.observed import Observed, ObservedFactor
from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.affine import box_matrix
from instaaug.functional.warp import warp
from instaaug.report.pictures.boxes import (
    DENSITIES,
    ProbabilityInk,
    center_density,
    centers_column,
    draw_boxes,
    draw_centers,
    draw_content,
    overhang,
    samples_column,
    sizes_column,
)
from instaaug.report.pictures.rows import ColumnGroup, InputRows, check_same_images
from instaaug.report.pictures.sheet import Sheet, draw_photo, draw_scale, sheet
from instaaug.shapes import check_images
from instaaug.spaces import Boxes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_crop_comparison", "draw_crops"]

MOST_PHOTOS = 12
MOST_TOP = 8
ROUNDING = 1e-3  # by which probabilities may miss the sum of 1
TILE, GAP = 1.5, 0.07  # inches, like all that follows
TITLE, HEADING, MARGIN, GUTTER, FOOT = 0.27, 0.25, 0.15, 0.35, 0.55
HEADINGS = ("photo", "centers of crops", "likeliest boxes", "what is in them")

COMPARISON_FOOT = 0.5
LINE, LETTER = 0.16, 0.066  # height of a line of the caption, width of a letter


def draw_crops(
    images: Float[Tensor, "*photos"],  # shapes are checked below, with words of our own
    probs: Float[Tensor, "*choices"],
    boxes: Float[Tensor, "*rows"],
    *,
    size: tuple[int, int],
    titles: Sequence[str] | None = None,
    n_top: int = 4,
    caption: str = "",
) -> "Figure":
    """Show for each photo the density of crop centers, the likeliest boxes, and their contents.

    Numbers rank the boxes; edges are colored by probability, on one scale for all photos.

    Arguments:
        images: Photos in [0, 1], gray or RGB; at most 12.
        probs: Probability of each box, a row per photo.
        boxes: Center x, center y, width and height, in the frame in which the whole image is
            (0, 0, 2, 2).
        size: Height and width in pixels at which the model sees a box.
        titles: A line per photo: its label, say, and the prediction.
        n_top: How many boxes to show of each photo; at most 8.
        caption: What is to be said below of all of them.

    Shape:
        - ``images``: ``(N, C, H, W)``; ``probs``: ``(N, K)``; ``boxes``: ``(K, 4)``

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [-0.5, 0.0, 1.0, 1.0]])
        >>> probs = torch.tensor([[0.25, 0.75]])
        >>> drawing = draw_crops(torch.rand(1, 3, 8, 8), probs, boxes, size=(8, 8), n_top=2)
        >>> [text.get_text() for text in drawing.axes[2].texts]  # the panel of boxes
        ['1 · 75%', '2 · 25%']
    """
    _check_photos(images, titles)
    _check_boxes(probs, boxes, len(images))
    _check_numbers(size, n_top, len(boxes))
    images, probs, boxes = (v.detach().cpu().float() for v in (images, probs, boxes))
    places = replace(_places(images, size, n_top), caption=caption)
    with sheet(places.width, places.height) as page:
        ink = ProbabilityInk(float(probs.max()))
        top = probs.topk(n_top).indices
        margin = overhang(boxes[top.flatten()])
        _draw_headings(page, places)
        for i, (image, row, best) in enumerate(zip(images, probs, top, strict=True)):
            panels = [page.panel(*spot) for spot in places.spots(i)]
            density = center_density(row, boxes, height=image.shape[1], width=image.shape[2])
            draw_photo(panels[0], image)
            draw_centers(panels[1], image, density)
            draw_boxes(panels[2], image, boxes[best], row[best].tolist(), ink, margin=margin)
            contents = warp(image.expand(n_top, -1, -1, -1), box_matrix(boxes[best]), size=size)
            for rank, content in enumerate(contents):
                p = float(row[best[rank]])
                draw_content(panels[3 + rank], content, rank + 1, p, ink)
            if titles is not None:
                left, above = places.corner(i)
                room = places.block
                page.write(left, above - 0.1, titles[i], fontsize=8, room=room)
        _draw_scales(page, places, ink)
    return page.canvas


@dataclass(frozen=True)
class _Places:
    """Where everything stands, in inches from the upper left.

    Photos run down the columns. Each has three tiles beside one another, then the contents of its
    boxes in one or two rows.
    """

    tile: tuple[float, float]
    content: tuple[float, float]
    n_contents: int
    content_columns: int
    columns: int
    rows: int
    caption: str = ""

    @property
    def lines(self) -> list[str]:
        """The caption, as wide as the sheet."""
        return wrap(self.caption, max(20, int((self.width - 2 * MARGIN) / LETTER)))

    @property
    def block(self) -> float:
        """Width of all that belongs to one photo."""
        contents = self.content_columns * (self.content[0] + GAP) - GAP
        return 3 * (self.tile[0] + GAP) + contents

    @property
    def width(self) -> float:
        return 2 * MARGIN + self.columns * (self.block + GUTTER) - GUTTER

    @property
    def height(self) -> float:
        return HEADING + self.rows * (TITLE + TILE) + FOOT + LINE * len(self.lines)

    def corner(self, i: int) -> tuple[float, float]:
        """Upper left of the tiles of photo i."""
        column, row = divmod(i, self.rows)
        return MARGIN + column * (self.block + GUTTER), HEADING + TITLE + row * (TITLE + TILE)

    def spots(self, i: int) -> list[tuple[float, float, float, float]]:
        """Left, top, width and height of the tiles of photo i and the contents of its boxes."""
        left, top = self.corner(i)
        step, down = self.content[0] + GAP, self.content[1] + GAP
        spots = [(left + k * (self.tile[0] + GAP), top, *self.tile) for k in range(3)]
        start = left + 3 * (self.tile[0] + GAP)
        for rank in range(self.n_contents):
            row, column = divmod(rank, self.content_columns)
            spots.append((start + column * step, top + row * down, *self.content))
        return spots


def _places(images: Tensor, size: tuple[int, int], n_top: int) -> _Places:
    n, _, height, width = images.shape
    content_rows = min(n_top, 2)
    side = (TILE - GAP * (content_rows - 1)) / content_rows
    columns = 1 if n <= 3 else 2
    return _Places(
        tile=(TILE * width / height, TILE),
        content=(side * size[1] / size[0], side),
        n_contents=n_top,
        content_columns=ceil(n_top / content_rows),
        columns=columns,
        rows=ceil(n / columns),
    )


def _draw_headings(page: Sheet, places: _Places) -> None:
    for column in range(places.columns):
        left, _ = places.corner(column * places.rows)
        for k, words in enumerate(HEADINGS):
            place = left + k * (places.tile[0] + GAP)
            page.write(place, 0.15, words, fontweight="bold")


def _draw_scales(page: Sheet, places: _Places, ink: ProbabilityInk) -> None:
    top = places.height - FOOT - LINE * len(places.lines) + 0.12
    for k, line in enumerate(places.lines):
        page.write(MARGIN, top + FOOT - 0.05 + k * LINE, line, fontsize=8)
    draw_scale(page, MARGIN + 0.1, top, "density of centers / its maximum", DENSITIES)
    draw_scale(page, MARGIN + 2.5, top, "probability of a box", ink.colors, most=ink.most)


def _check_photos(images: Tensor, titles: Sequence[str] | None) -> None:
    check_images(images)
    n, channels = images.shape[:2]
    if n > MOST_PHOTOS or channels not in (1, 3):
        raise ShapeError(
            f"`images` must be at most {MOST_PHOTOS} photos of 1 or 3 channels: got {n} of "
            f"{channels}. Choose some with images[:{MOST_PHOTOS}]."
        )
    if titles is not None and len(titles) != n:
        raise ShapeError(f"`titles` must be one line per photo, {n}: got {len(titles)}.")


def _check_boxes(probs: Tensor, boxes: Tensor, n_photos: int) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or not bool((boxes[:, 2:] > 0).all()):
        raise ShapeError(
            "`boxes` must be (K, 4), center x, center y, width and height, with positive sides: "
            f"got shape {tuple(boxes.shape)}. Take grid.boxes."
        )
    if probs.shape != (n_photos, len(boxes)):
        raise ShapeError(
            f"`probs` must have a row per photo and a column per box, {(n_photos, len(boxes))}: "
            f"got {tuple(probs.shape)}."
        )
    off = float((probs.detach().sum(dim=1) - 1).abs().max())
    if not off <= ROUNDING or bool((probs < 0).any()):
        raise ArgumentError(
            "`probs` must be probabilities, none negative, with a sum of 1 per photo: got a sum "
            f"off by {off:.3g}. Give log-probabilities as log_probs.exp()."
        )


def _check_numbers(size: tuple[int, int], n_top: int, n_boxes: int) -> None:
    most = min(MOST_TOP, n_boxes)
    if not 1 <= n_top <= most:
        raise ArgumentError(f"`n_top` must lie in [1, {most}]: got {n_top} for {n_boxes} boxes.")
    if min(size) < 1:
        raise ArgumentError(f"`size` must be a height and a width in pixels: got {size}.")


def draw_crop_comparison(
    groups: Mapping[str, Observed], *, titles: Sequence[str] | None = None
) -> "Figure":
    """Show for each method and photo some crops, where their centers lie, and how large they are.

    Edges are colored by probability, on one scale for all. The last panel of a method is the
    share of crops at least as large as each size. A method without probabilities is shown by
    what was drawn: observe some hundred samples of it.

    Arguments:
        groups: By name of the method, what it makes of the same photos; at most 3 methods.
        titles: A line per photo.

    Raises:
        ArgumentError: If methods were shown different photos, or do not crop.

    References:
        | Learning Instance-Specific Augmentations by Capturing Local Invariances, Figure 6
        | (Miao et al., 2023)
        | https://arxiv.org/abs/2206.00051

    Example:
        >>> from instaaug import InstaAug, transforms as T
        >>> from instaaug.augmentation.observed import observe
        >>> x = torch.rand(2, 3, 32, 32)
        >>> blind = InstaAug(T.Crop(), conditioning="none")
        >>> methods = {"one for all": blind, "InstaAug": InstaAug(T.Crop())}
        >>> seen = {name: observe(aug, x) for name, aug in methods.items()}
        >>> drawing = draw_crop_comparison(seen)
        >>> len(drawing.axes)  # a photo and two times three panels, twice; two scales
        16
    """
    images = check_same_images(groups)
    crops = {name: _crop_factor(name, observed) for name, observed in groups.items()}
    tops = [float(f.probs.max()) for f in crops.values() if f.probs is not None]
    ink = ProbabilityInk(max(tops)) if tops else None
    columns = [
        ColumnGroup(
            name,
            (samples_column(crop, images, ink), centers_column(crop, images), sizes_column(crop)),
        )
        for name, crop in crops.items()
    ]

    def draw_foot(page: Sheet, top: float) -> None:
        draw_scale(page, 0.25, top, "density of centers / its maximum", DENSITIES)
        if ink is not None:
            draw_scale(page, 2.65, top, "probability of a box", ink.colors, most=ink.most)

    return InputRows(images, columns, titles, foot=COMPARISON_FOOT).draw(draw_foot)


def _crop_factor(name: str, observed: Observed) -> ObservedFactor:
    for factor in observed.factors:
        if isinstance(factor.space, Boxes):
            return factor
    known = ", ".join(factor.name for factor in observed.factors) or "none"
    raise ArgumentError(
        f"`groups` must hold methods that choose boxes: {name!r} has the factors {known}. Draw "
        "others with draw_inputs."
    )
