"""Matrices that send points of the output image to points of the input image.

All of them live in the normalized frame: both axes span [-1, 1], x to the right, y downwards.
They map *output* to *input* coordinates, which is the direction a warp needs; invert one to see
where content moves to. ``aspect`` is width / height, so that a rotation stays a rotation on an
image that is not square.
"""

import torch
from torch import Tensor

from instaaug.shapes import Matrices, Rows, Scalars, at_least_float32, constant

__all__ = [
    "box_matrix",
    "from_entries",
    "inverse",
    "lie_matrix",
    "perspective_matrix",
    "product",
    "rotation_matrix",
    "scale_matrix",
    "shear_matrix",
    "to_physical_frame",
    "translation_matrix",
]


def from_entries(*entries: Scalars | float) -> Matrices:
    """Stack nine entries, row by row, into a batch of matrices; numbers are broadcast."""
    like = next(e for e in entries if isinstance(e, Tensor))
    full = [e if isinstance(e, Tensor) else torch.full_like(like, e) for e in entries]
    return torch.stack(full, dim=-1).unflatten(-1, (3, 3))


def product(first: Matrices, second: Matrices) -> Matrices:
    """Matrix product as a plain sum: autocast would do ``@`` in low precision."""
    return (first[..., None] * second[..., None, :, :]).sum(dim=-2)


def inverse(matrix: Matrices) -> Matrices:
    """Where the content goes; in float32 at least, for lower precisions have no inverse."""
    return torch.linalg.inv(at_least_float32(matrix))


def to_physical_frame(matrix: Matrices, aspect: float) -> Matrices:
    """Let a matrix written for a square image act on one of ``aspect`` = width / height."""
    if aspect == 1.0:
        return matrix
    stretch = constant((aspect, 1.0, 1.0), like=matrix)
    return matrix * stretch / stretch[:, None]


def rotation_matrix(angle: Scalars, *, aspect: float = 1.0) -> Matrices:
    """Turn the content by ``angle`` radians, counterclockwise as seen on the screen.

    Example:
        >>> rotation_matrix(torch.tensor([torch.pi / 2])).round().int()[0, :2, :2].tolist()
        [[0, -1], [1, 0]]
    """
    c, s = angle.cos(), angle.sin()
    return to_physical_frame(from_entries(c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0), aspect)


def translation_matrix(shift: Rows) -> Matrices:
    """Move the content by ``shift`` = (right, down), as fractions of the image side."""
    x, y = shift.unbind(-1)
    return from_entries(1.0, 0.0, -2 * x, 0.0, 1.0, -2 * y, 0.0, 0.0, 1.0)


def scale_matrix(factor: Rows) -> Matrices:
    """Enlarge the content by ``factor`` = (horizontal, vertical); negative factors mirror it."""
    x, y = factor.unbind(-1)
    return from_entries(1 / x, 0.0, 0.0, 0.0, 1 / y, 0.0, 0.0, 0.0, 1.0)


def shear_matrix(shear: Rows, *, aspect: float = 1.0) -> Matrices:
    """Slant the content: a point (x, y) moves to (x + a·y, y + b·x) for ``shear`` = (a, b)."""
    a, b = shear.unbind(-1)
    scale = 1 / (1 - a * b)
    matrix = from_entries(scale, -a * scale, 0.0, -b * scale, scale, 0.0, 0.0, 0.0, 1.0)
    return to_physical_frame(matrix, aspect)


def perspective_matrix(tilt: Rows) -> Matrices:
    """Tilt the image plane: the homogeneous coordinate is 1 + a·x + b·y for ``tilt`` = (a, b)."""
    a, b = tilt.unbind(-1)
    return from_entries(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, a, b, torch.ones_like(a))


def box_matrix(box: Rows) -> Matrices:
    """Blow a box (center x, center y, width, height) up to the whole image; the full width is 2.

    Example:
        >>> box_matrix(torch.tensor([[-0.5, -0.5, 1.0, 1.0]]))[0]  # the upper left quarter
        tensor([[ 0.5000,  0.0000, -0.5000],
                [ 0.0000,  0.5000, -0.5000],
                [ 0.0000,  0.0000,  1.0000]])
    """
    x, y, width, height = box.unbind(-1)
    return from_entries(width / 2, 0.0, x, 0.0, height / 2, y, 0.0, 0.0, 1.0)


def lie_matrix(coordinates: Rows, *, aspect: float = 1.0) -> Matrices:
    r"""Exponential of a combination of the six generators of the affine group.

    The content moves by :math:`\exp(\sum_k c_k G_k)` with :math:`c` = (right, down, turn, grow,
    stretch, slant); the returned matrix is the inverse, :math:`\exp(-\sum_k c_k G_k)`. Right and
    down are fractions of the image's width and height.

    References:
        | Learning Invariances in Neural Networks (Benton et al., 2020)
        | https://arxiv.org/abs/2010.11882
    """
    right, down, turn, grow, stretch, slant = coordinates.double().unbind(-1)
    algebra = from_entries(
        -grow - stretch, -turn - slant, -2 * aspect * right,
        turn - slant, -grow + stretch, -2 * down,
        0.0, 0.0, 0.0,
    )  # fmt: skip
    # In float32 a row alone and in a batch differ by 3e-5; below, matrix_exp returns nonsense.
    matrix = torch.linalg.matrix_exp(algebra)
    return to_physical_frame(matrix, aspect).to(coordinates.dtype)
