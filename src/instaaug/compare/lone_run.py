"""A run in a process of its own: ``python -m instaaug.compare.lone_run FOLDER``.

The settings are in the folder already. Standard input is a pipe that nobody writes to: it ends
when the parent does, however that dies, and the run then saves itself and ends as well.
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

from instaaug.compare.state import claimed_by_one
from instaaug.errors import InstaAugError
from instaaug.files import ASIDE
from instaaug.runs.folder import Run
from instaaug.runs.training import resume
from instaaug.tasks import Interrupted, RichProgress

__all__ = ["FAILED", "STOPPED", "main", "work_on"]

STOPPED = 130  # as after Ctrl-C
FAILED = 1
LAST_WORDS = "failed: "
SECONDS_TO_SAVE = 60.0
SECONDS_TO_WAIT = 90.0  # for a run of a dead parent, which may still be saving


def main(folder: Path) -> int:
    """Train, or go on with training; the exit code says how it ended."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        work_on(folder)
    except (Interrupted, KeyboardInterrupt) as stop:
        _print(str(stop) or "Stopped at once.")
        return STOPPED
    except Exception as error:
        traceback.print_exc()
        _print(LAST_WORDS + sentence_of(error))
        return FAILED
    return 0


def work_on(folder: Path) -> None:
    """Finish a run, once nobody else is at work on it."""
    in_use = f"Another process is at work on {str(folder)!r}, and did not end."
    with claimed_by_one(folder, words=in_use, seconds=SECONDS_TO_WAIT):
        for rest in folder.glob(f".*{ASIDE}"):  # of a process that was killed while it wrote
            rest.unlink(missing_ok=True)
        if not Run(folder).results_file.is_file():
            resume(folder, callbacks=[RichProgress(Console(soft_wrap=True))])


def sentence_of(error: Exception) -> str:
    """What went wrong, in a line.

    Example:
        >>> sentence_of(MemoryError()), sentence_of(ZeroDivisionError("division by zero"))
        ('Out of memory.', 'ZeroDivisionError: division by zero')
    """
    words = " ".join(str(error).split())[:500]
    lacks_memory = isinstance(error, MemoryError | torch.OutOfMemoryError)
    if lacks_memory or "can't allocate memory" in words:
        return f"Out of memory: {words}" if words else "Out of memory."
    return words if isinstance(error, InstaAugError) else f"{type(error).__name__}: {words}"


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # which training takes as the wish to save and stop
    time.sleep(SECONDS_TO_SAVE)
    os._exit(STOPPED)


def _print(words: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(words + "\n")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
