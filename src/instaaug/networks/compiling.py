"""``torch.compile`` for modules in training, with a fallback where compiling fails."""

import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import nn

from instaaug.errors import InstaAugWarning

__all__ = ["compile_training"]

LONGEST_REASON = 120


def compile_training(
    module: nn.Module, *, what: str = "the model", backend: str | Callable[..., Any] = "inductor"
) -> None:
    """Let ``module`` run compiled in training mode; warn and go on without if that fails.

    The module stays what it is: the keys of its state, its parameters and its hooks are the same,
    and a copy of it is not compiled. In evaluation mode it runs as before, so that scores do not
    depend on a compiler and none is waited for. torch compiles in the first call, once more when
    the size of a batch changes, and then for all sizes.

    An error in a compiled call is judged by the plain call: if that fails too, its error is the
    one that is raised. What torch compiles later, for the backward pass, is not guarded.

    ``module.compile()`` would not do: it silently skips ``nn.Sequential`` and other modules of
    torch's own (torch 2.13). ``torch.compile(module)`` renames the state.

    Arguments:
        module: Is changed in place.
        what: Its name in the warning.
        backend: Of ``torch.compile``.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 2))
        >>> compile_training(model, backend="eager")
        >>> model(torch.ones(1, 3)).shape, list(model.state_dict())
        (torch.Size([1, 2]), ['0.weight', '0.bias'])
    """
    module._compiled_call_impl = _GuardedCall(module, what, backend)  # noqa: SLF001


class _GuardedCall:
    """The call of a module: compiled in training mode, until compiling fails."""

    def __init__(self, module: nn.Module, what: str, backend: str | Callable[..., Any]) -> None:
        self.module, self.what, self.backend = module, what, backend
        self.plain: Callable[..., Any] = module._call_impl  # noqa: SLF001
        self.compiled: Callable[..., Any] | None = None
        self.failed = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.failed or not self.module.training or torch.compiler.is_compiling():
            return self.plain(*args, **kwargs)
        try:
            self.compiled = self.compiled or self._make_compiled()
            return self.compiled(*args, **kwargs)
        except Exception as error:  # the plain call tells whose it is
            reason = _first_line(error)
        returned = self.plain(*args, **kwargs)
        self.failed = True
        warnings.warn(
            f"{self.what.capitalize()} could not be compiled and runs without: {reason}",
            InstaAugWarning,
            stacklevel=3,
        )
        return returned

    def _make_compiled(self) -> Callable[..., Any]:
        # a function of ours around it, for torch compiles none of its own
        function = _with_own_code(lambda *args, **kwargs: self.plain(*args, **kwargs))  # noqa: PLW0108
        return torch.compile(function, backend=self.backend)


def _with_own_code(function: Any) -> FunctionType:
    """The same with code of its own: torch compiles one and the same code a few times at most."""
    code = function.__code__.replace()
    return FunctionType(code, function.__globals__, closure=function.__closure__)


def _first_line(error: Exception) -> str:
    """The first line of what went wrong, without what torch wrapped it in."""
    cause = getattr(error, "inner_exception", error)
    line = next(iter(str(cause).strip().splitlines()), "")
    words = f"{type(cause).__name__}: {line}" if line else type(cause).__name__
    return words if len(words) <= LONGEST_REASON else f"{words[: LONGEST_REASON - 1]}…"
