"""Every place where a process writes: counted, and one of them fatal or without room."""

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from typing_extensions import override

__all__ = ["WriteSites", "die", "no_room", "read_only"]

ROOM = ("open", "write", "fsync", "replace", "rename", "mkdir", "posix_fallocate", "truncate")
"""What a file system without room refuses; it still lets files be removed."""

Act = Callable[[str, str], None]
"""Receives the name of what is about to be done, and the path that it is done to."""


def die(_: str, __: str) -> None:
    """As if by ``kill -9``: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_room(name: str, path: str) -> None:
    """A full file system."""
    if name in ROOM:
        _refuse(errno.ENOSPC, path)


def read_only(_: str, path: str) -> None:
    """A file system that was mounted again for reading alone."""
    _refuse(errno.EROFS, path)


def _refuse(number: int, path: str) -> NoReturn:
    raise OSError(number, os.strerror(number), path)


class WriteSites:
    """Counts what this process does to files below a folder, and acts from the n-th time on.

    It takes the place of ``open`` and of functions of ``os``, so that it sees all that Python
    writes: what libraries write into a file object as well, but not what they write into memory
    that is mapped to a file. It is meant for a process that has nothing else to do.

    Arguments:
        folder: What lies elsewhere is not counted.
        at: The first time to act; 0 for never.
        act: Called before whatever is done; in the middle of the bytes of a write.
        log: A file outside of the folder that receives a line for each of them.
    """

    def __init__(
        self, folder: Path, *, at: int = 0, act: Act = die, log: Path | None = None
    ) -> None:
        self.folder, self.at, self.act = f"{folder.resolve()}{os.sep}", at, act
        self.count = self.process = 0
        self.log = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

    def install(self) -> None:
        """Watch this process from now on."""
        plain_open, sites, self.process = io.open, self, os.getpid()

        def watched_open(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
            writes = any(letter in mode for letter in "wax+")
            if not writes or isinstance(file, int) or not sites.covers(file):
                return plain_open(file, mode, *rest, **options)
            sites.reach("open", file)
            return _open_watched(sites, file, mode, *rest, **options)

        builtins.open = io.open = watched_open
        for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "truncate"):
            self._watch(name, lambda path: path)
        for name in ("fsync", "posix_fallocate"):
            self._watch(name, lambda handle: Path(f"/proc/self/fd/{handle}").readlink())

    def _watch(self, name: str, path_of: Callable[[Any], Any]) -> None:
        plain = getattr(os, name)

        def watched(first: Any, *rest: Any, **options: Any) -> Any:
            path = path_of(first)
            if self.covers(path):
                self.reach(name, path)
            return plain(first, *rest, **options)

        setattr(os, name, watched)

    def covers(self, path: Any) -> bool:
        """Whether a path lies in the folder, and this process, not a fork of it, asks."""
        whole = os.path.abspath(os.fsdecode(path))  # noqa: PTH100  # Path would look up links
        return os.getpid() == self.process and whole.startswith(self.folder)

    def is_due(self, name: str, path: str) -> bool:
        """Count; whether it is time to act."""
        self.count += 1
        if self.log is not None:
            os.write(self.log, os.fsencode(f"{name} {path}\n"))
        return 0 < self.at <= self.count

    def reach(self, name: str, path: Any) -> None:
        """Count what is about to be done, and act if it is time to."""
        if self.is_due(name, os.fsdecode(path)):
            self.act(name, os.fsdecode(path))


class _WatchedFile(io.FileIO):
    """A file whose writes are counted; the one at which a process dies is half done."""

    def __init__(self, sites: WriteSites, path: Any, mode: str) -> None:
        super().__init__(path, mode)
        self.sites, self.path = sites, os.fsdecode(path)

    @override
    def write(self, data: Any, /) -> int:
        if self.sites.is_due("write", self.path):
            if self.sites.count == self.sites.at:
                super().write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
            self.sites.act("write", self.path)
        return super().write(data)


def _open_watched(
    sites: WriteSites, path: Any, mode: str, buffering: int = -1, encoding: str | None = None,
    errors: str | None = None, newline: str | None = None, **_: Any,
) -> Any:  # fmt: skip
    """What ``open`` gives for a file that is written to."""
    raw = _WatchedFile(sites, path, mode.replace("b", "").replace("t", ""))
    if buffering == 0:
        return raw
    buffered: Any = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    if "b" in mode:
        return buffered
    return io.TextIOWrapper(buffered, encoding, errors, newline)
