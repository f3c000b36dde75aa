"""The cache: decode once, never half, and say what is wrong."""

import errno
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from instaaug.data import cache
from instaaug.data.cache import CachedPixels, cached_pixels, default_cache_dir
from instaaug.data.decode import decode_image
from instaaug.errors import DataError, UnknownNameError
from tests.support.picture_files import nothing, plain
from tests.support.unhooked import unhooked


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return [
        plain(tmp_path / "images" / f"{i}.png", (40 * i, 10, 20), size=(8, 8)) for i in range(5)
    ]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., CachedPixels]:
    def call(paths: list[Path], **options: object) -> CachedPixels:
        settings = {"size": 8, "channels": 3, "cache_dir": tmp_path / "cache", **options}
        return cached_pixels(paths, **settings)  # type: ignore[arg-type]

    return call


Read = Callable[..., CachedPixels]


def forbid_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, *, size: int, channels: int) -> np.ndarray:
        raise AssertionError(f"{path} was decoded again")

    monkeypatch.setattr(cache, "decode_image", fail)


def test_rows_are_the_images_in_order(paths: list[Path], read: Read) -> None:
    result = read(paths)
    expected = np.stack([decode_image(path, size=8, channels=3) for path in paths])
    np.testing.assert_array_equal(result.pixels, expected)
    assert result.kept.tolist() == [0, 1, 2, 3, 4]
    assert result.skipped == ()


def test_pixels_are_a_read_only_memory_map(paths: list[Path], read: Read) -> None:
    pixels = read(paths).pixels
    assert isinstance(pixels, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        pixels[0] = 0


def test_a_second_call_decodes_nothing(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = read(paths)
    forbid_decoding(monkeypatch)
    second = read(paths)
    np.testing.assert_array_equal(first.pixels, second.pixels)
    assert second.fingerprint == first.fingerprint


def test_a_moved_data_set_is_still_known(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read(paths)
    (tmp_path / "images").rename(tmp_path / "moved")
    forbid_decoding(monkeypatch)
    read([tmp_path / "moved" / path.name for path in paths])


def test_a_changed_file_is_decoded_again(paths: list[Path], read: Read) -> None:
    before = read(paths)
    plain(paths[2], (1, 2, 3), size=(8, 8))
    os.utime(paths[2], (1, 1))
    after = read(paths)
    assert (after.pixels[2] == (1, 2, 3)).all()
    assert after.fingerprint != before.fingerprint


def test_a_touched_file_keeps_its_fingerprint(paths: list[Path], read: Read) -> None:
    before = read(paths).fingerprint
    os.utime(paths[2], (1, 1))
    assert read(paths).fingerprint == before


@pytest.mark.parametrize("options", [{"size": 4}, {"channels": 1}])
def test_size_and_channels_have_caches_of_their_own(
    paths: list[Path], read: Read, options: dict[str, int]
) -> None:
    first, second = read(paths), read(paths, **options)
    assert first.pixels.shape != second.pixels.shape
    assert first.fingerprint != second.fingerprint


def test_progress_counts_to_the_end(paths: list[Path], read: Read) -> None:
    calls: list[tuple[int, int]] = []
    read(paths, on_progress=lambda done, total: calls.append((done, total)))
    assert calls == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_more_images_than_wait_in_memory_at_once(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "CHUNK", 2)
    assert read(paths).pixels[:, 0, 0, 0].tolist() == [0, 40, 80, 120, 160]


def test_bad_images_are_an_error_that_counts_them(paths: list[Path], read: Read) -> None:
    nothing(paths[3])
    nothing(paths[1])
    expected = r'1\.png\' cannot be read .* 2 of 5 images are bad\. .*on_bad_image="skip"'
    with pytest.raises(DataError, match=expected):
        read(paths)
    with pytest.raises(DataError, match=expected):
        read(paths)  # from the cache


def test_bad_images_can_be_left_out(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing(paths[1])
    first = read(paths, on_bad_image="skip")
    assert first.kept.tolist() == [0, 2, 3, 4]
    assert first.pixels[:, 0, 0, 0].tolist() == [0, 80, 120, 160]
    assert len(first.skipped) == 1
    assert first.skipped[0].endswith("1.png' cannot be read as an image: it is empty (0 bytes).")
    forbid_decoding(monkeypatch)
    second = read(paths, on_bad_image="skip")
    assert second.skipped == first.skipped
    np.testing.assert_array_equal(second.pixels, first.pixels)


def test_all_images_bad_is_an_error_even_when_skipping(paths: list[Path], read: Read) -> None:
    for path in paths:
        nothing(path)
    for _ in range(2):
        with pytest.raises(DataError, match=r"None of the 5 images can be read\. .*0\.png"):
            read(paths, on_bad_image="skip")


def test_what_may_pass_is_tried_again(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_permission(path: Path, *, size: int, channels: int) -> np.ndarray:
        if path == paths[1]:
            raise DataError("no permission") from PermissionError(errno.EACCES, "denied")
        return decode_image(path, size=size, channels=channels)

    with monkeypatch.context() as patch:
        patch.setattr(cache, "decode_image", no_permission)
        assert len(read(paths, on_bad_image="skip").pixels) == 4
    assert len(read(paths, on_bad_image="skip").pixels) == 5


def test_a_file_that_vanished_is_a_bad_image(paths: list[Path], read: Read) -> None:
    paths[0].unlink()
    with pytest.raises(DataError, match=r"0\.png' cannot be read as an image: no such file"):
        read(paths)


def test_no_paths_are_refused(read: Read) -> None:
    with pytest.raises(DataError, match="`paths` must name at least one image: got none"):
        read([])


def test_an_unknown_policy_is_refused(paths: list[Path], read: Read) -> None:
    with (
        unhooked(),
        pytest.raises(UnknownNameError, match=r"`on_bad_image` called 'skp'. Did you"),
    ):
        read(paths, on_bad_image="skp")


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_damaged_cache_is_built_again(
    paths: list[Path], read: Read, tmp_path: Path, keep: int
) -> None:
    expected = read(paths).pixels.copy()
    (file,) = (tmp_path / "cache").glob("*.npy")
    file.write_bytes(file.read_bytes()[:keep])
    np.testing.assert_array_equal(read(paths).pixels, expected)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", '{"bad": 3}', "\0", "[" * 10_000])
def test_a_damaged_record_is_built_again(
    paths: list[Path], read: Read, tmp_path: Path, text: str
) -> None:
    read(paths)
    (file,) = (tmp_path / "cache").glob("*.json")
    file.write_text(text)
    assert len(read(paths).pixels) == 5


def test_a_build_that_is_interrupted_leaves_nothing(
    paths: list[Path], read: Read, tmp_path: Path
) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read(paths, on_progress=interrupt)
    assert list((tmp_path / "cache").iterdir()) == []


def test_pixels_without_their_record_are_not_used(
    paths: list[Path], read: Read, tmp_path: Path
) -> None:
    """As when a build is killed between the two files."""
    read(paths)
    (record,) = (tmp_path / "cache").glob("*.json")
    record.unlink()
    counted: list[int] = []
    read(paths, on_progress=lambda done, _: counted.append(done))
    assert counted[-1] == 5


def test_only_what_is_a_day_old_is_swept_away(
    paths: list[Path], read: Read, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    old, young = (tmp_path / "cache" / f".{name}.npy.0.part" for name in ("old", "young"))
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 25 * 3600,) * 2)
    read(paths)
    assert not old.exists()
    assert young.exists()


def test_many_builds_at_once_do_no_harm(paths: list[Path], read: Read, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: read(paths), range(8)))
    for result in results:
        assert result.pixels[:, 0, 0, 0].tolist() == [0, 40, 80, 120, 160]
    assert sorted(p.suffix for p in (tmp_path / "cache").iterdir()) == [".json", ".npy"]


def test_a_disk_too_small_is_seen_before_anything_is_decoded(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=500))
    forbid_decoding(monkeypatch)
    message = (
        r"`cache_dir` must have room .*5 images of 8 × 8 need 960 bytes, and '.*cache' has 500"
    )
    with pytest.raises(DataError, match=message):
        read(paths)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_explained_and_left_clean(
    paths: list[Path], read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    def full(file: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"need 960 bytes, and .* bytes free\. Set INSTAAUG_CACHE"):
        read(paths)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_folder_that_cannot_be_made_is_named(
    paths: list[Path], read: Read, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(
        DataError, match=r"`cache_dir` must be a folder .*file' cannot \(.+\)\. Set"
    ):
        read(paths, cache_dir=tmp_path / "file")


@pytest.mark.skipif(sys.platform == "win32", reason="names on Windows are Unicode")
def test_names_that_are_no_unicode_work(paths: list[Path], read: Read) -> None:
    odd = paths[0].rename(paths[0].with_name(os.fsdecode(b"\xff.png")))
    assert len(read([odd, *paths[1:]]).pixels) == 5


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSTAAUG_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_cache_dir() == Path("/home/somebody/.cache/instaaug")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache_dir() == Path("/x/instaaug")
    monkeypatch.setenv("INSTAAUG_CACHE", "~/c")
    assert default_cache_dir() == Path("/home/somebody/c")


def test_without_a_folder_the_default_one_is_used(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INSTAAUG_CACHE", str(tmp_path / "chosen"))
    cached_pixels(paths, size=8, channels=3)
    assert any((tmp_path / "chosen").glob("*.npy"))
