"""The order of numbers in memory, which operators inside of a transform may change."""

import torch
from torch import Tensor

from instaaug.shapes import Images, Rendered

__all__ = ["in_layout_of"]


def in_layout_of(x: Images, out: Rendered) -> Rendered:
    """``out`` in the memory order of ``x``: channels last if it was, so that no model reorders it.

    Inside of a transform images are planes, one per channel: ``grid_sample`` returns them so, and
    arithmetic that mixes one map with three channels is faster on them.
    """
    return out.contiguous(memory_format=_layout(x))


def _layout(x: Tensor) -> torch.memory_format:
    last = not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format
