"""The setting ``model.output``: which part of what a model returns is meant."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from instaaug.errors import ArgumentError
from instaaug.networks.model_interface import Output, pick_output

__all__ = ["describe_output", "read_output", "return_logits"]


def read_output(key: str | None) -> Output | None:
    """From the setting ``model.output`` to a function that picks."""
    if key is None:
        return None

    def pick(returned: Any) -> Any:
        try:
            if isinstance(returned, Tensor):
                raise KeyError(key)
            if isinstance(returned, Mapping):
                return returned[key]
            if isinstance(returned, tuple | list):
                return returned[int(key)]
            return getattr(returned, key)
        except (LookupError, ValueError, AttributeError):
            raise ArgumentError(
                f"`model.output` must be found in what the model returns: got {key!r}, but "
                f"{describe_output(returned)}."
            ) from None

    return pick


def describe_output(returned: Any) -> str:
    """What a model returned, and how to choose from it."""
    if isinstance(returned, Tensor):
        return "it returns a tensor; leave --model.output out"
    if isinstance(returned, Mapping):
        return f"a dict with {', '.join(map(str, returned))}; choose one by --model.output KEY"
    if isinstance(returned, tuple | list):
        kind, n = type(returned).__name__, len(returned)
        return f"a {kind} of {n}; choose one by --model.output NUMBER"
    return f"a {type(returned).__name__}; choose one of its attributes by --model.output NAME"


def return_logits(model: nn.Module, key: str | None) -> None:
    """Let a model of one's own, which may return a dict or a tuple, return its logits alone.

    By a hook, so that the names of its weights stay as they are.

    Arguments:
        model: Is changed.
        key: The setting; without it, what is called logits, or the first of a tuple.
    """
    output = read_output(key)

    def pick(_: nn.Module, __: Any, returned: Any) -> Tensor:
        found = pick_output(returned, output)
        if isinstance(found, Tensor):
            return found
        raise ArgumentError(f"`model` must return logits: got {describe_output(returned)}.")

    model.register_forward_hook(pick)
