"""Changes of some images of a batch, on devices that are and are not asked which."""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from instaaug.shapes import Images

__all__ = ["changed_where"]


def changed_where(
    flags: Bool[Tensor, " batch"],
    x: Images,
    change: Callable[[Images, Tensor | slice], Images],
) -> Images:
    """``x``, with the flagged images changed and all others the same to the last bit.

    On a processor only the flagged images are computed. Elsewhere, to count them would make the
    host wait for the device, so that all are, and the flagged ones are selected.

    Arguments:
        flags: Which images to change.
        x: Images.
        change: Makes of some images, and of their index in ``x``, the new ones. It must have a
            finite value and gradient for images that are not flagged as well.

    Example:
        >>> x = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1)
        >>> changed_where(torch.tensor([False, True]), x, lambda some, _: -some).flatten()
        tensor([ 1., -2.])
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.where(flags[:, None, None, None], change(x, slice(None)), x)
    rows = flags.nonzero().flatten()
    if len(rows) == 0:
        return x
    if len(rows) == len(x):
        return change(x, rows)
    return x.index_copy(0, rows, change(x[rows], rows))
