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
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import override

__all__ = ["DEVICE", "DeviceGenerator", "host_never_waits"]

DEVICE = torch.device("meta")

aten = torch.ops.aten
READ_INSIDE = (aten.linalg_matrix_exp, aten._linalg_check_errors)
"""Operators that read values back by themselves, of which the meta device knows nothing."""
PUT = (aten.index_put, aten.index_put_, aten._index_put_impl_)
"""Assignments; those to a mask of True and False count the places first."""
COPY = (aten._to_copy, aten.copy_)
"""Copies; those from the host wait, unless they come from pinned memory."""


class _ReadsRaise(TorchDispatchMode):
    def __init__(self, *, copies: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.copies = copies

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operator = func.overloadpacket
        masks = operator in PUT and any(i is not None and i.dtype == torch.bool for i in args[1])
        comes = self.copies and operator in COPY and _comes_from_host(args, kwargs or {})
        if operator in READ_INSIDE or masks or comes:
            raise RuntimeError(f"{operator} would make the host wait for the device.")
        return func(*args, **(kwargs or {}))


class _ListsRaise(TorchFunctionMode):
    """Refuses to make device tensors of lists, a copy that the dispatcher does not see."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in (Tensor.new_tensor, torch.tensor, torch.as_tensor) and made.device == DEVICE:
            raise RuntimeError(f"{func.__name__} would make the host wait for the device.")
        return made


def _comes_from_host(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    source = args[-1] if len(args) > 1 else args[0]
    target = args[0].device if len(args) > 1 else kwargs.get("device")
    return isinstance(source, Tensor) and source.device.type == "cpu" and target == DEVICE


@contextmanager
def host_never_waits(*, copies: bool = True) -> Iterator[None]:
    """Raise a RuntimeError wherever values on the fake device would have to be known.

    Arguments:
        copies: Whether to raise where the host copies numbers of its own to the device as well.

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

    lists = _ListsRaise() if copies else nullcontext()
    with patch.object(torch, "autocast", autocast_if_known), lists, _ReadsRaise(copies=copies):
        yield


class DeviceGenerator(Generator):
    """Says that it belongs to the fake device; what is drawn there does not move its state."""

    @property
    @override
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE
