"""One order of views for all images: what φ starts from, and what it has to beat."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.frozen.table import ViewTable
from instaaug.objectives import Loss

__all__ = ["greedy_order"]

ROWS_AT_ONCE = 256


@torch.no_grad()
def greedy_order(
    table: ViewTable, loss: Loss, n: int, *, confidence: Float[Tensor, "images k"] | None = None
) -> list[int]:
    """The image first, then always the view that lowers the loss of the merged output most.

    Arguments:
        table: Outputs for the image and all other views.
        loss: One loss per image, from merged outputs and targets.
        n: How many views to order; the rest are left out.
        confidence: How much each view counts; None for equally.

    Returns:
        Numbers of the views that follow the image, which is 0 and not among them.
    """
    k = table.outputs.shape[1]
    weight = torch.ones(len(table), k) if confidence is None else confidence
    index = torch.arange(len(table))
    blocks = [_Block(table, weight, rows) for rows in index.split(ROWS_AT_ONCE)]
    order: list[int] = []
    for _ in range(min(n, k) - 1):
        rest = [view for view in range(1, k) if view not in order]
        losses = sum(block.losses_with(rest, loss) for block in blocks)
        assert isinstance(losses, Tensor)  # noqa: S101  # there is a block
        order.append(rest[int(losses.argmin())])
        for block in blocks:
            block.add(order[-1])
    return order


class _Block:
    """Some of the images, and the sum over the views chosen so far."""

    def __init__(self, table: ViewTable, weight: Tensor, rows: Tensor) -> None:
        self.outputs, self.targets = table.outputs_of(rows), table.targets[rows]
        self.weight = weight[rows]
        self.total = torch.zeros_like(self.outputs[:, 0])
        self.mass = torch.zeros_like(self.weight[:, 0])
        self.add(0)

    def add(self, view: int) -> None:
        self.total, self.mass = self._sum_with(view)

    def losses_with(self, views: list[int], loss: Loss) -> Float[Tensor, " views"]:
        """The loss, summed over images, if each of these views were the next."""
        values = []
        for view in views:
            total, mass = self._sum_with(view)
            values.append(loss(total / _wide(mass, total), self.targets).sum())
        return torch.stack(values)

    def _sum_with(self, view: int) -> tuple[Tensor, Tensor]:
        weight = self.weight[:, view]
        outputs = self.outputs[:, view]
        return self.total + _wide(weight, outputs) * outputs, self.mass + weight


def _wide(value: Tensor, like: Tensor) -> Tensor:
    return value.view(-1, *[1] * (like.ndim - 1))
