"""Commands of ours in fresh processes that need not import torch and Lightning again.

Run as a program, this imports what all commands need and waits. Each line of its input has
a folder, an environment, a command and whether few sprites are enough; a fork of it runs the
command there, as a new process would, but seconds sooner.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["Printed", "WarmCommands"]


class Printed(NamedTuple):
    """What a command left behind."""

    code: int
    text: str


class WarmCommands:
    """Runs ``instaaug`` with arguments, or ``python`` with a file; to be used as a context."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(  # noqa: S603
            [sys.executable, __file__], env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> "WarmCommands":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pipe in (self.server.stdin, self.server.stdout):
            assert pipe is not None
            pipe.close()
        self.server.wait(timeout=60)

    def run(
        self, words: list[str], *, cwd: Path, environment: dict[str, str], few: bool = False
    ) -> Printed:
        """Run a command to its end, if wanted with few sprites."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps([str(cwd), environment, words, few]) + "\n")
        self.server.stdin.flush()
        code, text = json.loads(self.server.stdout.readline())
        return Printed(code, text)


def serve() -> None:
    """Run one command after the other until there are no more."""
    import lightning.pytorch  # noqa: F401
    import matplotlib.figure  # noqa: F401

    for line in sys.stdin:
        sys.stdout.write(json.dumps(_forked(*json.loads(line))) + "\n")
        sys.stdout.flush()


def _forked(cwd: str, environment: dict[str, str], words: list[str], few: bool) -> tuple[int, str]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        for stream in (1, 2):
            os.dup2(writing, stream)
        os.chdir(cwd)
        os.environ.update(environment)
        if few:
            from instaaug.data import sprites

            sprites.N_TRAIN, sprites.N_TEST = 240, 120
        os._exit(_called(words))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), text


def _called(words: list[str]) -> int:
    from instaaug.cli import main

    is_ours = words[0] == "instaaug"
    sys.argv = words if is_ours else words[1:]
    code: Any = 1
    try:
        if is_ours:
            main()
        else:
            runpy.run_path(words[1], run_name="__main__")
            code = 0
    except SystemExit as stop:
        code = stop.code
    except BaseException:  # as the interpreter does it
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return int(code or 0)


if __name__ == "__main__":
    serve()
