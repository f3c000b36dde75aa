"""Arrays that grow in a folder: what survives, what is begun again, what is refused."""

import errno
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instaaug.errors import DiskError
from instaaug.frozen.table import PROGRESS, TableStore

N = 6


def rows(start: int, n: int) -> dict[str, np.ndarray]:
    """Rows that say which they are."""
    number = np.arange(start, start + n)
    return {
        "outputs": (number[:, None] * np.ones(3)).astype(np.float16),
        "checksums": number.astype(np.uint32),
    }


def filled(folder: Path | None, n: int = N, made_from: str = "a") -> TableStore:
    store = TableStore(folder, made_from, N)
    for start in range(0, n, 2):
        store.append(**rows(start, 2))
    return store


@pytest.mark.parametrize("kept", [True, False])
def test_rows_follow_one_another(kept: bool, tmp_path: Path) -> None:
    store = filled(tmp_path / "deep" / "folder" if kept else None)
    assert store.n_done == N
    for name, expected in rows(0, N).items():
        assert store.arrays[name].dtype == expected.dtype
        assert np.array_equal(store.arrays[name], expected)


@pytest.mark.parametrize("n", [2, 4, N])
def test_a_store_goes_on_where_it_stopped(n: int, tmp_path: Path) -> None:
    filled(tmp_path, n)
    again = TableStore(tmp_path, "a", N)
    assert again.n_done == n
    for start in range(n, N, 2):
        again.append(**rows(start, 2))
    assert np.array_equal(again.arrays["outputs"], rows(0, N)["outputs"])


def test_a_finished_store_is_opened_for_reading_only(tmp_path: Path) -> None:
    filled(tmp_path)
    again = TableStore(tmp_path, "a", N)
    with pytest.raises(ValueError, match="read-only"):
        again.arrays["outputs"][0] = 1


@pytest.mark.parametrize(("made_from", "n_rows"), [("b", N), ("a", N + 2)])
def test_what_was_made_from_something_else_is_begun_again(
    made_from: str, n_rows: int, tmp_path: Path
) -> None:
    filled(tmp_path)
    other = TableStore(tmp_path, made_from, n_rows)
    assert (other.n_done, other.arrays) == (0, {})
    other.append(**rows(0, 2))
    assert TableStore(tmp_path, made_from, n_rows).n_done == 2
    assert TableStore(tmp_path, "a", N).n_done == 0


def test_beginning_again_does_not_disturb_whoever_still_reads(tmp_path: Path) -> None:
    """A file that shrank under a map would kill its reader."""
    reader = filled(tmp_path).arrays["outputs"]
    other = TableStore(tmp_path, "b", 2)
    other.append(**rows(0, 2))
    assert np.array_equal(reader, rows(0, N)["outputs"])


@pytest.mark.parametrize("kept", [True, False])
def test_numbers_too_large_for_the_type_make_it_wider(kept: bool, tmp_path: Path) -> None:
    store = filled(tmp_path if kept else None, 4)
    large = {**rows(4, 2), "outputs": np.full((2, 3), 1e6, np.float32)}
    store.append(**large)
    assert store.arrays["outputs"].dtype == np.float32
    assert np.array_equal(store.arrays["outputs"][:4], rows(0, 4)["outputs"])
    assert np.array_equal(store.arrays["outputs"][4:], large["outputs"])
    if kept:
        assert np.array_equal(TableStore(tmp_path, "a", N).arrays["outputs"][4:], large["outputs"])


# --- damage -------------------------------------------------------------------------------------


def notes(**changes: Any) -> str:
    good = {"made_from": "a", "n_rows": N, "n_done": 4, "arrays": ["checksums", "outputs"]}
    return json.dumps(good | changes)


DAMAGED_NOTES = {
    "gone": None,
    "empty": "",
    "half": notes()[:20],
    "no text": b"\xff\xfe\x00",
    "a list": "[1, 2]",
    "a number": "7",
    "deep": "[" * 100_000,
    "long number": '{"n_done": ' + "9" * 10_000 + "}",
    "no count": notes(n_done=None),
    "negative": notes(n_done=-1),
    "too many": notes(n_done=N + 1),
    "not whole": notes(n_done=2.0),
    "a truth": notes(n_done=True),
    "no arrays": notes(arrays=[]),
    "no list": notes(arrays={"outputs": 1}),
    "outside": notes(arrays=["../../etc/passwd"]),
    "absolute": notes(arrays=["/etc/passwd"]),
    "other types": notes(arrays=[1, None, ["outputs"]]),
    "missing file": notes(arrays=["elsewhere"]),
}


@pytest.mark.parametrize("kind", DAMAGED_NOTES)
def test_damaged_notes_begin_again(kind: str, tmp_path: Path) -> None:
    filled(tmp_path, 4)
    content = DAMAGED_NOTES[kind]
    if content is None:
        (tmp_path / PROGRESS).unlink()
    else:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / PROGRESS).write_bytes(data)
    store = TableStore(tmp_path, "a", N)
    assert (store.n_done, store.arrays) == (0, {})
    store.append(**rows(0, 2))
    assert TableStore(tmp_path, "a", N).n_done == 2


class Bomb:
    """Would touch a file if it were ever unpickled."""

    def __init__(self, fuse: Path) -> None:
        self.fuse = fuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.fuse,)


def npy(array: np.ndarray, path: Path, *, allow_pickle: bool = False) -> bytes:
    np.save(path, array, allow_pickle=allow_pickle)
    return path.read_bytes()


@pytest.mark.parametrize(
    "kind",
    ["gone", "empty", "half", "header only", "text", "header", "archive", "short", "strings",
     "record", "scalar", "objects", "pickle", "folder"],
)  # fmt: skip
def test_damaged_arrays_begin_again_and_are_never_unpickled(kind: str, tmp_path: Path) -> None:
    filled(tmp_path, 4)
    path, spare, fuse = tmp_path / "outputs.npy", tmp_path / "spare.npy", tmp_path / "fuse"
    good = path.read_bytes()
    path.unlink()
    bombs = np.array([Bomb(fuse)] * N, dtype=object)
    contents = {
        "empty": b"",
        "half": good[:-10],
        "header only": good[:128],
        "text": b"hello, world\n",
        "header": good.replace(b"'<f2'", b"'<zz'"),
        "archive": b"PK\x03\x04" + good,
        "short": npy(np.zeros((N - 1, 3), np.float16), spare),
        "strings": npy(np.full((N, 3), "x"), spare),
        "record": npy(np.zeros(N, [("a", "f4"), ("b", "i4")]), spare),
        "scalar": npy(np.array(3.0), spare),
        "objects": npy(bombs, spare, allow_pickle=True),
        "pickle": pickle.dumps(Bomb(fuse)),
    }
    if kind in contents:
        path.write_bytes(contents[kind])
    if kind == "folder":
        path.mkdir()
    store = TableStore(tmp_path, "a", N)
    assert (store.n_done, store.arrays) == (0, {})
    assert not fuse.exists()


def test_any_change_of_any_byte_of_a_header_is_survived(tmp_path: Path) -> None:
    """Fuzzing: whatever the header says, nothing crashes, and arrays have N rows of numbers."""
    filled(tmp_path, 4)
    path = tmp_path / "outputs.npy"
    good = path.read_bytes()
    generator = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(good)
        for place in generator.integers(0, 128, generator.integers(1, 4)):
            bad[place] = generator.integers(256)
        path.write_bytes(bytes(bad))
        store = TableStore(tmp_path, "a", N)
        assert all(len(a) == N and a.dtype.kind in "fiu" for a in store.arrays.values())
        assert path.stat().st_size == len(good), "and nothing was written"


# --- disks and neighbors ------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_before_anything_is_computed(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[int] = []

    def full(_: int, __: int, n_bytes: int) -> None:
        reserved.append(n_bytes)
        if len(reserved) > 1:
            raise OSError(code, "no room")

    monkeypatch.setattr(os, "posix_fallocate", full)
    store = TableStore(tmp_path, "a", N)
    with pytest.raises(DiskError, match=r"no room for '.*checksums\.npy', 24 bytes\. Choose"):
        store.append(**rows(0, 2))
    assert reserved[0] == 128 + N * 3 * 2
    assert not list(tmp_path.iterdir()), "what was claimed is given back"


def test_a_file_system_that_cannot_reserve_is_used_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    assert filled(tmp_path).n_done == N
