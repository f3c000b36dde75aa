"""A device without values: whatever would make the host wait for an accelerator raises here.

Tensors on torch's meta device have shapes and gradients, but no numbers, so that ``item``,
``nonzero``, ``tolist``, a condition on a tensor or a copy to the host cannot be carried out. On a
real accelerator each of them waits until the device has done all that it was told before.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Generator
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

__all__ = ["DEVICE", "DeviceGenerator", "host_never_waits"]

DEVICE = torch.device("meta")

aten = torch.ops.aten
READ_INSIDE = (aten.linalg_matrix_exp, aten._linalg_check_errors)
"""Operators that read values back by themselves, of which the meta device knows nothing."""
PUT = (aten.index_put, aten.index_put_, aten._index_put_impl_)
"""Assignments; those to a mask of True and False count the places first."""


class _ReadsRaise(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operator = func.overloadpacket
        masks = operator in PUT and any(i is not None and i.dtype == torch.bool for i in args[1])
        if operator in READ_INSIDE or masks:
            raise RuntimeError(f"{operator} would make the host wait for the device.")
        return func(*args, **(kwargs or {}))


@contextmanager
def host_never_waits() -> Iterator[None]:
    """Raise a RuntimeError wherever values on the fake device would have to be known.

    Example:
        >>> with host_never_waits():
        ...     torch.zeros(3, device=DEVICE).sum().item()
        Traceback (most recent call last):
        ...
        RuntimeError: Tensor.item() cannot be called on meta tensors
    """
    autocast = torch.autocast

    def autocast_if_known(device_type: str, **settings: Any) -> Any:
        return nullcontext() if device_type == DEVICE.type else autocast(device_type, **settings)

    with patch.object(torch, "autocast", autocast_if_known), _ReadsRaise():  # type: ignore[no-untyped-call]
        yield


class DeviceGenerator(Generator):
    """Says that it belongs to the fake device; what is drawn there does not move its state."""

    @property
    @override
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE
