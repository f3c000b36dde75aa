"""How large crops are: the share of them above each size."""

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from instaaug.report.pictures.dials import PALE
from instaaug.report.pictures.sheet import inset
from instaaug.report.theme import BLUE, INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["box_sides", "draw_sizes", "shares_above"]

SAME = 1e-4  # sides that differ by less are one size


def box_sides(boxes: Float[Tensor, "k 4"]) -> Float[Tensor, " k"]:
    """The side of each box, as a share of the image side; of a rectangle, the square's as large.

    Example:
        >>> box_sides(torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]]))
        tensor([1.0000, 0.5000])
    """
    return (boxes[:, 2] * boxes[:, 3]).sqrt() / 2


def shares_above(
    boxes: Float[Tensor, "k 4"], probs: Float[Tensor, " k"]
) -> tuple[Float[Tensor, " sizes"], Float[Tensor, " sizes"]]:
    """The sizes that occur, in order, and the probability of a box at least as large as each.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
        >>> shares_above(boxes, torch.tensor([0.25, 0.75]))
        (tensor([0.5000, 1.0000]), tensor([1.0000, 0.2500]))
    """
    sides, members = (box_sides(boxes) / SAME).round().unique(return_inverse=True)
    mass = probs.new_zeros(len(sides)).index_add(0, members, probs)
    return sides * SAME, mass.flip(0).cumsum(0).flip(0)


def draw_sizes(axes: "Axes", boxes: Float[Tensor, "k 4"], probs: Float[Tensor, " k"]) -> None:
    """For every size the share of crops at least as large: a staircase from 100 % down.

    The mark on the axis is the mean size.

    Arguments:
        axes: Where to draw.
        boxes: The boxes, or all that were drawn.
        probs: How probable each is; equal shares for boxes that were drawn.
    """
    from matplotlib.patheffects import withStroke

    sizes, shares = (values.tolist() for values in shares_above(boxes, probs))
    inset(axes, left=0.27, bottom=0.16, top=0.06, right=0.06)
    edges = [0.0, *sizes]
    axes.stairs(shares, edges, fill=True, color=PALE)
    axes.stairs(shares, edges, color=BLUE, lw=1.8)
    mean = float((box_sides(boxes) * probs).sum())
    halo = [withStroke(linewidth=2, foreground="white")]
    axes.plot([mean, mean], [0, 0.07], color=INK, lw=2.2, solid_capstyle="butt")
    axes.text(0.5, 0.1, f"mean {mean:.2f}", fontsize=6.5, ha="center", path_effects=halo)
    axes.set(xlim=(0, 1.04), ylim=(0, 1.04))
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.set_yticks([0, 0.5, 1], ["0", "50%", "100%"])
    axes.tick_params(labelsize=5.5, length=2, pad=1.5, color=MUTED, labelcolor=INK)
    axes.spines[["left", "bottom"]].set_visible(True)
