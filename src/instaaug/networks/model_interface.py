"""Calling a model that someone else wrote: what it takes, what it returns, its mode."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from instaaug.errors import ShapeError

__all__ = [
    "Output",
    "as_input_of",
    "batch_statistics",
    "device_of",
    "evaluation_mode",
    "output_rows",
    "pick_output",
    "run_eagerly",
    "unwrap_compiled",
]


def device_of(model: nn.Module) -> torch.device:
    """Where a model's parameters are; the CPU if it has none."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def as_input_of(model: nn.Module, x: Tensor) -> Tensor:
    """``x`` on the device and in the precision of the model's first parameter that has one.

    Example:
        >>> as_input_of(nn.Linear(3, 2).double(), torch.zeros(1, 3)).dtype
        torch.float64
    """
    like = next((p for p in model.parameters() if p.is_floating_point()), x)
    return x.to(like.device, like.dtype)


Output = Callable[[Any], Tensor]
"""Picks the tensor out of what a model returns."""


def pick_output(returned: object, output: Output | None = None) -> object:
    """What ``output`` picks; without it the obvious tensor if there is one, else everything.

    Example:
        >>> pick_output({"loss": 0.1, "logits": "these"})
        'these'
    """
    if output is not None:
        return output(returned)
    if isinstance(returned, Tensor):
        return returned
    if isinstance(returned, Mapping) and "logits" in returned:
        return returned["logits"]
    if isinstance(found := getattr(returned, "logits", None), Tensor):
        return found
    if isinstance(returned, tuple | list) and returned and isinstance(returned[0], Tensor):
        return returned[0]
    return returned


def output_rows(returned: object, n_inputs: int, output: Output | None = None) -> Tensor:
    """The tensor that :func:`pick_output` picks; raise unless it has one row per input."""
    found = pick_output(returned, output)
    if isinstance(found, Tensor) and found.ndim and len(found) == n_inputs:
        return found
    got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    who = "`model` must return" if output is None else "`output` must pick"
    raise ShapeError(
        f"{who} a tensor with one row per input, {n_inputs} here: got {got}. Pick the tensor with "
        'output=, such as output=lambda o: o["logits"].'
    )


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put every part of ``module`` into evaluation mode, and each back into its own afterwards.

    ``module.train()`` would also switch parts that were in evaluation mode before.

    Example:
        >>> network = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout().eval())
        >>> with evaluation_mode(network):
        ...     print(network[0].training, network[1].training)
        False False
        >>> print(network[0].training, network[1].training)
        True False
    """
    before = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


@contextmanager
def batch_statistics(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for all but BatchNorm, which normalizes by the batch that it sees.

    So a loss has the gradient that it has in training, but no buffer changes.

    Example:
        >>> norm = torch.nn.BatchNorm1d(1)
        >>> with batch_statistics(norm):
        ...     norm(torch.tensor([[2.0], [4.0]])).flatten().round().tolist()
        [-1.0, 1.0]
        >>> norm.running_mean
        tensor([0.])
    """
    norms = [m for m in module.modules() if isinstance(m, _BatchNorm) and m.training]
    tracked = [norm.track_running_stats for norm in norms]
    with evaluation_mode(module):
        try:
            for norm in norms:
                norm.training, norm.track_running_stats = True, False
            yield
        finally:
            for norm, before in zip(norms, tracked, strict=True):
                norm.track_running_stats = before


def unwrap_compiled(model: nn.Module) -> nn.Module:
    """The model behind ``torch.compile``, whose hooks would not be called."""
    inner = getattr(model, "_orig_mod", model)
    return inner if isinstance(inner, nn.Module) else model


@contextmanager
def run_eagerly(model: nn.Module) -> Iterator[None]:
    """Bypass what ``model.compile()`` made, which would compile again for every new hook."""
    compiled = any(getattr(part, "_compiled_call_impl", None) for part in model.modules())
    with ExitStack() as stack:
        if compiled and hasattr(torch.compiler, "set_stance"):  # from torch 2.6 on
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield
