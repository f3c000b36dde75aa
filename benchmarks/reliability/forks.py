"""Commands of ours in forks of this process, which need not import torch again."""

import faulthandler
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LONGEST", "Command", "Ended", "call_command", "warm_up"]

LONGEST = 240.0  # seconds; a deadlock shall be seen, not waited for
POLL_SECONDS = 0.002


@dataclass(frozen=True)
class Ended:
    """What a command left behind.

    Arguments:
        code: Its exit code; negative is the number of the signal that ended it.
        text: All that it printed.
        seconds: How long it took.
    """

    code: int
    text: str
    seconds: float

    @property
    def sentence(self) -> str:
        """The one sentence of a command that refuses; empty for any other ending."""
        lines = [line for line in self.text.splitlines() if line.startswith("error: ")]
        if self.code != 2 or len(lines) != 1 or "Traceback" in self.text:
            return ""
        return lines[0].removeprefix("error: ")


def warm_up() -> None:
    """Import what all commands need, once, and without threads that a fork would lose."""
    import lightning.pytorch  # noqa: F401
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401
    import optuna  # noqa: F401
    import torch
    import torch.utils.tensorboard

    import instaaug.cli.compare
    import instaaug.cli.train
    import instaaug.cli.tune
    import instaaug.cli.use
    import instaaug.compare.single_run  # noqa: F401

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message=".*use of fork.*", category=DeprecationWarning)


class Command:
    """A command that was started in a folder.

    Arguments:
        words: Its arguments.
        folder: Where it runs; ``log.txt`` beside it receives what it prints.
        prepare: Called in the new process before the command.
        environment: More variables of the environment.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path,
        *,
        prepare: Callable[[], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder.with_name(f"{folder.name}-{time.monotonic_ns()}.log")
        self.log.touch()
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            _become(self.log, folder, environment or {})
            os._exit(call_command(words, prepare))

    def kill_at(self, seconds: float) -> None:
        """Kill it when it has run for so long, unless it has ended."""
        while time.monotonic() - self.started < seconds and not self._has_ended():
            time.sleep(POLL_SECONDS)
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, longest: float = LONGEST) -> Ended:
        """How it ended; it is killed if it takes too long."""
        while not self._has_ended():
            if time.monotonic() - self.started > longest:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - self.started
        _, status = os.waitpid(self.pid, 0)
        text = self.log.read_text(encoding="utf-8", errors="replace")
        self.log.unlink()
        return Ended(os.waitstatus_to_exitcode(status), text, seconds)

    def _has_ended(self) -> bool:
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return ended is not None


def _become(log: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Make of a fork a process like any other: a session, a folder, outputs of its own."""
    os.setsid()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # it stays open
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    faulthandler.enable(sys.stderr)
    os.chdir(folder)
    os.environ.update({"INSTAAUG_CACHE": str(folder / "cache"), "COLUMNS": "500"})
    os.environ["GIT_DIR"] = str(folder / "none")  # runs note the commit; one may be made meanwhile
    os.environ.update(environment)


def call_command(words: Sequence[str], prepare: Callable[[], None] | None = None) -> int:
    """Run ``instaaug`` with arguments in this process; returns its exit code."""
    from instaaug.cli import main

    sys.argv = ["instaaug", *words]
    code = 1
    try:
        if prepare is not None:
            prepare()
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:  # as the interpreter does it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code
