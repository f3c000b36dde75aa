"""Arrays that grow batch by batch and survive an interruption."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from instaaug.errors import ArgumentError, DiskError
from instaaug.files import is_full_disk, write_text

try:
    import fcntl
except ImportError:  # Windows: two fits must not share a folder there
    fcntl = None  # type: ignore[assignment]

__all__ = ["TableStore", "claimed"]

PROGRESS = "table.json"
NUMBERS = "fiu"  # kinds of arrays that a table may hold


class TableStore:
    """Named arrays of N rows each, filled from the first row on, in memory or in a folder.

    A folder also notes how many rows are done and what they were made from. Opened again for the
    same, it goes on there; for anything else, or if a file is damaged, it starts anew.

    Arguments:
        folder: Where the arrays are kept; None for memory.
        made_from: Names the model, the views and all else that the rows depend on.
        n_rows: How many rows there will be.

    Example:
        >>> store = TableStore(None, "a model", n_rows=3)
        >>> store.append(outputs=np.ones((2, 5), np.float16))
        >>> store.n_done, store.arrays["outputs"].shape
        (2, (3, 5))
    """

    def __init__(self, folder: Path | None, made_from: str, n_rows: int) -> None:
        self.folder, self.made_from, self.n_rows = folder, made_from, n_rows
        self.arrays: dict[str, np.ndarray] = {}
        self.n_done = 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._reopen(folder)

    def append(self, **rows: np.ndarray) -> None:
        """Fill in the next rows of every array; they are on disk when this returns."""
        if not self.arrays:
            self.arrays = self._made(rows)
        wider = {k: rows[k].dtype for k, a in self.arrays.items() if not _holds(a, rows[k])}
        if wider:
            self._widen(wider)
        n = len(next(iter(rows.values())))
        for name, part in rows.items():
            self.arrays[name][self.n_done : self.n_done + n] = part
        self.n_done += n
        self._write()

    def forget(self) -> None:
        """Start anew."""
        self.arrays, self.n_done = {}, 0

    def _write(self) -> None:
        if self.folder is None:
            return
        for array in self.arrays.values():
            assert isinstance(array, np.memmap)  # noqa: S101  # made or opened as one
            array.flush()
        notes = {
            "made_from": self.made_from,
            "n_rows": self.n_rows,
            "n_done": self.n_done,
            "arrays": sorted(self.arrays),
        }
        write_text(self.folder / PROGRESS, json.dumps(notes) + "\n")

    def _widen(self, kinds: dict[str, np.dtype]) -> None:
        """Give some arrays a wider type of number."""
        old = {name: self.arrays[name] for name in kinds}
        self.arrays |= self._made({k: a[:0].astype(kinds[k]) for k, a in old.items()})
        for name, array in old.items():
            self.arrays[name][: self.n_done] = array[: self.n_done]

    def _made(self, rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Empty arrays for rows like these."""
        shapes = {name: (self.n_rows, *part.shape[1:]) for name, part in rows.items()}
        if self.folder is None:
            return {name: np.zeros(shapes[name], part.dtype) for name, part in rows.items()}
        (self.folder / PROGRESS).unlink(missing_ok=True)  # of other arrays
        paths = {name: self.folder / f"{name}.npy" for name in rows}
        with ExitStack() as cleaning:
            for path in paths.values():
                path.unlink(missing_ok=True)  # whoever still reads it keeps what was there
                cleaning.callback(path.unlink, missing_ok=True)
            made = {k: _new_file(paths[k], rows[k].dtype, shapes[k]) for k in rows}
            cleaning.pop_all()
        return made

    def _reopen(self, folder: Path) -> None:
        notes = _read_notes(folder / PROGRESS)
        if (notes.get("made_from"), notes.get("n_rows")) != (self.made_from, self.n_rows):
            return
        n_done, names = notes.get("n_done"), _names(notes.get("arrays"))
        if type(n_done) is not int or not 0 <= n_done <= self.n_rows:
            return
        arrays = {name: _opened(folder / f"{name}.npy", self.n_rows) for name in names}
        whole = {name: array for name, array in arrays.items() if array is not None}
        if not names or len(whole) < len(names):
            return
        if n_done < self.n_rows:
            whole = {name: np.load(folder / f"{name}.npy", mmap_mode="r+") for name in names}
        self.arrays, self.n_done = whole, n_done


@contextmanager
def claimed(folder: Path | None) -> Iterator[None]:
    """Keep others from writing to a folder; raise if one of them does."""
    if folder is None or fcntl is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(handle)
            raise ArgumentError(
                f"`folder` must not be in use by another fit: got {str(folder)!r}. Wait for that "
                "one, or choose another folder."
            ) from error  # otherwise a file system without locks
    try:
        yield
    finally:
        os.close(handle)


def _holds(array: np.ndarray, part: np.ndarray) -> bool:
    return bool(np.can_cast(part.dtype, array.dtype))


def _opened(path: Path, n_rows: int) -> np.ndarray | None:
    """A map of a file with so many rows of numbers; None if it is gone or damaged.

    It is read-only: opened for writing, a file that was cut short would be filled up with zeros.
    """
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception:  # in whatever way it is damaged
        return None
    is_column = array.ndim > 0 and len(array) == n_rows and array.dtype.kind in NUMBERS
    return array if is_column else None


def _names(noted: Any) -> list[str]:
    """Names of arrays, none of which leads out of the folder."""
    names = noted if isinstance(noted, list) else []
    return [name for name in names if isinstance(name, str) and name.isidentifier()]


def _read_notes(path: Path) -> dict[str, Any]:
    try:
        notes = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _new_file(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A map of a new file, with its room on the disk claimed: later, want of it would kill us."""
    try:
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
        _reserve(path, array.offset + array.nbytes)
    except OSError as error:
        if not is_full_disk(error):
            raise
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        raise DiskError(
            f"There is no room for {str(path)!r}, {n_bytes:,} bytes. Choose another folder, fewer "
            "views or fewer images."
        ) from error
    return array


def _reserve(path: Path, n_bytes: int) -> None:
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, n_bytes)
    except OSError as error:
        if is_full_disk(error):
            raise  # else a file system that cannot reserve
