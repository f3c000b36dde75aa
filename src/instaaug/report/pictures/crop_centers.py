"""Where crops lie: the density of their centers, over the photo."""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.functional.warp import pixel_centers
from instaaug.report.pictures.photo_panels import Image, draw_pixels, pixels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DENSITIES", "center_density", "draw_centers", "sampled_density"]

DENSITIES = "inferno"
SPREAD = 0.5  # of the grid's spacing: neighbors melt into one another, and no further
NARROWEST = 0.05  # spread of a drawn center, in the normalized frame


def center_density(
    probs: Float[Tensor, " k"], boxes: Float[Tensor, "k 4"], *, height: int, width: int
) -> Float[Tensor, "height width"]:
    """The density of crop centers at every pixel: a mixture of one Gaussian per box.

    A Gaussian is half as wide as the distance between neighbors on its grid, so that a uniform
    choice looks flat. A box without neighbors of its size spreads over half its own side: the
    whole image says next to nothing about a place.

    Arguments:
        probs: Probability of each box.
        boxes: Center x, center y, width and height in the normalized frame.
        height: Of the result, in pixels.
        width: Likewise.

    Example:
        >>> boxes = torch.tensor([[-0.5, 0.0, 1.0, 1.0], [0.5, 0.0, 1.0, 1.0]])
        >>> density = center_density(torch.tensor([0.9, 0.1]), boxes, height=2, width=4)
        >>> density.argmax(dim=1)  # in the left half
        tensor([1, 1])
    """
    spread = SPREAD * _spacing(boxes)
    return _mixture(probs, boxes, spread, height=height, width=width)


def _mixture(
    probs: Float[Tensor, " k"],
    boxes: Float[Tensor, "k 4"],
    spread: Float[Tensor, "k 2"],
    *,
    height: int,
    width: int,
) -> Float[Tensor, "height width"]:
    along_x, along_y = (
        torch.exp(-0.5 * ((pixel_centers(n, like=boxes) - c[:, None]) / s[:, None]) ** 2)
        / s[:, None]
        for n, c, s in zip((width, height), boxes.T[:2], spread.T, strict=True)
    )
    return torch.einsum("k,kh,kw->hw", probs, along_y, along_x) / (2 * torch.pi)


def _spacing(boxes: Float[Tensor, "k 4"]) -> Float[Tensor, "k 2"]:
    """Distance of neighbors among the boxes of one size, per axis; else the box's own extent."""
    spacing = boxes[:, 2:].clone()
    for extent in boxes[:, 2:].unique(dim=0):
        members = (boxes[:, 2:] == extent).all(dim=1)
        for axis in (0, 1):
            places = boxes[members, axis].unique()
            if len(places) > 1:
                spacing[members, axis] = places.diff().min()
    return spacing.clamp(min=1e-3)


def sampled_density(
    boxes: Float[Tensor, "n 4"], *, height: int, width: int
) -> Float[Tensor, "height width"]:
    """The density of the centers of boxes that were drawn: Gaussians as wide as Scott's rule says.

    Arguments:
        boxes: Drawn boxes, center x and center y first.
        height: Of the result, in pixels.
        width: Likewise.
    """
    n = len(boxes)
    spread = boxes[:, :2].std(dim=0, correction=0) * n ** (-1 / 6)
    spread = spread.clamp(min=NARROWEST).expand(n, 2)
    return _mixture(torch.full((n,), 1 / n), boxes, spread, height=height, width=width)


def draw_centers(axes: "Axes", image: Image, density: Float[Tensor, "h w"]) -> None:
    """The density over the photo in dark gray; where there is none, the photo alone."""
    relative = density / density.max()
    draw_pixels(axes, 0.1 + 0.4 * pixels(image.mean(dim=0, keepdim=True)))
    strength = 0.75 * relative**0.7
    axes.imshow(relative.numpy(), cmap=DENSITIES, vmin=0, vmax=1, alpha=strength.numpy())
