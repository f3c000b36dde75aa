"""Files that are never seen half written."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from instaaug.errors import DiskError

__all__ = ["write_text", "write_whole"]


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Write a file aside, make sure it is on the disk, then give it its name.

    Whoever reads ``path`` finds the old content or the new, whatever happens in between.

    Arguments:
        path: Where the file will be; its folder is made if need be.
        write: Receives the open file.

    Raises:
        DiskError: If the disk is full; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        with aside.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        cause = error if isinstance(error, OSError) else error.__context__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            free = shutil.disk_usage(path.parent).free
            raise DiskError(
                f"There is no room left for {str(path)!r}: {free:,} bytes are free. Make room and "
                "go on; what was there before is intact."
            ) from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda file: file.write(text.encode()))
