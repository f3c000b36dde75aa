"""Files that are never seen half written, and folders that one process holds at a time."""

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from instaaug.errors import ArgumentError, DiskError

try:
    import fcntl
except ImportError:  # Windows: two processes must not share a folder there
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "ASIDE",
    "is_full_disk",
    "lock_folder",
    "open_aside",
    "remove_unfinished",
    "write_atomically",
    "write_text",
]

ASIDE = ".part"
"""How the names of unfinished files end."""

LOCK_POLL_SECONDS = 0.2


@contextmanager
def open_aside(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``path`` when it is complete, and vanishes otherwise.

    A reader of ``path`` finds the old content or the new, never a part.
    """
    aside = path.with_name(f".{path.name}.{uuid4().hex}{ASIDE}")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def write_atomically(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file, whole or not at all; its folder is made if need be.

    Arguments:
        path: Where the file will be.
        write: Receives the open file.

    Raises:
        DiskError: If the disk is full; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open_aside(path) as file:
            write(file)
    except Exception as error:
        if not is_full_disk(error) and not is_full_disk(error.__context__):
            raise
        free = shutil.disk_usage(path.parent).free
        raise DiskError(
            f"There is no room left for {str(path)!r}: {free:,} bytes are free. Make room and go "
            "on; what was there before is intact."
        ) from error


def is_full_disk(error: BaseException | None) -> bool:
    """Whether the file system has no room left, or none for this user."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_atomically(path, lambda file: file.write(text.encode("utf-8", "surrogateescape")))


@contextmanager
def lock_folder(
    folder: Path | None, *, error: str | None = None, timeout: float = 0.0
) -> Iterator[None]:
    """Hold a folder for this process alone; a process that dies releases it.

    Unfinished files that such a process left in it are removed.

    Arguments:
        folder: The folder, created if absent, and then removed if it stays empty; None locks
            nothing.
        error: The message if another process holds it.
        timeout: Seconds to wait for that process.

    Raises:
        ArgumentError: If another process holds it.
    """
    if folder is None or fcntl is None:
        yield
        return
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + timeout
        while not _try_lock(handle):
            if time.monotonic() >= deadline:
                raise ArgumentError(
                    error
                    or f"`folder` must not be in use by another fit: got {str(folder)!r}. Wait "
                    "for that one, or choose another folder."
                )
            time.sleep(LOCK_POLL_SECONDS)
        remove_unfinished(folder)
        yield
    finally:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        os.close(handle)


def remove_unfinished(folder: Path) -> None:
    """Remove files that were never finished; nobody else may be writing in the folder."""
    for file in folder.glob(f".*{ASIDE}"):
        file.unlink(missing_ok=True)


def _try_lock(handle: int) -> bool:
    """Whether no other process has the lock; always where the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
