"""Decode once, keep on disk: the pixels of many files in one memory-mapped array."""

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal, NamedTuple, get_args

import numpy as np

from instaaug.data.decode import check_shape, decode_image, refusal
from instaaug.errors import DataError, UnknownNameError
from instaaug.files import ASIDE, is_full_disk, open_aside

__all__ = [
    "CachedPixels",
    "OnBadImage",
    "OnProgress",
    "cached_pixels",
    "check_policy",
    "default_cache_dir",
    "list_cache",
]

OnBadImage = Literal["error", "skip"]
OnProgress = Callable[[int, int], None]
"""Called with the number of images or files done, and of all."""

FORMAT_VERSION = 2  # raise it when `decode_image` gives other pixels for the same file
CHUNK = 256  # images that wait in memory to be written
DAY = 24 * 60 * 60
OWN_FILE = re.compile(rf"[0-9a-f]{{32}}\.(npy|json)|\..*{re.escape(ASIDE)}")


class CachedPixels(NamedTuple):
    """The pixels of many files, and which files were left out.

    Attributes:
        pixels: ``(N, size, size, channels)``, uint8, a read-only memory map.
        kept: For every row of ``pixels``, which of the paths it comes from; int64 ``(N,)``.
        skipped: One sentence per file that was left out, in order.
        fingerprint: Hash of the files' names and bytes, ``size`` and ``channels``: the same after
            the files were copied or touched.
    """

    pixels: np.ndarray
    kept: np.ndarray
    skipped: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True)
class Record:
    """The record beside the pixels on disk.

    Attributes:
        shape: Of the pixels.
        bad: Position and reason of every file that could not be decoded.
        fingerprint: See `CachedPixels`.
        final: False if a file was unreadable for a reason that may pass, such as its permissions.
    """

    shape: tuple[int, ...]
    bad: tuple[tuple[int, str], ...]
    fingerprint: str
    final: bool


@dataclass(frozen=True)
class Decoded:
    """One file: its pixels, or why it has none."""

    pixels: np.ndarray | None
    digest: bytes = b""
    reason: str = ""
    may_pass: bool = False


def default_cache_dir() -> Path:
    """Where decoded images are kept: $INSTAAUG_CACHE, or instaaug in the user's cache folder."""
    if chosen := os.environ.get("INSTAAUG_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "instaaug"


def list_cache(folder: Path) -> list[Path]:
    """The files of a cache, those of builds that were killed among them; no other file.

    Arguments:
        folder: Of the cache; it need not exist.
    """
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if OWN_FILE.fullmatch(file.name))


def check_policy(on_bad_image: str) -> None:
    """Raise unless the policy is known."""
    if on_bad_image not in get_args(OnBadImage):
        raise UnknownNameError("policy `on_bad_image`", on_bad_image, get_args(OnBadImage))


def cached_pixels(
    paths: Sequence[str | Path],
    *,
    size: int,
    channels: int,
    cache_dir: str | Path | None = None,
    on_bad_image: OnBadImage = "error",
    on_progress: OnProgress | None = None,
) -> CachedPixels:
    """Decode files with `decode_image`, or find what an earlier call decoded.

    The cache is keyed by the files' relative paths, sizes and times of modification and change,
    ``size`` and ``channels``. It is written aside and renamed when complete, so that a killed
    build or two builds at once do no harm.

    Arguments:
        paths: The files.
        size: Height and width in pixels.
        channels: 1 or 3.
        cache_dir: Folder of the cache; `default_cache_dir` if None.
        on_bad_image: ``"error"`` raises if any file cannot be decoded, ``"skip"`` leaves it out.
        on_progress: Called with the number of files done and of all files, while decoding.

    Raises:
        DataError: If a file cannot be decoded (see ``on_bad_image``), none can, or the cache
            cannot be written.
    """
    check_shape(size=size, channels=channels)
    check_policy(on_bad_image)
    files = [Path(path) for path in paths]
    if not files:
        raise DataError("`paths` must name at least one image: got none. Check where you look.")
    folder = default_cache_dir() if cache_dir is None else Path(cache_dir)
    names = _relative_names(files)
    stem = folder / _key(files, names, size=size, channels=channels)
    found = _load(stem)
    if found is None:
        decode = _Decoder(files, names, size=size, channels=channels, on_progress=on_progress)
        found = _build(stem, decode)
    pixels, record = found
    _check_bad(files, record, on_bad_image)
    bad = {index for index, _ in record.bad}
    return CachedPixels(
        pixels,
        np.array([i for i in range(len(files)) if i not in bad], dtype=np.int64),
        tuple(f"{refusal(files[index])}{reason}" for index, reason in record.bad),
        record.fingerprint,
    )


def _check_bad(files: Sequence[Path], record: Record, on_bad_image: OnBadImage) -> None:
    if not record.bad:
        return
    index, reason = record.bad[0]
    first = f"{refusal(files[index])}{reason}"
    if len(record.bad) == len(files):
        raise DataError(f"None of the {len(files)} images can be read. The first: {first}")
    if on_bad_image == "error":
        raise DataError(
            f"{first} {len(record.bad)} of {len(files)} images are bad. Repair or remove them, "
            'or leave them out with on_bad_image="skip".'
        )


def _relative_names(files: Sequence[Path]) -> list[str]:
    """Paths below the folder that all files share, so that a moved data set is still the same."""
    absolute = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100 resolves no links
    try:
        root = os.path.commonpath([path.parent for path in absolute])
    except ValueError:  # several drives
        return [path.as_posix() for path in absolute]
    return [path.relative_to(root).as_posix() for path in absolute]


def _key(files: Sequence[Path], names: Sequence[str], *, size: int, channels: int) -> str:
    digest = hashlib.sha256(f"{FORMAT_VERSION} {size} {channels} {len(files)}".encode())
    for file, name in zip(files, names, strict=True):
        try:
            status = file.stat()
            stamp = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        except OSError:
            stamp = "absent"
        digest.update(os.fsencode(f"\0{name}\0{stamp}"))
    return digest.hexdigest()[:32]


def _load(stem: Path) -> tuple[np.ndarray, Record] | None:
    """What an earlier build left, or None if there is nothing whole."""
    try:
        fields = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
        bad = tuple((int(index), str(reason)) for index, reason in fields["bad"])
        record = Record(
            tuple(fields["shape"]), bad, str(fields["fingerprint"]), bool(fields["final"])
        )
        if not record.final:
            return None
        return _open_pixels(stem.with_suffix(".npy"), record), record
    except Exception:  # however it is damaged
        return None


def _open_pixels(path: Path, record: Record) -> np.ndarray:
    if record.shape[0] == 0:
        return np.empty(record.shape, dtype=np.uint8)
    pixels = np.load(path, mmap_mode="r", allow_pickle=False)
    whole = pixels.dtype == np.uint8 and pixels.shape == record.shape
    if not whole or path.stat().st_size != pixels.offset + pixels.nbytes:
        raise ValueError(f"{path} is not what was written")
    return pixels


class _Decoder:
    """Decodes files with several threads, a chunk at a time, in order."""

    def __init__(
        self,
        files: Sequence[Path],
        names: Sequence[str],
        *,
        size: int,
        channels: int,
        on_progress: OnProgress | None,
    ) -> None:
        self.files = files
        self.names = names
        self.shape = (size, size, channels)
        self.on_progress = on_progress

    @property
    def n_bytes(self) -> int:
        """Size of all pixels."""
        return len(self.files) * int(np.prod(self.shape))

    def one(self, path: Path) -> Decoded:
        """Decode one file."""
        try:
            pixels = decode_image(path, size=self.shape[0], channels=self.shape[2])
            with path.open("rb") as file:
                return Decoded(pixels, hashlib.file_digest(file, "sha256").digest())
        except DataError as error:
            cause = error.__cause__
            may_pass = isinstance(cause, MemoryError) or (
                isinstance(cause, OSError) and cause.errno is not None
            )
            reason = str(error).removeprefix(refusal(path))
            return Decoded(None, reason=reason, may_pass=may_pass)
        except OSError as error:  # it was there a moment ago
            return Decoded(None, reason=f"{error.strerror or error}.", may_pass=True)

    def __iter__(self) -> Iterator[Decoded]:
        total = len(self.files)
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for start in range(0, total, CHUNK):
                chunk = pool.map(self.one, self.files[start : start + CHUNK])
                for done, result in enumerate(chunk, start + 1):
                    yield result
                    if self.on_progress is not None:
                        self.on_progress(done, total)


def _build(stem: Path, decode: _Decoder) -> tuple[np.ndarray, Record]:
    folder = stem.parent
    with _explain_errors(folder, decode):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(folder)
        if shutil.disk_usage(folder).free < decode.n_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        with open_aside(stem.with_suffix(".npy")) as file:
            record = _write_pixels(file, decode)
        with open_aside(stem.with_suffix(".json")) as file:
            file.write(json.dumps(asdict(record), indent=1).encode())
    return _open_pixels(stem.with_suffix(".npy"), record), record


def _write_pixels(file: IO[bytes], decode: _Decoder) -> Record:
    digest = hashlib.sha256(f"{FORMAT_VERSION} {decode.shape}".encode())
    bad: list[tuple[int, str]] = []
    final = True
    _write_header(file, (len(decode.files), *decode.shape))
    for index, (name, result) in enumerate(zip(decode.names, decode, strict=True)):
        digest.update(os.fsencode(f"\0{name}\0") + result.digest)
        if result.pixels is None:
            bad.append((index, result.reason))
            final = final and not result.may_pass
        else:
            file.write(result.pixels.tobytes())
    shape = (len(decode.files) - len(bad), *decode.shape)
    file.seek(0)
    _write_header(file, shape)  # NumPy leaves room for any number of rows
    return Record(shape, tuple(bad), digest.hexdigest(), final)


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> None:
    fields = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)


def _remove_stale(folder: Path) -> None:
    """Remove what builds that were killed left behind more than a day ago."""
    for path in folder.glob(f".*{ASIDE}"):
        try:
            if time.time() - path.stat().st_mtime > DAY:
                path.unlink()
        except OSError:  # another process was faster
            continue


@contextmanager
def _explain_errors(folder: Path, decode: _Decoder) -> Iterator[None]:
    """Turn errors of the file system into advice."""
    try:
        yield
    except OSError as error:
        advice = "Set INSTAAUG_CACHE or `cache_dir` to a folder on another disk"
        if is_full_disk(error):
            height, width, _ = decode.shape
            raise DataError(
                f"`cache_dir` must have room for the decoded images: {len(decode.files)} images "
                f"of {height} × {width} need {decode.n_bytes:,} bytes, and {str(folder)!r} has "
                f"{shutil.disk_usage(folder).free:,} bytes free. {advice}, or lower `size`."
            ) from error
        raise DataError(
            f"`cache_dir` must be a folder that can be written to: {str(folder)!r} cannot "
            f"({error.strerror or error}). {advice}."
        ) from error
