"""Files of others that lie about themselves: each is refused in words, and fills no memory."""

import gzip
import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from instaaug.data import mnist
from instaaug.data.arrays import read_arrays
from instaaug.data.cifar10 import CLASSES, _labels, _strip
from instaaug.data.files import read_table
from instaaug.data.labels import natural_order
from instaaug.data.mnist import read_idx
from instaaug.data.sprites import load_mario_iggy
from instaaug.data.tiny_imagenet import _rows, _wnids
from instaaug.errors import ArgumentError, DataError

LABELS = np.array([0, 1, 0, 1])


def npy_bytes(header: str) -> bytes:
    """An array's file with any header, of which the length is true."""
    text = f"{header}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


def archive(path: Path, images: bytes) -> Path:
    labels = io.BytesIO()
    np.save(labels, LABELS)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("images.npy", images)
        file.writestr("labels.npy", labels.getvalue())
    return path


HEADERS = {
    "unfinished": "{'descr': '|u1', 'shape': (",
    "a terabyte": "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 500000, 500000, 1)}",
    "beyond any integer": f"{{'descr': '|u1', 'fortran_order': False, 'shape': (4, {10**30})}}",
    "negative": "{'descr': '|u1', 'fortran_order': False, 'shape': (-4, 8, 8)}",
    "no number": "{'descr': '|u1', 'fortran_order': False, 'shape': (None, 8, 8)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (4, 8, 8)}",
    "deep": "{'descr': " + "[" * 5000 + "'}",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("ending", [".npz", ".npy"])
def test_arrays_with_a_lying_header_are_refused(tmp_path: Path, ending: str, header: str) -> None:
    path = tmp_path / f"images{ending}"
    if ending == ".npz":
        archive(path, npy_bytes(header))
    else:
        path.write_bytes(npy_bytes(header))
        np.save(tmp_path / "labels.npy", LABELS)
    with pytest.raises(DataError, match=r"must be a NumPy file|must hold plain arrays"):
        read_arrays(path)


def test_an_archive_of_another_kind_of_zip_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", npy_bytes("{}"))
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 6] = 127  # the version that is needed to read it
    path.write_bytes(data)
    with pytest.raises(DataError, match="must be a NumPy file: it cannot be read as one"):
        read_arrays(path)


@pytest.mark.parametrize("order", "<>")
def test_characters_that_do_not_exist_are_refused(tmp_path: Path, order: str) -> None:
    words = np.array([0x110000] * 4, dtype=f"{order}u4").view(f"{order}U1")
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 8, 8), np.uint8), labels=words)
    with pytest.raises(DataError, match="it holds characters that do not exist"):
        read_arrays(tmp_path / "a.npz")


def test_bytes_that_are_no_text_are_no_labels(tmp_path: Path) -> None:
    images, words = np.zeros((2, 8, 8), np.uint8), np.array([b"a", b"\xff"])
    with pytest.raises(DataError, match="Class labels must be text in ASCII where they are bytes"):
        read_arrays((images, words))


def test_a_name_that_no_file_can_have_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"path,label\n{'x' * 5000}.png,cat\n")
    with pytest.raises(DataError, match="must name image files that exist: 1 of 1 are missing"):
        read_table(tmp_path / "a.csv")


def test_names_of_many_digits_have_an_order() -> None:
    names = ["9" * 5000, "10", "9"]
    assert sorted(names, key=natural_order) == ["9", "10", "9" * 5000]


def test_a_packed_file_is_unpacked_no_further_than_its_header_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(struct.pack(">IIII", 0x0803, 1, 2, 2) + bytes(1 << 20)))
    asked: list[int] = []
    read = gzip.GzipFile.read

    def count(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        asked.append(size or -1)
        return read(file, size)

    monkeypatch.setattr(gzip.GzipFile, "read", count)
    with pytest.raises(DataError, match="1 × 2 × 2 = 4 bytes after its header: got more"):
        read_idx(path, 3)
    assert asked == [16, 16 + 4 + 1]


def test_a_header_that_claims_terabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.idx3"
    path.write_bytes(struct.pack(">IIII", 0x0803, 2**31, 2**31, 2**31))
    with pytest.raises(DataError, match=f"must hold at most {mnist.MOST_BYTES:,} bytes"):
        read_idx(path, 3)


@pytest.mark.parametrize("text", ["[" * 100_000, "[true]", "[10]", f"[{10**30}]", "[-1]", "{}"])
def test_labels_of_strips_are_numbers_of_classes(tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(
        DataError, match=r"must be a JSON list of labels|must be a list of 1 number"
    ):
        _labels(tmp_path / "labels.json", 1)
    (tmp_path / "labels.json").write_text(json.dumps([len(CLASSES) - 1]))
    assert _labels(tmp_path / "labels.json", 1) == [9]


def test_a_damaged_strip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "strip.png"
    Image.new("RGB", (1024, 2)).save(path)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match="cannot be read as an image"):
        _strip(path)


def test_lists_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wnids.txt").write_bytes(b"\xff\n")
    assert _wnids(tmp_path) == ["\ufffd"]
    (tmp_path / "words.txt").write_bytes(b"\xff\n")
    with pytest.raises(DataError, match="must have 2 columns"):
        list(_rows(tmp_path / "words.txt", 2, "wnid, names"))


def test_sprites_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.npz"
    path.write_bytes(b"PK\x03\x04 and no archive")
    with pytest.raises(ArgumentError, match="`path` must be a NumPy archive"):
        load_mario_iggy(path)
    np.save(tmp_path / "alone.npy", LABELS)
    with pytest.raises(ArgumentError, match="`path` must be a NumPy archive"):
        load_mario_iggy(tmp_path / "alone.npy")
    np.savez(path, mario=np.zeros((1, 3, 32, 32)), iggy=np.array(["no"]))
    with pytest.raises(ArgumentError, match="must hold two sprites of 32 × 32 pixels"):
        load_mario_iggy(path)
