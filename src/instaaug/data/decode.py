"""Decode one image file to a square of bytes; the only place that uses Pillow."""

import io
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from instaaug.errors import ArgumentError, DataError

__all__ = [
    "GRAY_MODES",
    "IMAGE_ENDINGS",
    "PictureHeader",
    "check_shape",
    "decode_bytes",
    "decode_image",
    "from_array",
    "natural_size",
    "picture_pixels",
    "read_header",
    "refusal",
]

IMAGE_ENDINGS = (
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".gif", ".bmp", ".dib"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".tga"),
)
# Named, because Pillow would hand a PostScript file that calls itself .png to an interpreter.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "TGA")
GRAY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")
DEEP_MODES = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")
ORIENTATION = 0x0112  # the EXIF tag
MOST_JPEG_PIXELS = 1 << 28  # of a photo that is decoded at reduced scale
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
T = TypeVar("T")


class PictureHeader(NamedTuple):
    """The size and kind of an image, from its file's header."""

    height: int
    width: int
    is_gray: bool


def decode_image(path: str | Path, *, size: int, channels: int) -> np.ndarray:
    """The image in a file as bytes ``(size, size, channels)``.

    The largest centered square is scaled to ``size`` with an antialiasing bicubic filter: the
    short side fits, and what the long side has more is cut off evenly, in whole pixels. EXIF
    orientation is applied. Of an animation the first frame counts. What is transparent becomes
    white. Deep grayscale is scaled, not clipped, to 8 bits: 16-bit files by their bit depth,
    32-bit integers as 16 bits if their largest value fits and as 31 bits otherwise, floating-point
    files by the first of 1, 255, 65535 and their own maximum that none of their values exceeds.

    A JPEG whose half, quarter or eighth has at least twice the size is decoded at that scale, so
    that a photo of 100 megapixels and more takes little memory.

    Arguments:
        path: A file in one of the formats of ``IMAGE_ENDINGS``; its content decides, not its name.
        size: Height and width of the result in pixels.
        channels: 1 for grayscale, 3 for RGB.

    Raises:
        DataError: If the file is missing, empty, damaged, no image, or large enough to be taken
            for a decompression bomb; the message says which.
    """
    check_shape(size=size, channels=channels)
    return _read(path, str(path), lambda image: _decode(image, size=size, channels=channels))


def decode_bytes(data: bytes, *, name: str, size: int, channels: int) -> np.ndarray:
    """The image in the bytes of a file; ``name`` is what an error calls it."""
    check_shape(size=size, channels=channels)
    source = io.BytesIO(data)
    return _read(source, name, lambda image: _decode(image, size=size, channels=channels))


def natural_size(path: str | Path) -> tuple[int, int]:
    """Height and width of an image as a viewer would show it, from the file's header alone."""
    header = read_header(path)
    return header.height, header.width


def read_header(source: str | Path | bytes) -> PictureHeader:
    """Size and kind of the image in a file, or in a file's bytes, without decoding it."""

    def header(image: Any) -> PictureHeader:
        width, height = image.size
        # Pillow turns TIFF files by itself, and their size with them.
        if image.format != "TIFF" and _orientation(image) >= 5:
            width, height = height, width
        return PictureHeader(height, width, image.mode in GRAY_MODES)

    if isinstance(source, bytes):
        return _read(io.BytesIO(source), f"{len(source)} bytes", header)
    return _read(source, str(source), header)


def picture_pixels(image: Any, *, size: int, channels: int) -> np.ndarray:
    """A Pillow image as bytes ``(size, size, channels)``; see `decode_image`."""
    pillow = _pillow()
    image.load()
    orientation = _orientation(image)
    image = _flatten(_to_8_bits(image), "L" if channels == 1 else "RGB")
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2  # half a pixel would blur all of them
    square = image.resize(
        (size, size),
        pillow.Resampling.BICUBIC,
        box=(left, top, left + side, top + side),
        reducing_gap=3.0,
    )
    if orientation in TURNS:
        square = square.transpose(pillow.Transpose[TURNS[orientation]])
    return np.array(square, dtype=np.uint8).reshape(size, size, channels)


def from_array(array: np.ndarray) -> Any:
    """Bytes ``(H, W, C)`` as a Pillow image."""
    plane = array[..., 0] if array.shape[2] == 1 else array
    return _pillow().fromarray(np.ascontiguousarray(plane))


def check_shape(*, size: int | None, channels: int | None) -> None:
    """Raise if images cannot have this size or this number of channels; None is "choose"."""
    if size is not None and size < 1:
        raise ArgumentError(
            f"`size` must be at least 1 pixel: got {size}. Common sizes are 32, 64 and 224."
        )
    if channels not in (None, 1, 3):
        raise ArgumentError(
            f"`channels` must be 1 (grayscale) or 3 (RGB): got {channels}. Choose one of them."
        )


def refusal(name: str | Path) -> str:
    """How every message on an unreadable image begins; the reason follows."""
    return f"{str(name)!r} cannot be read as an image: "


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise ArgumentError(
            "Image files need the package Pillow, which is not installed. "
            "Install it with: pip install 'instaaug[train]'"
        ) from error
    return Image


def _read(source: str | Path | io.BytesIO, name: str, use: Callable[[Any], T]) -> T:
    """Open an image and use it; any error becomes a DataError with the file's name."""
    pillow = _pillow()
    try:
        with _quiet(pillow), _open(source, pillow) as image:
            return use(image)
    except Exception as error:  # on damaged files decoders raise anything, SyntaxError included
        raise DataError(f"{refusal(name)}{_reason(error, source, pillow)}.") from error


def _open(source: str | Path | io.BytesIO, pillow: ModuleType) -> Any:
    """An image whose pixels are not decoded yet; JPEGs may be very large."""
    try:
        return pillow.open(source, formats=FORMATS)
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError) as bomb:
        from PIL.JpegImagePlugin import JpegImageFile

        if isinstance(source, io.BytesIO):
            source.seek(0)
        try:
            image: Any = JpegImageFile(source)
        except SyntaxError:  # no JPEG
            raise bomb from None
        whole = image.info.get("progressive")  # all of it is in memory, whatever its scale
        if whole or image.width * image.height > MOST_JPEG_PIXELS:
            image.close()
            raise bomb from None
        return image


def _decode(image: Any, *, size: int, channels: int) -> np.ndarray:
    image.draft(None, (2 * size, 2 * size))  # JPEG decodes faster to a half, quarter or eighth
    pillow = _pillow()
    if pillow.MAX_IMAGE_PIXELS and image.width * image.height > pillow.MAX_IMAGE_PIXELS:
        raise pillow.DecompressionBombError  # a large JPEG that is to stay large
    return picture_pixels(image, size=size, channels=channels)


def _reason(error: Exception, source: str | Path | io.BytesIO, pillow: ModuleType) -> str:
    if isinstance(error, pillow.DecompressionBombWarning | pillow.DecompressionBombError):
        return (
            f"it claims more than {pillow.MAX_IMAGE_PIXELS:,} pixels, which Pillow takes for a "
            "decompression bomb; scale it down, or raise PIL.Image.MAX_IMAGE_PIXELS"
        )
    if isinstance(error, pillow.UnidentifiedImageError):
        return "it is empty (0 bytes)" if _is_empty(source) else "it is in no known image format"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return f"{error}".rstrip(".\n") or f"its decoder failed with {type(error).__name__}"


def _is_empty(source: str | Path | io.BytesIO) -> bool:
    if isinstance(source, io.BytesIO):
        return not source.getbuffer().nbytes
    return Path(source).stat().st_size == 0


def _orientation(image: Any) -> int:
    """The EXIF orientation, 1 (upright) if there is none or it makes no sense."""
    try:
        value = image.getexif().get(ORIENTATION, 1)
    except Exception:  # damaged metadata are no reason to refuse good pixels
        return 1
    return value if value in TURNS else 1


def _to_8_bits(image: Any) -> Any:
    """The image with 8 bits a channel."""
    if image.mode not in DEEP_MODES:
        return image
    values = np.asarray(image, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError("it holds NaN or infinite pixels")
    scaled = values * (255 / _white(image, float(values.max())))
    return _pillow().fromarray(scaled.clip(0, 255).round().astype(np.uint8))


def _white(image: Any, largest: float) -> float:
    """The value that stands for white."""
    if image.mode == "F":
        return next((top for top in (1.0, 255.0, 65535.0) if largest <= top), largest)
    if image.mode == "I":
        return 65535.0 if largest <= 65535 else 2.0**31 - 1
    bits = image.tag_v2.get(258, (16,)) if image.format == "TIFF" else (16,)  # BitsPerSample
    return 2.0 ** bits[0] - 1


def _flatten(image: Any, mode: str) -> Any:
    """The image in ``mode``, on white where it is transparent."""
    if not image.has_transparency_data:
        return image.convert(mode)
    if image.mode in ("La", "RGBa"):  # premultiplied; Pillow turns each only into its twin
        image = image.convert({"La": "LA", "RGBa": "RGBA"}[image.mode])
    image = image.convert("RGBA")
    white = _pillow().new("RGBA", image.size, "white")
    white.alpha_composite(image)
    return white.convert(mode)


class _Readers:
    """How many threads are inside `_quiet`, and what will restore the warnings."""

    lock = threading.Lock()
    count = 0
    filters = ExitStack()


@contextmanager
def _quiet(pillow: ModuleType) -> Iterator[None]:
    """Silence Pillow's own modules, make bombs errors; leave all other warnings as they are.

    Warning filters belong to the process, so the first thread in sets them and the last one out
    restores them; each for itself would restore what another had set.
    """
    with _Readers.lock:
        _Readers.count += 1
        if _Readers.count == 1:
            _Readers.filters.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", module=r"PIL\.")
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
    try:
        yield
    finally:
        with _Readers.lock:
            _Readers.count -= 1
            if _Readers.count == 0:
                _Readers.filters.close()
