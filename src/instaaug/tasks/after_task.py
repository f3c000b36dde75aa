"""Callbacks that look at an epoch when the task itself is through with it."""

from lightning.pytorch.callbacks import Checkpoint

__all__ = ["AfterTask"]


class AfterTask(Checkpoint):
    """A callback whose end-of-epoch hook runs after the task's own.

    Lightning calls the hooks of callbacks first and those of the module second, except for
    callbacks of this kind.
    """
