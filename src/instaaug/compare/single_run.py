"""A run in a process of its own: ``python -m instaaug.compare.single_run FOLDER``.

The settings are in the folder already. Standard input is a pipe that nobody writes to: it is
closed when the parent process dies in any way, and the run then saves itself and ends as well.
"""

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import torch
from rich.console import Console

from instaaug.errors import InstaAugError
from instaaug.runs.training import resume
from instaaug.tasks import Interrupted, RichProgress

__all__ = ["FAILED", "FAILURE_PREFIX", "STOPPED", "describe_error", "finish_run", "main"]

STOPPED = 130  # as after Ctrl-C
FAILED = 1
FAILURE_PREFIX = "failed: "
SAVE_TIMEOUT = 60.0  # seconds
LOCK_TIMEOUT = 90.0  # seconds; the run of a dead parent may still be saving


def main(folder: Path) -> int:
    """Train, or go on with training; returns the exit code."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        finish_run(folder)
    except (Interrupted, KeyboardInterrupt) as stop:
        _print(str(stop) or "Stopped at once.")
        return STOPPED
    except Exception as error:
        traceback.print_exc()
        _print(FAILURE_PREFIX + describe_error(error))
        return FAILED
    return 0


def finish_run(folder: Path) -> None:
    """Train the run in a folder to its end, once no other process works on it."""
    progress = RichProgress(Console(soft_wrap=True))
    resume(folder, timeout=LOCK_TIMEOUT, callbacks=[progress])


def describe_error(error: Exception) -> str:
    """What went wrong, in one line.

    Example:
        >>> describe_error(MemoryError()), describe_error(ZeroDivisionError("division by zero"))
        ('Out of memory.', 'ZeroDivisionError: division by zero')
    """
    message = " ".join(str(error).split())[:500]
    lacks_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    if lacks_memory or "can't allocate memory" in message:
        return f"Out of memory: {message}" if message else "Out of memory."
    return message if isinstance(error, InstaAugError) else f"{type(error).__name__}: {message}"


def _exit_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # which makes training save and stop
    time.sleep(SAVE_TIMEOUT)
    os._exit(STOPPED)


def _print(text: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
