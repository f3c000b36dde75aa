"""What a prediction costs: the multiply-adds of a model."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from typing_extensions import override

from instaaug.errors import ShapeError
from instaaug.networks.model_interface import (
    as_input_of,
    evaluation_mode,
    run_eagerly,
    unwrap_compiled,
)

__all__ = ["count_multiply_adds", "count_multiply_adds_of"]


def count_multiply_adds(model: nn.Module, shape: Sequence[int]) -> int:
    """Multiply-adds of one pass of a model.

    Convolutions, matrix products and attention count, whoever wrote the module; what is done to
    single numbers (normalization, activations, pooling, the warp that renders a view) does not.
    Half of what torch calls floating-point operations.

    Arguments:
        model: Any module; it is left as it was.
        shape: Of what it takes, the batch first.

    Example:
        >>> count_multiply_adds(torch.nn.Conv2d(3, 8, 3, padding=1), (1, 3, 32, 32))
        221184
        >>> 32 * 32 * 8 * 3 * 3 * 3
        221184
    """
    if not shape or min(shape) < 1:
        raise ShapeError(
            f"`shape` must be positive whole numbers, the batch first: got {tuple(shape)}. An "
            "image of 224 pixels is (1, 3, 224, 224)."
        )
    model = unwrap_compiled(model)
    x = as_input_of(model, torch.zeros(*shape))
    with evaluation_mode(model), run_eagerly(model):
        return count_multiply_adds_of(lambda: model(x))


@torch.no_grad()
def count_multiply_adds_of(call: Callable[[], Any]) -> int:
    """Multiply-adds of whatever a function does with torch.

    Example:
        >>> one = torch.ones(2, 3)
        >>> count_multiply_adds_of(lambda: one @ one.T)
        12
    """
    with _OperationCounter() as counter, _countable_attention():
        call()
    return counter.n_operations // 2


class _OperationCounter(TorchDispatchMode):
    """Adds up floating-point operations by torch's own formulas.

    ``FlopCounterMode`` does so too, but watches modules for the backward pass, which fails where
    one returns its own parameter.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.n_operations = 0

    @override
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        formula = flop_registry.get(func.overloadpacket)
        if formula is None:
            with self:
                made_of_others = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if made_of_others is NotImplemented else made_of_others
        out = func(*args, **kwargs)
        self.n_operations += formula(*args, **kwargs, out_val=out)
        return out


@contextmanager
def _countable_attention() -> Iterator[None]:
    """Attention as matrix products: fused kernels of the CPU are not counted by torch."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
