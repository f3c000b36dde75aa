"""Columns of a figure that has an input per row."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Column", "ColumnGroup", "shown_aspect"]


@dataclass(frozen=True)
class Column:
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
    columns: tuple[Column, ...]
    captions: tuple[str, ...] = ()

    def without(self, sacrifice: int) -> "ColumnGroup":
        """The same with no column of this number or a higher one."""
        kept = tuple(column for column in self.columns if column.sacrifice < sacrifice)
        return replace(self, columns=kept)


def shown_aspect(images: Tensor) -> float:
    """Width of an image's panel in heights; very wide or high images do not fill theirs."""
    return float(min(max(images.shape[-1] / images.shape[-2], 0.6), 1.7))
