"""Sampling an image through a matrix: the only place that knows about ``grid_sample``."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from instaaug.shapes import Images, Matrices, Rendered, at_least_float32

__all__ = ["PaddingMode", "pixel_centers", "replace_rows", "sampling_grid", "warp"]

PaddingMode = Literal["zeros", "border", "reflection"]


def pixel_centers(n: int, *, like: Tensor) -> Float[Tensor, " n"]:
    """Coordinates of ``n`` pixel centers on an axis that spans [-1, 1].

    Example:
        >>> pixel_centers(4, like=torch.zeros(1))
        tensor([-0.7500, -0.2500,  0.2500,  0.7500])
    """
    return (torch.arange(n, device=like.device, dtype=like.dtype) * 2 + 1) / n - 1


def sampling_grid(
    matrix: Matrices, *, height: int, width: int, projective: bool = False
) -> Float[Tensor, "batch height width 2"]:
    """Where each output pixel looks in the input.

    The grid is a sum of one term per row and one per column, so that broadcasting builds it in a
    single pass; ``affine_grid`` multiplies matrices for every pixel instead and takes most of the
    time of a warp. The two coordinates are planes of one tensor, a layout that ``grid_sample``
    reads as fast as the interleaved one.
    """
    x = pixel_centers(width, like=matrix)
    y = pixel_centers(height, like=matrix)
    rows = 3 if projective else 2
    along_x = matrix[:, :rows, 0, None] * x + matrix[:, :rows, 2, None]
    along_y = matrix[:, :rows, 1, None] * y
    planes = along_x[:, :, None, :] + along_y[:, :, :, None]
    if projective:
        planes = planes[:, :2] / planes[:, 2:].clamp(min=1e-3)
    return planes.permute(0, 2, 3, 1)


def warp(
    x: Images,
    matrix: Matrices,
    *,
    padding_mode: PaddingMode = "zeros",
    mode: Literal["bilinear", "nearest"] = "bilinear",
    projective: bool = False,
    size: tuple[int, int] | None = None,
) -> Rendered:
    """Sample ``x`` through ``matrix``, which sends output to input coordinates.

    An identity matrix gives ``x`` back to the last bit, with the gradient of the interpolation.
    Four input pixels make an output pixel: where more than 2 × 2 pixels of the input fall on one,
    fine texture turns into noise.

    Arguments:
        x: Images.
        matrix: One matrix per image, in the normalized frame.
        padding_mode: What lies outside of the image.
        mode: Interpolation; ``"nearest"`` for masks of labels.
        projective: Whether the last row may differ from (0, 0, 1).
        size: Height and width of the output; those of ``x`` by default.

    Example:
        >>> x = torch.arange(4.0).view(1, 1, 2, 2)
        >>> quarter_turn = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
        >>> warp(x, quarter_turn)[0, 0]  # counterclockwise
        tensor([[1., 3.],
                [0., 2.]])
    """
    own_size = (x.shape[-2], x.shape[-1])
    height, width = own_size if size is None else size
    wide = at_least_float32(x)
    matrix = matrix.to(wide.dtype)
    grid = sampling_grid(matrix, height=height, width=width, projective=projective)
    out = F.grid_sample(wide, grid, mode=mode, padding_mode=padding_mode, align_corners=False)
    exact = _has_exact_centers(height) and _has_exact_centers(width)
    if not exact and own_size == (height, width):
        out = _restore_identity(out, wide, matrix)
    return out.to(x.dtype)


def _has_exact_centers(n: int) -> bool:
    """Whether pixel centers are dyadic, so that the identity grid hits them without rounding."""
    return n & (n - 1) == 0


def _restore_identity(out: Images, x: Images, matrix: Matrices) -> Images:
    eye = torch.eye(3, device=matrix.device, dtype=matrix.dtype)
    unmoved = (matrix.detach() == eye).all(dim=-1).all(dim=-1)
    return replace_rows(out, unmoved, lambda rows: x[rows])


def replace_rows(
    out: Images, flags: Bool[Tensor, " batch"], exact: Callable[[Tensor | slice], Tensor]
) -> Images:
    """``out``, but flagged images have the value of ``exact``; all keep the gradient of ``out``.

    On a CPU only the flagged images are made again. Elsewhere, to count them would make the
    host wait for the device, so that all images pay for a selection.

    Arguments:
        out: Freshly made images; changed in place.
        flags: Which images to replace.
        exact: Gives the images of an index.
    """
    if out.device.type != "cpu" or torch.compiler.is_compiling():
        with torch.no_grad():
            value = exact(slice(None))
        value = value + (out - out.detach())
        return torch.where(flags[:, None, None, None], value, out)
    rows = flags.nonzero().flatten()
    if len(rows):
        with torch.no_grad():
            out.index_copy_(0, rows, exact(rows))
    return out
