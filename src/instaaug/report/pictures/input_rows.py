"""A figure with an input per row: the input itself, then groups of columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from instaaug.errors import ShapeError
from instaaug.report.pictures.columns import ColumnGroup, shown_aspect
from instaaug.report.pictures.photo_panels import draw_photo
from instaaug.report.pictures.sheet import Sheet, sheet
from instaaug.shapes import Images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MOST_INPUTS", "InputRows"]

MOST_INPUTS = 12
WIDEST, TALLEST = 16.0, 20.0  # inches, like all that follows
MARGIN, GAP, GUTTER = 0.15, 0.08, 0.25
HEADINGS, TITLE, CAPTION, SPACE = 0.5, 0.22, 0.17, 0.12
QUIET = "#5f6b78"


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
        units = shown_aspect(self.images)
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
        left = MARGIN + shown_aspect(self.images) * tile
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
        """Draw everything; the foot is told where its upper end is."""
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
        photo = page.panel(MARGIN, top, shown_aspect(self.images) * tile, tile)
        draw_photo(photo, self.images[i])
        for group, lefts in zip(self.groups, self.lefts, strict=True):
            for column, left in zip(group.columns, lefts, strict=True):
                column.draw(page.panel(left, top, column.width * tile, tile), i)
            if group.captions:
                below = top + tile + CAPTION / 2
                page.write(lefts[0], below, group.captions[i], fontsize=7, color=QUIET)
