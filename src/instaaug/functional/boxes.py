"""Boxes (center x, center y, width, height) in the normalized frame, whose full width is 2."""

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.functional.affine import inverse
from instaaug.functional.warp import pixel_centers
from instaaug.shapes import Matrices, Rows

__all__ = ["box_iou", "coverage", "full_height", "move_boxes", "move_points", "square_box"]


def coverage(box: Rows, *, height: int, width: int) -> Float[Tensor, "batch 1 height width"]:
    """Share of each pixel that the box covers; differentiable in the box.

    Example:
        >>> left_half = torch.tensor([[-0.5, 0.0, 1.0, 2.0]])
        >>> coverage(left_half, height=1, width=4)[0, 0]
        tensor([[1., 1., 0., 0.]])
    """
    x = _axis_coverage(box[:, 0], box[:, 2], width)
    y = _axis_coverage(box[:, 1], box[:, 3], height)
    return (y[:, :, None] * x[:, None, :]).unsqueeze(1)


def _axis_coverage(
    center: Float[Tensor, " batch"], extent: Float[Tensor, " batch"], n: int
) -> Float[Tensor, "batch n"]:
    pixels = pixel_centers(n, like=center)
    first = (center - extent / 2)[:, None].maximum(pixels - 1 / n)
    last = (center + extent / 2)[:, None].minimum(pixels + 1 / n)
    return (last - first).clamp(min=0) * (n / 2)


def move_points(
    points: Float[Tensor, "batch n 2"], matrix: Matrices
) -> Float[Tensor, "batch n 2"]:
    """Where points of the input land in the output, given the output-to-input ``matrix``."""
    forward = inverse(matrix).to(points.dtype)
    turned = (points[..., None, :] * forward[:, None, :, :2]).sum(dim=-1)
    moved = turned + forward[:, None, :, 2]
    return moved[..., :2] / moved[..., 2:]


def move_boxes(boxes: Float[Tensor, "batch n 4"], matrix: Matrices) -> Float[Tensor, "batch n 4"]:
    """The smallest upright boxes around where the boxes of the input land in the output."""
    signs = boxes.new_tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    corners = boxes[:, :, None, :2] + signs * boxes[:, :, None, 2:]
    moved = move_points(corners.flatten(1, 2), matrix).unflatten(1, (-1, 4))
    low, high = moved.amin(dim=2), moved.amax(dim=2)
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def box_iou(a: Float[Tensor, "*n 4"], b: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n"]:
    """Intersection over union of boxes, pair by pair.

    Example:
        >>> whole, left = torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([-0.5, 0.0, 1.0, 2.0])
        >>> box_iou(whole, left)
        tensor(0.5000)
    """
    low = (a[..., :2] - a[..., 2:] / 2).maximum(b[..., :2] - b[..., 2:] / 2)
    high = (a[..., :2] + a[..., 2:] / 2).minimum(b[..., :2] + b[..., 2:] / 2)
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (a[..., 2:].prod(dim=-1) + b[..., 2:].prod(dim=-1) - shared)


def square_box(side: Float[Tensor, "*n 1"], place: Float[Tensor, "*n 2"]) -> Float[Tensor, "*n 4"]:
    """Boxes that lie wholly within the image.

    Arguments:
        side: Width and height of each, as a share of the image side.
        place: In [0, 1], from the leftmost place to the rightmost and from the top to the bottom.

    Example:
        >>> square_box(torch.tensor([0.5]), torch.tensor([0.0, 1.0]))  # the lower left quarter
        tensor([-0.5000,  0.5000,  1.0000,  1.0000])
    """
    center = (2 * place - 1) * (1 - side)
    return torch.cat([center, 2 * side, 2 * side], dim=-1)


def full_height(box: Float[Tensor, "*n 4"]) -> Float[Tensor, "*n 4"]:
    """Boxes of the same place and width that are as high as the image.

    Example:
        >>> full_height(torch.tensor([-0.5, 0.25, 1.0, 0.5]))
        tensor([-0.5000,  0.0000,  1.0000,  2.0000])
    """
    x, y, width, height = box.unbind(-1)
    return torch.stack([x, torch.zeros_like(y), width, torch.full_like(height, 2)], dim=-1)
