"""What users see: the library without the shape checker that runs in tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import config

__all__ = ["unhooked"]


@contextmanager
def unhooked() -> Iterator[None]:
    """Let the library's own messages speak where the shape checker would speak first."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
