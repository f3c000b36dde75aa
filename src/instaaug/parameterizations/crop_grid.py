"""The boxes that φ chooses from: one per unit of its feature maps."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import log
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks import make_network, receptive_fields
from instaaug.spaces import Boxes, Level, check_levels

__all__ = ["CropGrid", "GridLevel"]

NARROW = 0.01  # a width that leaves every layer of a named network a channel or two


@dataclass(frozen=True)
class GridLevel:
    """Boxes of one size at regular places; row i, column j is centered at (``xs[j]``, ``ys[i]``).

    Arguments:
        width: Of the boxes, in the normalized frame, where the image has width 2.
        height: Of the boxes, in the normalized frame, where the image has height 2.
        xs: Centers of the columns, left to right.
        ys: Centers of the rows, top to bottom.
        cell: Width and height of the cell that a box may move in; 0 along an axis with one place.
        layer: Which feature map has these units; ``None`` lets the head choose.
    """

    width: float
    height: float
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    cell: tuple[float, float]
    layer: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.ys), len(self.xs)


class CropGrid:
    r"""A list of levels, each of n × n boxes of one size.

    Unit (row i, column j) of a level stands for the box centered at x = c_j, y = c_i. At 64 × 64
    pixels the paper's grid is 16 × 16 boxes of 0.375 of the side, 8 × 8 of 0.75, and the whole
    image.

    Arguments:
        levels: Pairs (size, n): ``n`` × ``n`` boxes of that fraction of the image side, centered
            in the cells of an n × n division of the image.
        max_outside: Share of a box, per axis, that may lie outside of the image. Boxes beyond are
            moved inwards.
        whole_height: Whether every box is as high as the image: then a level has ``n`` boxes in a
            row, whose width is the size.

    Example:
        >>> grid = CropGrid([(0.375, 16), (0.75, 8), (1.0, 1)])
        >>> len(grid), round(grid.max_entropy, 2)
        (321, 5.77)
        >>> grid.boxes[0]  # row 0, column 0 of the first level: the upper left
        tensor([-0.9375, -0.9375,  0.7500,  0.7500])
        >>> CropGrid([(0.5, 3), (1.0, 1)], max_outside=0.0, whole_height=True)
        CropGrid(4 boxes (1×3 of 1×0.5, whole))
    """

    def __init__(
        self, levels: Sequence[Level], *, max_outside: float = 1.0, whole_height: bool = False
    ) -> None:
        check_levels(levels)
        if not 0.0 <= max_outside <= 1.0:
            raise ArgumentError(
                f"`max_outside` must be a share in [0, 1]: got {max_outside}. "
                "0 keeps every box inside of the image."
            )
        grid_levels = []
        for size, n in levels:
            centers = tuple((2 * i + 1) / n - 1 for i in range(n))
            cell = 0.0 if n == 1 else 2 / n
            height, ys, up = (2.0, (0.0,), 0.0) if whole_height else (2 * size, centers, cell)
            grid_levels.append(GridLevel(2 * size, height, centers, ys, (cell, up)))
        self.max_outside = max_outside
        self.levels = tuple(_move_inwards(level, max_outside) for level in grid_levels)

    @classmethod
    def of(cls, space: Boxes) -> "CropGrid":
        """The boxes of a space."""
        return cls(space.levels, max_outside=space.max_outside, whole_height=space.whole_height)

    @classmethod
    def from_receptive_fields(
        cls,
        network: nn.Module | str,
        image_size: int | tuple[int, int],
        *,
        layers: Sequence[int] | None = None,
        in_channels: int = 3,
        whole: bool = True,
        max_outside: float = 1.0,
    ) -> "CropGrid":
        """The boxes that units of ``network`` really see, by its kernels, strides and paddings.

        φ with the same network reads the logit of a box from the very unit that sees it.

        Arguments:
            network: The name of a network, or a module that returns a list of feature maps.
            image_size: Side, or (height, width), of the images.
            layers: Which of the maps to use, numbered from 0, finest first; by default all whose
                units see less than the image.
            in_channels: Channels of the images.
            whole: Whether to add the whole image as a level of its own.
            max_outside: Share of a box that may lie outside; below 1, boxes near the edges are
                moved inwards and are no longer what their units see.

        Example:
            >>> CropGrid.from_receptive_fields("pyramid", 64, layers=[1, 2])
            CropGrid(321 boxes (16×16 of 0.359, 8×8 of 0.734, whole), receptive fields of maps 1
            and 2)
        """
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        if isinstance(network, str):  # a narrow one sees as much
            network = make_network(network, in_channels=in_channels, width=NARROW)
        fields = receptive_fields(network, (height, width), in_channels=in_channels, layers=layers)
        numbered = list(enumerate(fields) if layers is None else zip(layers, fields, strict=True))
        if layers is None:
            numbered = [(n, (v, h)) for n, (v, h) in numbered if v.size < height or h.size < width]
        grid = cls([(1.0, 1)], max_outside=max_outside)
        levels = [] if not whole else list(grid.levels)
        for layer, (vertical, horizontal) in numbered:
            level = GridLevel(
                width=2 * min(horizontal.size, width) / width,
                height=2 * min(vertical.size, height) / height,
                xs=tuple(2 * horizontal.center(j) / width - 1 for j in range(horizontal.n_units)),
                ys=tuple(2 * vertical.center(i) / height - 1 for i in range(vertical.n_units)),
                cell=(
                    2 * horizontal.stride / width if horizontal.n_units > 1 else 0.0,
                    2 * vertical.stride / height if vertical.n_units > 1 else 0.0,
                ),
                layer=layer,
            )
            levels.append(_move_inwards(level, max_outside))
        if not numbered and (layers is None or not whole):
            raise ArgumentError(
                "`layers` must name at least one map whose units see less than the image: there "
                f"is none among {len(fields)} for images of {height} × {width} pixels. Choose a "
                "network whose units see less, or larger images."
            )
        grid.levels = tuple(sorted(levels, key=lambda level: level.width))
        return grid

    def to_config(self) -> dict[str, Any]:
        """Every number, ready for JSON; :meth:`from_config` reads it back."""
        return {
            "levels": [asdict(level) for level in self.levels],
            "max_outside": self.max_outside,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "CropGrid":
        """Build the grid that :meth:`to_config` described."""
        grid = cls([(1.0, 1)], max_outside=config["max_outside"])
        grid.levels = tuple(_level_from(level) for level in config["levels"])
        return grid

    def __len__(self) -> int:
        return sum(rows * columns for rows, columns in (level.shape for level in self.levels))

    def __repr__(self) -> str:
        return f"CropGrid({self.description})"

    @property
    def description(self) -> str:
        """The levels in words."""
        parts = [
            "whole" if level.shape == (1, 1) and _is_whole(level) else _describe(level)
            for level in self.levels
        ]
        maps = sorted({level.layer for level in self.levels if level.layer is not None})
        words = f", receptive fields of {_name_maps(maps)}" if maps else ""
        return f"{len(self)} boxes ({', '.join(parts)}){words}"

    @property
    def max_entropy(self) -> float:
        """Entropy in nats of the uniform choice, log K."""
        return log(len(self))

    @cached_property
    def boxes(self) -> Float[Tensor, "k 4"]:
        """Center x, center y, width, height of every box, level by level, row by row."""
        rows = [
            (x, y, level.width, level.height)
            for level in self.levels
            for y in level.ys
            for x in level.xs
        ]
        return torch.tensor(rows)

    @cached_property
    def cells(self) -> Float[Tensor, "k 2"]:
        """Width and height of the cell that each box may move in."""
        rows = [
            level.cell for level in self.levels for _ in range(level.shape[0] * level.shape[1])
        ]
        return torch.tensor(rows)

    @cached_property
    def center_limits(self) -> Float[Tensor, "k 2"]:
        """How far from the middle each center may lie, per axis."""
        return 1 + (self.max_outside - 0.5) * self.boxes[:, 2:]


def _move_inwards(level: GridLevel, max_outside: float) -> GridLevel:
    """Draw centers together until at most ``max_outside`` of a box lies beyond the border.

    All centers of a level shrink alike: moving only those beyond the limit would pile boxes up
    there, and copies of one box would count as diversity.
    """

    def share(centers: tuple[float, ...], extent: float) -> float:
        farthest = max(abs(c) for c in centers)
        limit = 1 + (max_outside - 0.5) * extent
        return min(1.0, limit / farthest) if farthest else 1.0

    right, down = share(level.xs, level.width), share(level.ys, level.height)
    return replace(
        level,
        xs=tuple(right * x for x in level.xs),
        ys=tuple(down * y for y in level.ys),
        cell=(right * level.cell[0], down * level.cell[1]),
    )


def _level_from(config: Mapping[str, Any]) -> GridLevel:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in config.items()
    }
    return GridLevel(**values)


def _describe(level: GridLevel) -> str:
    rows, columns = level.shape
    width, height = f"{level.width / 2:.3g}", f"{level.height / 2:.3g}"
    return f"{rows}×{columns} of {width if width == height else f'{height}×{width}'}"


def _name_maps(maps: Sequence[int]) -> str:
    if len(maps) == 1:
        return f"map {maps[0]}"
    return f"maps {', '.join(map(str, maps[:-1]))} and {maps[-1]}"


def _is_whole(level: GridLevel) -> bool:
    return min(level.width, level.height) >= 2
