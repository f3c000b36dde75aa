"""Optuna, which only searches need."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from instaaug.errors import InstaAugError

__all__ = ["MissingOptunaError", "import_optuna", "quiet_optuna"]


class MissingOptunaError(InstaAugError, ImportError):
    """Optuna is needed for a search and is not installed."""


def import_optuna() -> Any:
    """The package, or an error that says how to install it."""
    try:
        import optuna
    except ImportError:
        raise MissingOptunaError(
            "This search needs Optuna, which is not installed. Run: pip install 'instaaug[tune]'"
        ) from None
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[Any]:
    """Optuna, without a line in the log for every trial."""
    optuna = import_optuna()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield optuna
    finally:
        optuna.logging.set_verbosity(before)
