"""Boxes that move a little, so that a model meets all places and sizes between those of a grid."""

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from typing_extensions import override

from instaaug.parameterizations.crop_grid import CropGrid

__all__ = ["LooseBoxes"]


class LooseBoxes(nn.Module):
    """Moves boxes uniformly within their cells, and makes them larger or smaller.

    A size is drawn from half-way to the next smaller size of the grid to half-way to the next
    larger one; none is smaller than the smallest or larger than the largest. Boxes stay within
    the limits of the grid.

    Arguments:
        grid: The boxes.

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

    cells: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, grid: CropGrid) -> None:
        super().__init__()
        self.max_outside = grid.max_outside
        extents = grid.boxes[:, 2:]
        ends = [_neighbors(column) for column in extents.unbind(dim=1)]
        least, most = (torch.stack(side, dim=1) for side in zip(*ends, strict=True))
        for name, buffer in (("cells", grid.cells), ("least", least), ("most", most)):
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
        least, most = self.least[index].to(boxes), self.most[index].to(boxes)
        extent = torch.lerp(least, most, drawn[..., 2:])
        limit = 1 + (self.max_outside - 0.5) * extent
        center = boxes[..., :2] + (drawn[..., :2] - 0.5) * self.cells[index].to(boxes)
        return torch.cat([center.clamp(-limit, limit), extent], dim=-1)


def _neighbors(extents: Float[Tensor, " k"]) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """Of every extent, half-way to the next smaller and the next larger one."""
    sizes, which = extents.unique(return_inverse=True)
    middles = (sizes[1:] + sizes[:-1]) / 2
    return torch.cat([sizes[:1], middles])[which], torch.cat([middles, sizes[-1:]])[which]
