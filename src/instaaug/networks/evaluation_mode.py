"""Evaluation mode for a while, without forgetting which parts were in it before."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

__all__ = ["evaluation_mode"]


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put every part of ``module`` into evaluation mode, and each back into its own afterwards.

    ``module.train()`` would wake a frozen part that had been put to rest before.

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
