"""Silence Lightning, and let Ctrl-C raise KeyboardInterrupt as usual."""

import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["LOGGERS", "forward_interrupts", "quiet_lightning"]

WRITER = "_AsyncWriterThread"  # of TensorBoard
LOGGERS = ("lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero")


@contextmanager
def forward_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C; Lightning would exit, and ignore further ones."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as end:
        if not isinstance(end.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise end.__context__ from None


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Silence log lines and warnings of Lightning that are not for the user.

    TensorBoard writes in a thread, whose traceback is silenced, too: if it cannot write, the next
    call of TensorBoard raises the same error where it can be told in a sentence.
    """
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    print_traceback = threading.excepthook

    def print_others(args: threading.ExceptHookArgs) -> None:
        if type(args.thread).__name__ != WRITER or not isinstance(args.exc_value, OSError):
            print_traceback(args)

    threading.excepthook = print_others
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning.*")
        warnings.filterwarnings("ignore", message=".*isinstance.*LeafSpec.*")
        try:
            yield
        finally:
            threading.excepthook = print_traceback
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)
