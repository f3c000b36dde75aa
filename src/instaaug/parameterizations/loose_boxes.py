"""Boxes that move a little, so that a model meets all places and sizes between those of a grid."""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.parameterizations.crop_grid import CropGrid
from instaaug.parameterizations.families import equal_sizes

__all__ = ["LooseBoxes", "base_measure"]

NEGLIGIBLE = 1e-6


class LooseBoxes(nn.Module):
    """Moves boxes uniformly within their cells, and makes them larger or smaller.

    A size is drawn from half-way to the next smaller size of the grid to half-way to the next
    larger one; none is smaller than the smallest or larger than the largest. A place is drawn from
    half-way to the neighbors of the same size, and boxes stay within the limits of the grid, so
    that cells at an end have half the room. Boxes drawn with probabilities ``log_shares`` then are
    random crops: of any size, and anywhere, with the same density.

    Arguments:
        grid: The boxes.

    Attributes:
        log_shares: Logarithm of the share of each cell in all sizes and places.

    Example:
        >>> grid = CropGrid([(0.5, 2), (1.0, 1)], max_outside=0.0)
        >>> corner = torch.zeros(1000, dtype=torch.long)
        >>> moved = LooseBoxes(grid)(grid.boxes[corner], corner)
        >>> sides = moved[:, 2] / 2
        >>> 0.5 <= float(sides.min()) < 0.51, 0.74 < float(sides.max()) <= 0.75
        (True, True)
        >>> bool((moved[:, :2].abs() + moved[:, 2:] / 2 <= 1 + 1e-6).all())
        True
    """

    least: Tensor
    most: Tensor
    first: Tensor
    last: Tensor
    outside: Tensor
    log_shares: Tensor

    def __init__(self, grid: CropGrid) -> None:
        super().__init__()
        extents = grid.boxes[:, 2:]
        ends = [_neighbors(column) for column in extents.unbind(dim=1)]
        least, most = (torch.stack(side, dim=1) for side in zip(*ends, strict=True))
        alone = grid.cells == 0  # an only box has all of the room there is inside of the image
        limits = grid.center_limits.clamp(min=NEGLIGIBLE)
        place, reach = grid.boxes[:, :2] / limits, grid.cells / 2 / limits
        buffers = {
            "least": least,
            "most": most,
            "first": (place - reach).clamp(min=-1).where(~alone, -1.0),
            "last": (place + reach).clamp(max=1).where(~alone, 1.0),
            "outside": torch.where(alone, 0.0, grid.max_outside),
        }
        buffers["log_shares"] = _log_shares(grid, buffers)
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    @override
    def forward(
        self,
        boxes: Float[Tensor, "*n 4"],
        index: Int[Tensor, "*n"],
        generator: Generator | None = None,
    ) -> Float[Tensor, "*n 4"]:
        """Move boxes.

        Arguments:
            boxes: Center x, center y, width, height.
            index: Which of the grid each is.
            generator: Decides where to.
        """
        drawn = torch.rand(
            (*index.shape, 3), generator=generator, device=boxes.device, dtype=boxes.dtype
        )
        least, most, first, last, outside = (
            ends[index].to(boxes)
            for ends in (self.least, self.most, self.first, self.last, self.outside)
        )
        extent = torch.lerp(least, most, drawn[..., 2:])
        limit = 1 + (outside - 0.5) * extent
        return torch.cat([torch.lerp(first, last, drawn[..., :2]) * limit, extent], dim=-1)


def base_measure(grid: CropGrid, *, loose: bool) -> Float[Tensor, " k"]:
    """Logarithm of what is drawn where nothing is known: random crops, or all sizes alike.

    Arguments:
        grid: The boxes.
        loose: Whether they move in training.

    Example:
        >>> grid = CropGrid([(0.5, 3), (1.0, 1)], max_outside=0.0)
        >>> base_measure(grid, loose=False)[[0, 4, 9]].exp()  # a corner, the middle, the image
        tensor([0.0556, 0.0556, 0.5000])
        >>> base_measure(grid, loose=True)[[0, 4, 9]].exp()
        tensor([0.0312, 0.1250, 0.5000])
    """
    return LooseBoxes(grid).log_shares if loose else equal_sizes(grid)


def _log_shares(grid: CropGrid, ends: dict[str, Tensor]) -> Float[Tensor, " k"]:
    """Of each size as much as it has room for, shared out among its boxes by theirs."""
    sizes = (ends["most"] - ends["least"]).amax(dim=1)
    sizes = sizes if float(sizes.max()) > 0 else torch.ones_like(sizes)
    places = (ends["last"] - ends["first"]).prod(dim=1)
    counts = [rows * columns for rows, columns in (level.shape for level in grid.levels)]
    shares = [
        size * place / place.sum()
        for size, place in zip(sizes.split(counts), places.split(counts), strict=True)
    ]
    return torch.log_softmax(torch.cat(shares).log(), dim=0)


def _neighbors(extents: Float[Tensor, " k"]) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """Of every extent, half-way to the next smaller and the next larger one."""
    sizes, which = extents.unique(return_inverse=True)
    middles = (sizes[1:] + sizes[:-1]) / 2
    return torch.cat([sizes[:1], middles])[which], torch.cat([middles, sizes[-1:]])[which]
