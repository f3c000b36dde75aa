"""Every odd kind of image file becomes the same square of bytes, or an error that names it."""

import builtins
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from instaaug.data import decode
from instaaug.data.decode import (
    IMAGE_ENDINGS,
    decode_bytes,
    decode_image,
    natural_size,
    read_header,
)
from instaaug.errors import ArgumentError, DataError
from tests.support.picture_files import (
    BROKEN,
    bright_corner,
    fake_bomb,
    plain,
    save_rotated,
    twelve_bit_tiff,
)

COLOR = (200, 100, 50)
LUMA = round(0.299 * 200 + 0.587 * 100 + 0.114 * 50)  # ITU-R 601


@pytest.mark.parametrize("ending", [".png", ".bmp", ".tif", ".ppm", ".tga", ".jpg", ".webp"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_format_gives_its_color(tmp_path: Path, ending: str, channels: int) -> None:
    pixels = decode_image(plain(tmp_path / f"a{ending}"), size=16, channels=channels)
    assert pixels.shape == (16, 16, channels)
    assert pixels.dtype == np.uint8
    expected = COLOR if channels == 3 else (LUMA,)
    np.testing.assert_allclose(pixels.reshape(-1, channels).mean(axis=0), expected, atol=3)


def test_the_content_decides_the_format_not_the_name(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.png").rename(tmp_path / "a.jpg")
    assert tuple(decode_image(path, size=8, channels=3)[0, 0]) == COLOR


def test_an_image_of_the_right_size_is_not_touched(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (24, 24, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    np.testing.assert_array_equal(decode_image(tmp_path / "a.png", size=24, channels=3), noise)


def test_grayscale_becomes_three_equal_channels(tmp_path: Path) -> None:
    Image.new("L", (8, 8), 77).save(tmp_path / "a.png")
    assert (decode_image(tmp_path / "a.png", size=8, channels=3) == 77).all()


def test_one_bit_images_are_black_and_white(tmp_path: Path) -> None:
    Image.fromarray(np.eye(8) > 0).save(tmp_path / "a.png")
    pixels = decode_image(tmp_path / "a.png", size=8, channels=1)
    np.testing.assert_array_equal(pixels[..., 0], np.eye(8) * 255)


def test_a_cmyk_jpeg_has_the_colors_of_its_inks(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=95)
    pixels = decode_image(tmp_path / "a.jpg", size=8, channels=3)
    np.testing.assert_allclose(pixels.mean(axis=(0, 1)), (255, 0, 0), atol=4)


def test_a_progressive_jpeg_is_like_any_other(tmp_path: Path) -> None:
    bright_corner(256, 256).save(tmp_path / "a.jpg", progressive=True, quality=95)
    pixels = decode_image(tmp_path / "a.jpg", size=16, channels=1)
    assert pixels[:7, :7].min() > 245
    assert pixels[9:].max() < 10


@pytest.mark.parametrize("mode", ["LA", "RGBA", "P"])
def test_what_is_transparent_becomes_white(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 255))
    image.paste((0, 0, 0, 0), (8, 0, 16, 16))
    image.convert(mode).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as saved:
        assert saved.mode == mode
        assert saved.has_transparency_data
    pixels = decode_image(tmp_path / "a.png", size=16, channels=3)
    assert (pixels[:, :8] == 0).all()
    assert (pixels[:, 8:] == 255).all()


def test_a_transparent_entry_of_a_palette_becomes_white(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    image.paste(1, (0, 0, 4, 8))
    image.save(tmp_path / "a.gif", transparency=1)
    pixels = decode_image(tmp_path / "a.gif", size=8, channels=3)
    assert (pixels[:, :4] == 255).all()
    assert (pixels[:, 4:] == (255, 0, 0)).all()


def test_a_transparent_color_without_an_alpha_channel_becomes_white(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), (9, 8, 7)).save(tmp_path / "a.png", transparency=(9, 8, 7))
    assert (decode_image(tmp_path / "a.png", size=8, channels=3) == 255).all()


@pytest.mark.parametrize("ending", [".png", ".tif", ".pgm"])
def test_16_bit_grayscale_is_scaled_not_clipped(tmp_path: Path, ending: str) -> None:
    values = np.array([[0, 257], [32896, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / f"a{ending}")
    pixels = decode_image(tmp_path / f"a{ending}", size=2, channels=1)
    np.testing.assert_array_equal(pixels[..., 0], [[0, 1], [128, 255]])


def test_12_bit_grayscale_is_scaled_by_its_own_depth(tmp_path: Path) -> None:
    path = twelve_bit_tiff(tmp_path / "a.tif", (0, 2048, 4095, 1024))
    pixels = decode_image(path, size=2, channels=1)
    np.testing.assert_array_equal(pixels[..., 0], [[0, 128], [255, 64]])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 65535, 32896, 257], [0, 255, 128, 1]),
        ([0, 2**31 - 1, 2**30, -5], [0, 255, 128, 0]),
    ],
)
def test_32_bit_integers_are_taken_as_16_or_31_bits(
    tmp_path: Path, values: list[int], expected: list[int]
) -> None:
    Image.fromarray(np.array(values, dtype=np.int32).reshape(2, 2)).save(tmp_path / "a.tif")
    pixels = decode_image(tmp_path / "a.tif", size=2, channels=1)
    assert pixels.ravel().tolist() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0, 0.5, 0.25], [0, 255, 128, 64]),
        ([0.0, 255.0, 128.0, -3.0], [0, 255, 128, 0]),
        ([0.0, 65535.0, 32896.0, 257.0], [0, 255, 128, 1]),
        ([0.0, 1e6, 4e5, 0.0], [0, 255, 102, 0]),
    ],
)
def test_floating_point_images_are_scaled_to_bytes(
    tmp_path: Path, values: list[float], expected: list[int]
) -> None:
    Image.fromarray(np.array(values, dtype=np.float32).reshape(2, 2)).save(tmp_path / "a.tif")
    pixels = decode_image(tmp_path / "a.tif", size=2, channels=1)
    assert pixels.ravel().tolist() == expected


def test_floating_point_images_with_nan_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), np.nan, dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(DataError, match=r"a\.tif' cannot be read as an image: it holds NaN or"):
        decode_image(tmp_path / "a.tif", size=4, channels=1)


# Where the white quarter ends up: (row, column), after the turn that the tag asks for.
CORNERS = {
    1: (0, 0),
    2: (0, -1),
    3: (-1, -1),
    4: (-1, 0),
    5: (0, 0),
    6: (0, -1),
    7: (-1, -1),
    8: (-1, 0),
}


@pytest.mark.parametrize("ending", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("orientation", CORNERS)
def test_exif_orientation_is_applied(tmp_path: Path, ending: str, orientation: int) -> None:
    path = save_rotated(tmp_path / f"a{ending}", bright_corner(64, 64), orientation)
    pixels = decode_image(path, size=16, channels=1)[..., 0]
    corners = {(row, column): int(pixels[row, column]) for row in (0, -1) for column in (0, -1)}
    assert max(corners, key=lambda corner: corners[corner]) == CORNERS[orientation]
    assert sorted(corners.values())[2] < 20


def test_flips_and_transpositions_differ(tmp_path: Path) -> None:
    """Orientations 1 and 5 put the corner into the same place; a stripe tells them apart."""
    image = Image.new("L", (32, 32))
    image.paste(255, (0, 0, 32, 8))  # the upper edge
    upright = decode_image(save_rotated(tmp_path / "a.png", image, 1), size=32, channels=1)
    transposed = decode_image(save_rotated(tmp_path / "b.png", image, 5), size=32, channels=1)
    np.testing.assert_array_equal(transposed, upright.transpose(1, 0, 2))
    assert upright[0, -1] == 255


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
@pytest.mark.parametrize("ending", [".jpg", ".tif"])
def test_the_natural_size_is_that_of_the_upright_image(
    tmp_path: Path, orientation: int, ending: str
) -> None:
    path = save_rotated(tmp_path / f"a{ending}", bright_corner(64, 32), orientation)
    assert natural_size(path) == ((32, 64) if orientation < 5 else (64, 32))


def test_an_orientation_that_makes_no_sense_is_ignored(tmp_path: Path) -> None:
    path = save_rotated(tmp_path / "a.png", bright_corner(16, 16), 99)
    assert decode_image(path, size=16, channels=1)[0, 0] == 255


def test_of_an_animation_the_first_frame_counts(tmp_path: Path) -> None:
    red, green = (Image.new("RGB", (8, 8), color) for color in ("red", "lime"))
    red.save(tmp_path / "a.gif", save_all=True, append_images=[green])
    assert (decode_image(tmp_path / "a.gif", size=8, channels=3) == (255, 0, 0)).all()


def test_one_pixel_fills_the_square(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.png", size=(1, 1))
    assert (decode_image(path, size=32, channels=3) == COLOR).all()


def test_of_a_long_image_the_middle_is_kept(tmp_path: Path) -> None:
    image = Image.new("L", (3000, 20))
    image.paste(255, (1490, 0, 1510, 20))
    image.save(tmp_path / "a.png")
    assert (decode_image(tmp_path / "a.png", size=20, channels=1) == 255).all()
    assert natural_size(tmp_path / "a.png") == (20, 3000)


def test_downscaling_averages_instead_of_picking_pixels(tmp_path: Path) -> None:
    checkers = np.indices((512, 512)).sum(axis=0) % 2 * 255
    Image.fromarray(checkers.astype(np.uint8)).save(tmp_path / "a.png")
    pixels = decode_image(tmp_path / "a.png", size=16, channels=1)
    np.testing.assert_allclose(pixels, 127.5, atol=3)


def test_a_large_jpeg_decoded_small_looks_like_one_decoded_whole(tmp_path: Path) -> None:
    y, x = np.indices((800, 800)) / 800
    waves = (np.sin(9 * x + 4 * y) * 110 + 128).astype(np.uint8)
    Image.fromarray(waves).save(tmp_path / "a.jpg", quality=95)
    Image.fromarray(waves).save(tmp_path / "a.png")
    small, whole = (
        decode_image(tmp_path / f"a{ending}", size=48, channels=1).astype(int)
        for ending in (".jpg", ".png")
    )
    assert np.abs(small - whole).mean() < 1.5


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named_with_the_reason(tmp_path: Path, kind: str) -> None:
    ending, make, reason = BROKEN[kind]
    path = make(tmp_path / f"broken{ending}")
    with pytest.raises(
        DataError, match=rf"broken{ending}' cannot be read as an image: .*{reason}"
    ):
        decode_image(path, size=8, channels=3)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.png' cannot be read as an image: no such file"):
        decode_image(tmp_path / "none.png", size=8, channels=3)
    with pytest.raises(DataError, match=r"none\.png' cannot be read as an image: no such file"):
        natural_size(tmp_path / "none.png")


@pytest.mark.parametrize("side", [10_000, 30_000])  # Pillow warns of the first, refuses the second
def test_decompression_bombs_are_refused_unopened(tmp_path: Path, side: int) -> None:
    path = fake_bomb(tmp_path / "bomb.png", side, side)
    with pytest.raises(DataError, match=r"bomb\.png' .* takes for a decompression bomb; scale"):
        decode_image(path, size=8, channels=3)
    with pytest.raises(DataError, match=r"bomb\.png' .* takes for a decompression bomb; scale"):
        natural_size(path)


def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)


@pytest.mark.parametrize("limit", [400 * 300 - 1, 10_000], ids=["warned of", "refused by Pillow"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_photos_beyond_the_limit_are_decoded_at_reduced_scale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, in_memory: bool
) -> None:
    path = tmp_path / "large.jpg"
    Image.fromarray(photo()).save(path)
    expected = decode_image(path, size=16, channels=3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    if in_memory:
        found = decode_bytes(path.read_bytes(), name="large", size=16, channels=3)
    else:
        found = decode_image(path, size=16, channels=3)
        assert natural_size(path) == (300, 400)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("kind", ["png", "progressive", "larger than any photo", "to stay large"])
def test_what_would_fill_the_memory_is_refused_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / ("large.png" if kind == "png" else "large.jpg")
    Image.fromarray(photo()).save(path, progressive=kind == "progressive")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    if kind == "larger than any photo":
        monkeypatch.setattr(decode, "MOST_JPEG_PIXELS", 100_000)
    with pytest.raises(DataError, match=r"claims more than 10,000 pixels, .* decompression bomb"):
        decode_image(path, size=150 if kind == "to stay large" else 16, channels=3)


def test_filters_of_warnings_are_as_before_after_many_threads(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.png")
    before = list(warnings.filters)

    def work() -> None:
        for _ in range(20):
            decode_image(path, size=8, channels=3)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(warnings.filters) == before


def test_damaged_metadata_do_not_matter(tmp_path: Path) -> None:
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff garbage"
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.jpg", exif=exif)
    pixels = decode_image(tmp_path / "a.jpg", size=8, channels=3)
    np.testing.assert_allclose(pixels.mean(axis=(0, 1)), (255, 0, 0), atol=3)


def test_bytes_decode_like_the_file_they_come_from(tmp_path: Path) -> None:
    path = plain(tmp_path / "a.jpg")
    pixels = decode_bytes(path.read_bytes(), name="row 7", size=8, channels=3)
    np.testing.assert_array_equal(pixels, decode_image(path, size=8, channels=3))
    assert read_header(path.read_bytes()) == read_header(path)


def test_broken_bytes_are_called_by_their_name() -> None:
    with pytest.raises(DataError, match=r"'row 7' cannot be read as an image: it is empty"):
        decode_bytes(b"", name="row 7", size=8, channels=3)


@pytest.mark.parametrize(
    ("mode", "is_gray"), [("1", True), ("L", True), ("LA", True), ("RGB", False), ("P", False)]
)
def test_the_header_tells_gray_from_color(tmp_path: Path, mode: str, is_gray: bool) -> None:
    Image.new(mode, (4, 4)).save(tmp_path / "a.png")
    assert read_header(tmp_path / "a.png").is_gray is is_gray


@pytest.mark.parametrize("size", [0, -3])
def test_size_must_be_positive(tmp_path: Path, size: int) -> None:
    with pytest.raises(ArgumentError, match=rf"`size` must be at least 1 pixel: got {size}"):
        decode_image(tmp_path / "a.png", size=size, channels=3)


@pytest.mark.parametrize("channels", [0, 2, 4])
def test_channels_are_one_or_three(tmp_path: Path, channels: int) -> None:
    with pytest.raises(ArgumentError, match=rf"`channels` must be 1 .* or 3 .*: got {channels}"):
        decode_image(tmp_path / "a.png", size=8, channels=channels)


def test_without_pillow_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = plain(tmp_path / "a.png")
    true_import = builtins.__import__

    def without_pillow(name: str, *rest: object) -> object:
        if name == "PIL":
            raise ImportError(name)
        return true_import(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(ArgumentError, match=r"pip install 'instaaug\[train\]'"):
        decode_image(path, size=8, channels=3)


def test_endings_are_lower_case_and_start_with_a_dot() -> None:
    assert all(ending.startswith(".") and ending == ending.lower() for ending in IMAGE_ENDINGS)


def test_a_photo_of_the_right_height_is_cut_and_not_blurred(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 21, 3), dtype=np.uint8)
    path = tmp_path / "wide.png"
    Image.fromarray(pixels).save(path)
    np.testing.assert_array_equal(decode_image(path, size=16, channels=3), pixels[:, 2:18])
