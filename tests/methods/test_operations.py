"""Operations of policies held against Pillow, one by one and in sequence."""

from collections.abc import Callable
from math import degrees

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.functional.warp import warp
from instaaug.methods.operations import HOLE_PLACES, OPERATIONS, SIGNED, Operations, number_of
from tests.support.images import interior, largest_difference, random_images, smooth_images

SIZES = [(32, 32), (24, 40)]
EVERY_SIZE = pytest.mark.parametrize("size", SIZES, ids=str)
Change = Callable[[Image.Image, float], Image.Image]


def affine(*entries: float) -> Callable[[Image.Image], Image.Image]:
    return lambda image: image.transform(image.size, Image.Transform.AFFINE, entries)


GEOMETRY: dict[str, Change] = {
    "shear_x": lambda image, v: affine(1, v, 0, 0, 1, 0)(image),
    "shear_y": lambda image, v: affine(1, 0, 0, v, 1, 0)(image),
    "translate_x": lambda image, v: affine(1, 0, -v * image.width, 0, 1, 0)(image),
    "translate_y": lambda image, v: affine(1, 0, 0, 0, 1, -v * image.height)(image),
    "rotate": lambda image, v: image.rotate(degrees(v)),
}
PIXELS: dict[str, tuple[Change, list[float], float]] = {
    "brightness": (lambda i, v: ImageEnhance.Brightness(i).enhance(1 + v), [-0.9, 0.3, 0.9], 1.0),
    "color": (lambda i, v: ImageEnhance.Color(i).enhance(1 + v), [-0.9, 0.3, 0.9], 1.5),
    "contrast": (lambda i, v: ImageEnhance.Contrast(i).enhance(1 + v), [-0.9, 0.3, 0.9], 2.0),
    "sharpness": (lambda i, v: ImageEnhance.Sharpness(i).enhance(1 + v), [-0.9, 0.3, 0.9], 1.5),
    "posterize": (lambda i, v: ImageOps.posterize(i, round(v)), [8.0, 4.0, 2.0], 0.0),
    "solarize": (ImageOps.solarize, [255.0, 255 * (1 - 5 / 9), 0.0], 0.0),  # type: ignore[dict-item]
    "auto_contrast": (lambda i, _: ImageOps.autocontrast(i), [0.0], 1.0),
    "equalize": (lambda i, _: ImageOps.equalize(i), [0.0], 0.0),
    "invert": (lambda i, _: ImageOps.invert(i), [0.0], 0.0),
    "flip": (lambda i, _: ImageOps.mirror(i), [0.0], 0.0),
    "identity": (lambda i, _: i, [0.0], 0.0),
}
"""What Pillow calls it, values to try, and by how many levels its rounding may differ."""


def pictures(n: int, size: tuple[int, int]) -> Tensor:
    return (random_images(n, height=size[0], width=size[1], seed=2) * 200 + 20).round() / 255


def with_pillow(x: Tensor, change: Change, values: list[float]) -> Tensor:
    out = []
    for image, value in zip(x, values, strict=True):
        levels = (image * 255).round().byte().permute(1, 2, 0).numpy()
        picture = change(Image.fromarray(levels), value)
        out.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
    return torch.stack(out).float() / 255


def one_step(name: str, values: list[float]) -> Tensor:
    return torch.tensor([[float(number_of(name)), value] for value in values])


@pytest.mark.parametrize("name", GEOMETRY)
@EVERY_SIZE
def test_geometry_reads_the_pixels_that_pillow_reads(name: str, size: tuple[int, int]) -> None:
    # A pixel on the line between two may go to either: 1 in 1000 at most.
    values = [0.0, 0.23, -0.17, 0.07, -0.41]
    if name.startswith("translate"):  # whole pixels
        side = size[1] if name == "translate_x" else size[0]
        values = [pixels / side for pixels in (0, 5, -3, 1, side - 1)]
    x = pictures(5, size)
    out = Operations(1, "nearest").apply(x, one_step(name, values))
    expected = with_pillow(x, GEOMETRY[name], values)
    differs = ((out - expected).abs() > 1e-6).float().mean()
    assert differs <= 0.001
    assert largest_difference(out[:1], x[:1]) == 0  # a value of 0 does nothing


@EVERY_SIZE
def test_bilinear_geometry_is_pillows_within_the_image(size: tuple[int, int]) -> None:
    # Pillow rounds to whole levels, and weights to 1/256 or so.
    x = smooth_images(2, height=size[0], width=size[1], dtype=torch.float32)
    x = (x * 255).round() / 255
    out = Operations(1).apply(x, one_step("rotate", [0.3, -0.2]))

    def turned(image: Image.Image, angle: float) -> Image.Image:
        return image.rotate(degrees(angle), resample=Image.Resampling.BILINEAR)

    expected = with_pillow(x, turned, [0.3, -0.2])
    assert largest_difference(interior(out, 8), interior(expected, 8)) <= 1.1 / 255


@pytest.mark.parametrize("name", PIXELS)
@EVERY_SIZE
def test_pixels_are_changed_as_pillow_does_it(name: str, size: tuple[int, int]) -> None:
    change, values, levels = PIXELS[name]
    x = pictures(len(values), size)
    out = Operations(1).apply(x, one_step(name, values))
    expected = with_pillow(x, change, values)
    assert largest_difference(out, expected) <= (levels + 1e-3) / 255


def test_every_operation_is_tried() -> None:
    assert set(OPERATIONS) == {*GEOMETRY, *PIXELS, "zoom", "cutout"}
    assert OPERATIONS[0] == "identity"
    assert len(SIGNED) == 9


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_zoom_enlarges_about_the_middle(factor: float) -> None:
    x = smooth_images(1, height=40, width=60)
    out = Operations(1).apply(x, one_step("zoom", [factor - 1]), padding_mode="reflection")
    eye = torch.diag(torch.tensor([1 / factor, 1 / factor, 1.0]))[None]
    assert largest_difference(out, warp(x, eye, padding_mode="reflection")) <= 1e-6


def with_a_hole(image: Tensor, value: float) -> Tensor:
    """Pixel by pixel: gray as far as the square covers it."""
    height, width = image.shape[1:]
    place = int(value)
    middle = ((place % 16 + 0.5) / 16 * width, (place // 16 + 0.5) / 16 * height)
    half = (value - place) * width / 2
    out = image.clone()
    for y in range(height):
        for x in range(width):
            across = min(x + 1, middle[0] + half) - max(x, middle[0] - half)
            down = min(y + 1, middle[1] + half) - max(y, middle[1] - half)
            share = max(across, 0) * max(down, 0)
            out[:, y, x] = (1 - share) * out[:, y, x] + share * 0.5
    return out


@EVERY_SIZE
def test_cutout_grays_a_square_in_its_place(size: tuple[int, int]) -> None:
    values = [17.0, 17.21, 100.4, 135.13, 255.37, 15.2]  # the last two reach over the border
    x = pictures(len(values), size)
    out = Operations(1).apply(x, one_step("cutout", values))
    expected = [with_a_hole(image, value) for image, value in zip(x, values, strict=True)]
    assert largest_difference(out, torch.stack(expected)) <= 1e-4  # 255.37 has 5 decimals
    assert torch.equal(out[0], x[0])


def test_every_place_of_a_hole_is_another() -> None:
    x = torch.zeros(HOLE_PLACES, 1, 16, 16)
    values = [place + 1 / 16 for place in range(HOLE_PLACES)]
    holes = Operations(1).apply(x, one_step("cutout", values)) > 0
    assert torch.equal(holes.flatten(1), torch.eye(HOLE_PLACES, dtype=torch.bool))


def test_steps_follow_one_another_and_every_image_has_its_own() -> None:
    x = pictures(3, (24, 40))
    names = [("equalize", "rotate"), ("rotate", "equalize"), ("shear_x", "solarize")]
    values = [(0.0, 0.3), (-0.2, 0.0), (0.25, 100.0)]
    theta = torch.tensor(
        [
            [number for name, v in zip(n, vs, strict=True) for number in (number_of(name), v)]
            for n, vs in zip(names, values, strict=True)
        ]
    )
    out = Operations(2).apply(x, theta)
    for i in range(3):
        alone = x[i : i + 1]
        for name, value in zip(names[i], values[i], strict=True):
            alone = Operations(1).apply(alone, one_step(name, [value]))
        assert torch.equal(out[i : i + 1], alone)


def test_what_lies_outside_is_up_to_the_user() -> None:
    white = torch.ones(1, 3, 16, 16)
    far = one_step("translate_x", [0.5])
    assert Operations(1).apply(white, far)[0, 0, 0, 0] == 0
    assert Operations(1).apply(white, far, padding_mode="border")[0, 0, 0, 0] == 1


def test_the_matrix_of_two_steps_is_that_of_both_warps() -> None:
    x = smooth_images(2, height=48, width=64)
    steps = [[("rotate", 0.2), ("shear_y", 0.1)], [("zoom", 0.1), ("equalize", 0.0)]]
    theta = torch.tensor([[n for o, v in row for n in (number_of(o), v)] for row in steps])
    transform = Operations(2)
    out = warp(x, transform.matrix(theta, aspect=64 / 48))
    expected = torch.cat(
        [
            transform.apply(x[:1], theta[:1]),
            Operations(1).apply(x[1:], one_step("zoom", [0.1])),
        ]
    )
    assert largest_difference(interior(out, 14), interior(expected, 14)) <= 2e-3


def test_the_matrix_of_a_flip_mirrors_what_the_steps_before_it_made() -> None:
    x = smooth_images(1, height=48, width=64)
    theta = torch.cat([one_step("rotate", [0.2]), one_step("flip", [0.0])], dim=1)
    out = warp(x, Operations(2).matrix(theta, aspect=64 / 48))
    expected = Operations(2).apply(x, theta)
    assert torch.equal(expected, Operations(1).apply(x, theta[:, :2]).flip(-1))
    assert largest_difference(interior(out, 14), interior(expected, 14)) <= 2e-3


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_the_precision_stays(dtype: torch.dtype) -> None:
    x = pictures(len(OPERATIONS), (16, 16)).to(dtype)
    theta = torch.tensor([[float(i), 4.0 if i > 6 else 0.2] for i in range(len(OPERATIONS))])
    out = Operations(1).apply(x, theta)
    assert out.dtype == dtype
    assert out.isfinite().all()


def test_gradients_flow_through_warps_and_enhancements() -> None:
    names = ("rotate", "contrast", "sharpness", "auto_contrast", "identity")
    x = pictures(len(names), (16, 16)).requires_grad_()
    theta = torch.cat([one_step(name, [0.3]) for name in names])
    Operations(1).apply(x, theta).square().sum().backward()
    assert x.grad is not None
    assert (x.grad.flatten(1).abs().sum(dim=1) > 0).all()


def test_an_image_without_an_operation_is_left_to_the_last_bit() -> None:
    x = pictures(2, (16, 16))
    assert torch.equal(Operations(3).apply(x, torch.zeros(2, 6)), x)


def test_theta_has_two_columns_per_step() -> None:
    assert Operations(2).columns == ("operation", "value", "operation", "value")
    with pytest.raises(ShapeError, match=r"`theta` of operations must be \(2, 4\), a row per im"):
        Operations(2).apply(pictures(2, (16, 16)), torch.zeros(2, 2))


@pytest.mark.parametrize("n_steps", [0, -1, 101])
def test_the_number_of_steps_is_checked(n_steps: int) -> None:
    with pytest.raises(ArgumentError, match="`n_steps` must be a whole number from 1 to 100: got"):
        Operations(n_steps)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no operation called 'rotation'\. Did you mean 'r"
    ):
        number_of("rotation")
    assert number_of("rotate") == OPERATIONS.index("rotate")
