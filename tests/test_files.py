"""Files are whole or absent, whatever happens while they are written."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
import torch

from instaaug.errors import ArgumentError, DiskError
from instaaug.files import ASIDE, lock_folder, write_atomically, write_text

OLD, NEW = b"what was there before", b"something new" * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with something in it."""
    file = tmp_path / "file.bin"
    file.write_bytes(OLD)
    return file


@pytest.fixture
def full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same file, where the system itself says that the disk is full."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    really_open = Path.open

    def open_full(self: Path, mode: str = "r") -> IO[bytes]:
        if mode != "wb":
            return really_open(self, mode)
        self.touch()
        return really_open(Path("/dev/full"), "wb")

    monkeypatch.setattr(Path, "open", open_full)
    return path


def files_in(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_new_file_has_the_content(tmp_path: Path) -> None:
    write_atomically(tmp_path / "new", lambda file: file.write(NEW))
    assert (tmp_path / "new").read_bytes() == NEW
    assert files_in(tmp_path) == ["new"]


def test_an_old_file_is_replaced(path: Path) -> None:
    write_atomically(path, lambda file: file.write(NEW))
    assert path.read_bytes() == NEW
    assert files_in(path.parent) == [path.name]


def test_folders_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "c.txt", "λ")
    assert (tmp_path / "a" / "b" / "c.txt").read_text(encoding="utf-8") == "λ"


def test_whoever_reads_while_it_is_written_finds_the_old_content(path: Path) -> None:
    def write(file: IO[bytes]) -> None:
        file.write(NEW)
        file.flush()
        assert path.read_bytes() == OLD

    write_atomically(path, write)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), OSError(errno.EIO, "?")])
def test_an_error_leaves_the_old_content_and_nothing_else(
    path: Path, error: BaseException
) -> None:
    def write(file: IO[bytes]) -> None:
        file.write(NEW)
        raise error

    with pytest.raises(type(error)) as caught:
        write_atomically(path, write)
    assert caught.value is error
    assert path.read_bytes() == OLD
    assert files_in(path.parent) == [path.name]


WRITERS: dict[str, Callable[[IO[bytes]], object]] = {
    "few bytes, which fail when flushed": lambda file: file.write(b"x"),
    "many bytes, which fail at once": lambda file: file.write(bytes(10**6)),
    "torch": lambda file: torch.save({"a": torch.zeros(10**5)}, file),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_is_told_and_leaves_the_old_content(
    full_disk: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = r"There is no room left for '.*file\.bin': [\d,]+ bytes are free\. Make room and go"
    with pytest.raises(DiskError, match=message):
        write_atomically(full_disk, WRITERS[writer])
    monkeypatch.undo()
    assert full_disk.read_bytes() == OLD
    assert files_in(full_disk.parent) == [full_disk.name]


def test_a_full_quota_counts_as_a_full_disk(path: Path) -> None:
    def write(file: IO[bytes]) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with pytest.raises(DiskError, match="There is no room left"):
        write_atomically(path, write)


def test_a_folder_that_may_not_be_written_is_no_full_disk(path: Path) -> None:
    def write(file: IO[bytes]) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(PermissionError, match="Permission denied"):
        write_atomically(path, write)


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with lock_folder(tmp_path):
        with pytest.raises(ArgumentError, match="in use by another"), lock_folder(tmp_path):
            pass
        with (
            pytest.raises(ArgumentError, match="This folder is busy"),
            lock_folder(tmp_path, error="This folder is busy.", timeout=0.01),
        ):
            pass
        with lock_folder(tmp_path / "another"), lock_folder(None):
            pass
    with lock_folder(tmp_path):  # free again
        pass


def test_a_lock_removes_what_a_killed_process_has_not_finished(tmp_path: Path) -> None:
    for name in (f".a.json.0{ASIDE}", f"mine{ASIDE}", "a.json"):
        (tmp_path / name).touch()
    with lock_folder(tmp_path):
        assert files_in(tmp_path) == ["a.json", f"mine{ASIDE}"]


def test_a_lock_leaves_no_empty_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("old", "new"):
        with lock_folder(tmp_path / name):
            pass
    assert files_in(tmp_path) == ["old"]


def test_an_error_within_a_locked_folder_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="another thing"), lock_folder(tmp_path):
        raise ArgumentError("another thing")


def test_a_lock_can_be_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instaaug.files.LOCK_POLL_SECONDS", 0.0)
    holder = lock_folder(tmp_path)
    holder.__enter__()
    release = threading.Timer(0.05, holder.__exit__, (None, None, None))
    release.start()
    with lock_folder(tmp_path, timeout=10.0):
        release.join()
