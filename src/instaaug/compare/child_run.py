"""Runs in processes of their own, so that a crash or a leak of one cannot hurt the others."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from instaaug.compare.lone_run import LAST_WORDS, STOPPED
from instaaug.compare.state import Failure

__all__ = ["ChildRun", "Outcome", "StartedRun"]

PROGRAM = "instaaug.compare.lone_run"
MOST_LINES = 20
MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Arguments:
        status: ``"stopped"`` if it was asked to, and can go on.
        failure: What went wrong.
    """

    status: Literal["done", "failed", "stopped"]
    failure: Failure | None = None


class StartedRun(Protocol):
    """A run at work."""

    def outcome(self) -> Outcome | None:
        """How it ended; None while it is at work."""

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to save and end, or end it."""


class ChildRun:
    """A process at work on the run in a folder; what it prints goes to ``log.txt`` there.

    It has a session of its own: Ctrl-C reaches the parent alone, which asks it once to stop.

    Arguments:
        folder: Holds the settings of the run, and perhaps a checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log.txt"
        self.was_asked = False
        program = (
            sys.executable,
            "-P",
            "-m",
            PROGRAM,
            str(folder),
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  # our own program
                program,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def outcome(self) -> Outcome | None:
        """How it ended; None while it is at work."""
        code = self.process.poll()
        if code is None:
            return None
        if self.process.stdin is not None:
            self.process.stdin.close()
        if code == 0:
            return Outcome("done")
        if code == STOPPED or (code < 0 and self.was_asked):
            return Outcome("stopped")
        lines = last_lines(self.log)
        return Outcome("failed", Failure(_sentence(code, lines), lines))

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to save and end, or end it."""
        self.was_asked = True
        if self.process.poll() is not None:
            return
        if at_once:
            os.killpg(self.process.pid, signal.SIGKILL)  # and all that it has started
        else:
            self.process.send_signal(signal.SIGTERM)


def last_lines(log: Path) -> list[str]:
    """The end of a log, without what moves cursors or colors letters."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - MOST_BYTES))
        text = file.read().decode("utf-8", "replace")
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")
    return [line for line in text.split("\n") if line.strip()][-MOST_LINES:]


def _sentence(code: int, lines: list[str]) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        why = " Systems do that where memory runs out." if name == "SIGKILL" else ""
        return f"It was ended by {name}.{why}"
    if lines and lines[-1].startswith(LAST_WORDS):
        return lines[-1].removeprefix(LAST_WORDS)
    return f"It ended with the code {code}: {lines[-1] if lines else 'it printed nothing'}"
