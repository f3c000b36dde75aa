"""Values that are exact at the identity, where interpolation or conversion would round."""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from instaaug.shapes import Images

__all__ = ["with_exact_rows"]


def with_exact_rows(
    out: Images, flags: Bool[Tensor, " batch"], exact: Callable[[Tensor | slice], Tensor]
) -> Images:
    """``out``, but flagged images have the value of ``exact``; all keep the gradient of ``out``.

    On a processor only the flagged images are made again. Elsewhere, to count them would make the
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
