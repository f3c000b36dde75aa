"""Maps that a model predicts for views, brought back onto the inputs: segmentation, depth."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.affine import inverse
from instaaug.functional.warp import sampling_grid, warp
from instaaug.shapes import Matrices, at_least_float32

__all__ = ["Back", "Coverage", "check_covered", "view_coverage", "warp_back"]

Coverage = Float[Tensor, "batch 1 height width"]
Back = Callable[[Tensor], tuple[Tensor, Coverage]]
"""From maps of views to maps in the frame of the inputs, and how far each pixel is covered."""


def warp_back(
    maps: Tensor, matrix: Matrices, *, size: tuple[int, int]
) -> tuple[Float[Tensor, "batch channels height width"], Coverage]:
    """Maps of views in the frame of their inputs, and the share of each pixel that a view covers.

    A map spans the whole view, whatever its size: a pixel at (x, y) of the input reads it where
    the view shows that pixel, by bilinear interpolation. Where more than 2 × 2 values of a map
    fall on one pixel, some are not read.

    Arguments:
        maps: What the model returned for the views, ``(N, C, h, w)``.
        matrix: Where each pixel of a view lies in its input.
        size: Height and width of the result, usually those of the inputs.

    Example:
        >>> left_half = torch.tensor([[[0.5, 0.0, -0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
        >>> maps, coverage = warp_back(torch.full((1, 1, 2, 2), 7.0), left_half, size=(1, 4))
        >>> maps * coverage
        tensor([[[[7., 7., 0., 0.]]]])
    """
    if maps.ndim != 4 or not maps.is_floating_point():
        raise ShapeError(
            "`model` must return a map per input, (N, C, h, w) in floating point, for dense=True: "
            f"got {tuple(maps.shape)} of {maps.dtype}. Leave dense out for logits and features."
        )
    to_view = inverse(matrix).to(at_least_float32(maps).dtype)
    back = warp(at_least_float32(maps), to_view, padding_mode="border", projective=True, size=size)
    return back, view_coverage(to_view, size=size)


def view_coverage(to_view: Matrices, *, size: tuple[int, int]) -> Coverage:
    """The share of each pixel of an input that a view shows; for upright boxes it is exact.

    Arguments:
        to_view: Where each pixel of the input lies in the view.
        size: Height and width in pixels of the input.

    Example:
        >>> middle = torch.diag(torch.tensor([2.0, 1.0, 1.0]))[None]  # half of the width
        >>> view_coverage(middle, size=(1, 5))
        tensor([[[[0.0000, 0.7500, 1.0000, 0.7500, 0.0000]]]])
    """
    height, width = size
    place = sampling_grid(to_view, height=height, width=width, projective=True)
    pixel = to_view.new_tensor([2 / width, 2 / height])
    extent = (to_view[:, :2, :2].abs() * pixel).sum(dim=-1)[:, None, None]
    first = (place - extent / 2).clamp(min=-1)
    last = (place + extent / 2).clamp(max=1)
    return ((last - first).clamp(min=0) / extent).prod(dim=-1)[:, None]


def check_covered(mass: Coverage) -> None:
    """Raise if some pixel lies in no view; ``mass`` is the sum of all weights on each."""
    if torch.compiler.is_compiling():
        return
    if mass.device.type != "cpu":
        words = "`dense=True` needs a view on every pixel. Make the whole image a view."
        torch._assert_async((mass > 0).all(), words)  # noqa: SLF001
        return
    missed = ~(mass.detach() > 0)
    if missed.any():
        n_inputs, share = int(missed.flatten(1).any(dim=1).sum()), float(missed.float().mean())
        raise ArgumentError(
            f"`dense=True` needs a view on every pixel: got none on {share:.1%} of the "
            f"pixels, in {n_inputs} of {len(mass)} inputs. Make the whole image a view, such "
            "as by InstaAug(..., keep_original=True), or take more views."
        )
