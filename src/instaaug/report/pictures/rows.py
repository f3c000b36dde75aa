"""Rows of inputs, with columns of panels that belong to them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation.observed import Observed
from instaaug.errors import ArgumentError, ShapeError
from instaaug.report.pictures.sheet import Sheet, draw_photo, draw_pixels, pixels, sheet
from instaaug.shapes import Images

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "MOST_INPUTS",
    "ColumnGroup",
    "InputRows",
    "PanelColumn",
    "check_same_images",
    "mosaic",
    "panel_aspect",
    "sample_column",
]

SAMPLE_GAP = 0.08  # between samples, as a share of their height

Samples = Float[Tensor, "n batch channels height width"]

MOST_INPUTS = 12
WIDEST, TALLEST = 16.0, 20.0  # inches, like all that follows
MARGIN, GAP, GUTTER = 0.15, 0.08, 0.25
HEADINGS, TITLE, CAPTION, SPACE = 0.5, 0.22, 0.17, 0.12
QUIET = "#5f6b78"

MOST_METHODS = 3
ROUNDING = 1 / 512  # half a step of 8-bit pixels, for images were normalized and back


@dataclass(frozen=True)
class PanelColumn:
    """A column of panels.

    Arguments:
        heading: What stands above it.
        width: In heights of a panel.
        draw: Draws on axes what belongs to the input of that number.
        sacrifice: Where room is short, columns with the highest number go first; 0 stays.
    """

    heading: str
    width: float
    draw: Callable[["Axes", int], None]
    sacrifice: int = 0


@dataclass(frozen=True)
class ColumnGroup:
    """Columns that belong together.

    Arguments:
        name: What stands above them.
        columns: From left to right.
        captions: For each input what stands below its panels; empty for nothing.
    """

    name: str
    columns: tuple[PanelColumn, ...]
    captions: tuple[str, ...] = ()

    def without(self, sacrifice: int) -> "ColumnGroup":
        """The same with no column of this number or a higher one."""
        kept = tuple(column for column in self.columns if column.sacrifice < sacrifice)
        return replace(self, columns=kept)


def panel_aspect(images: Tensor) -> float:
    """Width of an image's panel in heights; very wide or high images do not fill theirs."""
    return float(min(max(images.shape[-1] / images.shape[-2], 0.6), 1.7))


def mosaic(
    samples: Float[Tensor, "n c h w"], *, lines: int, columns: int
) -> Float[Tensor, "c _ _"]:
    """One image of several, line by line, with white between them and in place of missing ones.

    Example:
        >>> mosaic(torch.zeros(3, 1, 50, 50), lines=2, columns=2).shape  # with 4 pixels between
        torch.Size([1, 104, 104])
    """
    _, channels, height, width = samples.shape
    gap = _sample_gap(height)
    extent = _mosaic_size(height, width, lines, columns)
    sheet = samples.new_ones(channels, *extent)
    for k, sample in enumerate(samples[: lines * columns]):
        line, column = divmod(k, columns)
        top, left = line * (height + gap), column * (width + gap)
        sheet[:, top : top + height, left : left + width] = sample
    return sheet


def _sample_gap(height: int) -> int:
    return max(1, round(SAMPLE_GAP * height))


def _mosaic_size(height: int, width: int, lines: int, columns: int) -> tuple[int, int]:
    gap = _sample_gap(height)
    return lines * (height + gap) - gap, columns * (width + gap) - gap


def sample_column(samples: Samples, *, lines: int, columns: int, heading: str = "") -> PanelColumn:
    """The first samples of each input, in lines below one another."""

    def draw(axes: "Axes", i: int) -> None:
        shown = mosaic(samples[:, i], lines=lines, columns=columns)
        draw_pixels(axes, pixels(shown))
        axes.set_anchor("W")

    height, width = _mosaic_size(samples.shape[-2], samples.shape[-1], lines, columns)
    return PanelColumn(heading, width / height, draw)


@dataclass(frozen=True)
class InputRows:
    """Where the rows and columns of a figure stand.

    Arguments:
        images: The inputs, at most 12.
        groups: The columns; at least one group.
        titles: A line per input.
        highest: Height of a panel at most; it is less where the figure would be too large.
        foot: Height of what stands below all rows.

    Raises:
        ShapeError: If there are more inputs than fit, or titles for other ones.
    """

    images: Images
    groups: Sequence[ColumnGroup]
    titles: Sequence[str] | None = None
    highest: float = 1.25
    foot: float = 0.0

    def __post_init__(self) -> None:
        n = len(self.images)
        if not 1 <= n <= MOST_INPUTS:
            raise ShapeError(
                f"`observed` must have 1 to {MOST_INPUTS} inputs: got {n}. Observe some of them, "
                f"x[:{MOST_INPUTS}]."
            )
        if self.titles is not None and len(self.titles) != n:
            raise ShapeError(f"`titles` must be one line per input, {n}: got {len(self.titles)}.")

    @property
    def tile(self) -> float:
        """Height of a panel, such that all fit on the figure."""
        units = panel_aspect(self.images)
        units += sum(column.width for group in self.groups for column in group.columns)
        gaps = sum(GUTTER + GAP * (len(group.columns) - 1) for group in self.groups)
        wide = (WIDEST - 2 * MARGIN - gaps) / units
        high = (TALLEST - HEADINGS - self.foot) / len(self.images) - self._extra
        return min(wide, high, self.highest)

    @property
    def width(self) -> float:
        """Of the figure."""
        return self.lefts[-1][-1] + self.groups[-1].columns[-1].width * self.tile + MARGIN

    @property
    def height(self) -> float:
        """Of the figure."""
        return HEADINGS + len(self.images) * (self.tile + self._extra) + self.foot

    @property
    def lefts(self) -> list[tuple[float, ...]]:
        """Left ends of the columns, group by group."""
        tile = self.tile
        left = MARGIN + panel_aspect(self.images) * tile
        found = []
        for group in self.groups:
            widths = [column.width * tile + GAP for column in group.columns]
            found.append(tuple(accumulate(widths[:-1], initial=left + GUTTER)))
            left += GUTTER + sum(widths) - GAP
        return found

    @property
    def _extra(self) -> float:
        """What a row is higher than its panels."""
        title = 0.0 if self.titles is None else TITLE
        caption = CAPTION if any(group.captions for group in self.groups) else 0.0
        return title + caption + SPACE

    def draw(self, draw_foot: Callable[[Sheet, float], None] | None = None) -> "Figure":
        """Draw everything; the footer receives the position of its upper edge."""
        with sheet(self.width, self.height) as page:
            self._write_headings(page)
            for i in range(len(self.images)):
                self._draw_row(page, i)
            if draw_foot is not None:
                draw_foot(page, self.height - self.foot)
        return page.canvas

    def _write_headings(self, page: Sheet) -> None:
        page.write(MARGIN, 0.17, "input", fontweight="bold")
        for group, lefts in zip(self.groups, self.lefts, strict=True):
            end = lefts[-1] + group.columns[-1].width * self.tile
            room = max(end - lefts[0], 0.6) + GUTTER - GAP
            page.write(lefts[0], 0.17, group.name, fontweight="bold", room=room)
            ends = [*lefts[1:], end + GUTTER]
            for column, left, stop in zip(group.columns, lefts, ends, strict=True):
                style = {"fontsize": 7.5, "color": QUIET}
                page.write(left, 0.37, column.heading, room=stop - left - GAP, **style)

    def _draw_row(self, page: Sheet, i: int) -> None:
        tile = self.tile
        top = HEADINGS + i * (tile + self._extra)
        if self.titles is not None:
            room = page.width - 2 * MARGIN
            page.write(MARGIN, top + TITLE / 2, self.titles[i], fontsize=8.5, room=room)
            top += TITLE
        photo = page.panel(MARGIN, top, panel_aspect(self.images) * tile, tile)
        draw_photo(photo, self.images[i])
        for group, lefts in zip(self.groups, self.lefts, strict=True):
            for column, left in zip(group.columns, lefts, strict=True):
                column.draw(page.panel(left, top, column.width * tile, tile), i)
            if group.captions:
                below = top + tile + CAPTION / 2
                page.write(lefts[0], below, group.captions[i], fontsize=7, color=QUIET)


def check_same_images(groups: Mapping[str, Observed]) -> Images:
    """The images that all methods were shown; raises if there are none, or others."""
    if not 1 <= len(groups) <= MOST_METHODS:
        raise ArgumentError(
            f"`groups` must hold 1 to {MOST_METHODS} methods: got {len(groups)}. Draw several "
            "figures."
        )
    first, *others = groups.values()
    if not all(_are_same(first.images, other.images) for other in others):
        raise ArgumentError(
            "`groups` must hold what methods make of the same images: got different ones. "
            "Observe each method with one batch."
        )
    return first.images


def _are_same(one: Images, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=0, atol=ROUNDING)
