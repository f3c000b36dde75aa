"""Operations of policies held against Pillow, one by one and in sequence."""

from collections import Counter
from collections.abc import Callable
from math import degrees, pi

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError, UnknownNameError
from instaaug.functional.warp import warp
from instaaug.methods import AutoAugment, RandAugment, TrivialAugment
from instaaug.methods.auto_augment import POLICIES
from instaaug.methods.operations import (
    HOLE_PLACES,
    NARROW,
    OPERATIONS,
    RAND_OPERATIONS,
    SIGNED,
    WIDE,
    DrawnOperations,
    Operations,
    add_hole_places,
    operation_index,
)
from tests.support.goodness_of_fit import ERROR_PROBABILITY, chi_square_p
from tests.support.images import interior, largest_difference, random_images, smooth_images
from tests.support.models import images
from tests.support.unhooked import unhooked

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
    return torch.tensor([[float(operation_index(name)), value] for value in values])


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
            [
                number
                for name, v in zip(n, vs, strict=True)
                for number in (operation_index(name), v)
            ]
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
    theta = torch.tensor([[n for o, v in row for n in (operation_index(o), v)] for row in steps])
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
        operation_index("rotation")
    assert operation_index("rotate") == OPERATIONS.index("rotate")


N_DRAWS = 6000
METHODS: dict[str, Callable[..., DrawnOperations]] = {
    "auto": AutoAugment,
    "rand": RandAugment,
    "trivial": TrivialAugment,
}
EVERY = pytest.mark.parametrize("name", METHODS)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(aug: DrawnOperations, *, side: int = 32, seed: int = 0) -> Tensor:
    """θ of N_DRAWS draws, (N_DRAWS, steps, 2)."""
    x = torch.zeros(N_DRAWS // 4, 1, side, side)
    return aug.draw(x, 4, generator=seeded(seed)).flatten(0, 1).unflatten(-1, (-1, 2))


def row(name: str, table: Tensor) -> list[float]:
    return [round(value, 4) for value in table[operation_index(name)].tolist()]


def test_the_ten_magnitudes_of_auto_augment() -> None:
    table = NARROW.table(10, height=331, width=662)
    assert row("posterize", table) == [8, 8, 7, 7, 6, 6, 5, 5, 4, 4]
    assert row("shear_x", table) == row("shear_y", table)
    assert row("shear_x", table)[::3] == [0, 0.1, 0.2, 0.3]
    assert row("rotate", table)[9] == round(pi / 6, 4)
    assert row("color", table) == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert row("solarize", table)[::3] == [255, 170, 85, 0]
    # 150 pixels of 331; 16.67 of them are cut off to 16
    assert row("translate_y", table)[9] == round(150 / 331, 4)
    assert row("translate_y", table)[1] == round(16 / 331, 4)
    assert row("translate_x", table)[1] == round(33 / 662, 4)


def test_magnitude_nine_of_rand_augment() -> None:
    table = NARROW.table(31, height=224, width=224)[:, 9]
    found = {name: round(float(table[operation_index(name)]), 4) for name in RAND_OPERATIONS}
    assert found == {
        "identity": 0, "shear_x": 0.09, "shear_y": 0.09,
        "translate_x": round(30 / 224, 4), "translate_y": round(30 / 224, 4),
        "rotate": round(9 * pi / 180, 4), "brightness": 0.27, "color": 0.27, "contrast": 0.27,
        "sharpness": 0.27, "posterize": 7, "solarize": 178.5, "auto_contrast": 0, "equalize": 0,
    }  # fmt: skip


def test_the_widest_magnitudes_of_trivial_augment() -> None:
    table = WIDE.table(31, height=64, width=128)
    found = {name: row(name, table)[30] for name in RAND_OPERATIONS}
    assert found == {
        "identity": 0, "shear_x": 0.99, "shear_y": 0.99, "translate_x": 0.25, "translate_y": 0.5,
        "rotate": round(0.75 * pi, 4), "brightness": 0.99, "color": 0.99, "contrast": 0.99,
        "sharpness": 0.99, "posterize": 2, "solarize": 0, "auto_contrast": 0, "equalize": 0,
    }  # fmt: skip
    assert row("posterize", table) == [round(8 - i / 5) for i in range(31)]
    assert row("translate_x", table)[1] == round(1 / 128, 4)  # 1.07 pixels


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_are_25_pairs_of_steps_in_tenths(policy: str) -> None:
    assert len(POLICIES[policy]) == 25
    for pair in POLICIES[policy]:
        for name, probability, magnitude_bin in pair:
            assert name in OPERATIONS
            assert round(10 * probability) in range(11)
            assert magnitude_bin in range(10)


@pytest.mark.parametrize("policy", POLICIES)
def test_sub_policies_are_drawn_with_their_probabilities(policy: str) -> None:
    """Pearson's test on all outcomes; a right sampler fails with ERROR_PROBABILITY."""
    table = NARROW.table(10, height=32, width=32)
    probs: Counter[tuple[float, ...]] = Counter()
    for pair in POLICIES[policy]:
        outcomes: dict[tuple[float, ...], float] = {(): 1 / 25}
        for name, probability, magnitude_bin in pair:
            value = round(float(table[operation_index(name), magnitude_bin]), 5)
            signs = (1, -1) if name in SIGNED and value else (1,)
            ways = {(0.0, 0.0): 1 - probability}
            for sign in signs:
                ways[(float(operation_index(name)), sign * value)] = probability / len(signs)
            outcomes = {
                (*before, *way): p * q
                for before, p in outcomes.items()
                for way, q in ways.items()
                if q > 0
            }
        probs.update(outcomes)
    theta = drawn(AutoAugment(policy))  # type: ignore[arg-type]
    found = Counter(tuple(round(v, 5) + 0.0 for v in one) for one in theta.flatten(1).tolist())
    assert set(found) <= set(probs)
    counts = torch.tensor([found[outcome] for outcome in probs])
    assert chi_square_p(counts, torch.tensor(list(probs.values()))) > ERROR_PROBABILITY


@pytest.mark.parametrize("n_operations", [1, 2, 3])
def test_rand_augment_draws_every_sequence_alike(n_operations: int) -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    theta = drawn(RandAugment(n_operations=n_operations), side=64)
    assert theta.shape == (N_DRAWS, n_operations, 2)
    places = torch.tensor([RAND_OPERATIONS.index(OPERATIONS[int(i)]) for i in theta[:, 0, 0]])
    if n_operations > 1:  # pairs, in order
        second = [RAND_OPERATIONS.index(OPERATIONS[int(i)]) for i in theta[:, 1, 0]]
        places = places * 14 + torch.tensor(second)
    k = 14 ** min(n_operations, 2)
    counts = torch.bincount(places, minlength=k)
    assert chi_square_p(counts, torch.full((k,), 1 / k)) > ERROR_PROBABILITY


def test_rand_augment_takes_one_magnitude_in_both_directions() -> None:
    """Binomial counts, per operation and in all, 5 standard deviations: 6e-7 each."""
    theta = drawn(RandAugment(magnitude=12), side=64).flatten(0, 1)
    table = NARROW.table(31, height=64, width=64)[:, 12]
    signed = torch.isin(
        theta[:, 0], torch.tensor([float(operation_index(name)) for name in SIGNED])
    )
    n_negative, n = int((theta[signed, 1] < 0).sum()), int(signed.sum())
    assert abs(n_negative - n / 2) <= 5 * (n / 4) ** 0.5
    for name in RAND_OPERATIONS:
        values = theta[theta[:, 0] == operation_index(name), 1]
        assert torch.equal(values.abs(), table[operation_index(name)].expand(len(values)))
        n_negative, n = int((values < 0).sum()), len(values)
        if name in SIGNED:
            assert abs(n_negative - n / 2) <= 5 * (n / 4) ** 0.5
        else:
            assert n_negative == 0


def test_trivial_augment_draws_operations_and_magnitudes_alike() -> None:
    """Pearson's test, twice; a right sampler fails with ERROR_PROBABILITY."""
    theta = drawn(TrivialAugment(), side=64)[:, 0]
    places = torch.tensor([RAND_OPERATIONS.index(OPERATIONS[int(i)]) for i in theta[:, 0]])
    counts = torch.bincount(places, minlength=14)
    assert chi_square_p(counts, torch.full((14,), 1 / 14)) > ERROR_PROBABILITY
    enhanced = [
        operation_index(n) for n in ("brightness", "color", "contrast", "sharpness", "rotate")
    ]
    rows = torch.isin(theta[:, 0], torch.tensor(enhanced).float())
    most = torch.where(theta[rows, 0] == operation_index("rotate"), 0.75 * pi, 0.99)
    bins = (theta[rows, 1].abs() / most * 30).round().long()
    counts = torch.bincount(bins, minlength=31)
    assert chi_square_p(counts, torch.full((31,), 1 / 31)) > ERROR_PROBABILITY


@EVERY
def test_inputs_and_samples_have_draws_of_their_own(name: str) -> None:
    theta = METHODS[name]().draw(images(8), 4, generator=seeded(3))
    assert len({str(one) for one in theta[0].tolist()}) >= 4
    assert len({str(one) for one in theta[:, 0].tolist()}) >= 2


def test_holes_are_drawn_everywhere_alike_and_nothing_else_is_moved() -> None:
    """Pearson's test; a right sampler fails with ERROR_PROBABILITY."""
    cutout, rotate = operation_index("cutout"), operation_index("rotate")
    operation = torch.tensor([cutout, rotate]).repeat(256 * 30, 1)
    value = add_hole_places(operation, torch.full(operation.shape, 0.25), seeded(5))
    assert (value[:, 1] == 0.25).all()
    assert (value[:, 0] - value[:, 0].floor() == 0.25).all()
    counts = torch.bincount(value[:, 0].long(), minlength=256)
    assert chi_square_p(counts, torch.full((256,), 1 / 256)) > ERROR_PROBABILITY


def test_the_operations_of_rand_augment_are_the_published_fourteen() -> None:
    assert len(RAND_OPERATIONS) == 14
    assert not {"zoom", "invert", "cutout", "flip"} & set(RAND_OPERATIONS)


@EVERY
def test_rendering_is_deterministic_and_image_by_image(name: str) -> None:
    aug, x = METHODS[name](), images(16)
    theta = aug.draw(x, 1, generator=seeded(1))[0]
    out = aug.render(x, theta)
    assert torch.equal(out, aug.render(x, theta))
    alone = [aug.render(x[i : i + 1], theta[i : i + 1]) for i in range(16)]
    torch.testing.assert_close(out, torch.cat(alone), atol=1e-6, rtol=0)
    assert out.min() >= 0
    assert out.max() <= 1
    assert not torch.equal(out, x)


@EVERY
def test_normalized_images_are_changed_as_they_would_be_without(name: str) -> None:
    x, mean, std = images(24), (0.2, 0.3, 0.4), (0.5, 0.6, 0.7)
    x = (x * 255).round() / 255
    m, s = (torch.tensor(v).view(1, 3, 1, 1) for v in (mean, std))
    plain, normalized = METHODS[name](), METHODS[name](mean=mean, std=std)
    theta = plain.draw(x, 1, generator=seeded(2))[0]
    out = normalized.render((x - m) / s, theta) * s + m
    torch.testing.assert_close(out, plain.render(x, theta), atol=1e-5, rtol=0)


@EVERY
def test_padding_is_honored(name: str) -> None:
    white = torch.ones(1, 3, 16, 16)
    theta = torch.zeros(1, METHODS[name]().transform.n_parameters)
    theta[0, :2] = torch.tensor([float(operation_index("translate_x")), 0.5])
    black, same = METHODS[name](), METHODS[name](padding_mode="border")
    assert black.render(white, theta)[0, 0, 0].tolist() == [0.0] * 8 + [1.0] * 8
    assert torch.equal(same.render(white, theta), white)


@EVERY
def test_interpolation_is_that_of_the_source_unless_it_is_chosen(name: str) -> None:
    x = images(1)
    theta = torch.zeros(1, METHODS[name]().transform.n_parameters)
    theta[0, :2] = torch.tensor([float(operation_index("rotate")), 0.3])
    levels = set(x.flatten().tolist()) | {0.0}
    assert set(METHODS[name]().render(x, theta).flatten().tolist()) <= levels
    smooth = METHODS[name](interpolation="bilinear")
    assert not set(smooth.render(x, theta).flatten().tolist()) <= levels


@EVERY
def test_another_size_is_honored_and_operations_act_on_what_comes_out(name: str) -> None:
    x = images(12, height=32, width=32)
    aug = METHODS[name](size=(16, 24))
    theta = aug.draw(x, 1, generator=seeded(4))[0]
    with unhooked():  # the shape checker wants one size
        out, small = aug.render(x, theta), aug.transform.resize(x)
    assert out.shape == (12, 3, 16, 24)
    torch.testing.assert_close(out, METHODS[name]().render(small, theta), atol=1e-6, rtol=0)


def test_moves_are_whole_pixels_of_what_comes_out() -> None:
    x = torch.zeros(4000, 1, 8, 8)
    theta = TrivialAugment(size=(64, 100)).draw(x, 1, generator=seeded())[0]
    for name, side in (("translate_x", 100), ("translate_y", 64)):
        pixels = theta[theta[:, 0] == operation_index(name), 1] * side
        torch.testing.assert_close(pixels, pixels.round(), atol=1e-4, rtol=0)
        assert pixels.abs().max() == 32


def test_the_settings_can_be_read_from_the_printed_form() -> None:
    assert repr(AutoAugment("cifar10")) == "AutoAugment(policy of cifar10, 25 sub-policies)"
    assert repr(RandAugment()) == "RandAugment(2 of 14 operations, magnitude 9 of 31)"
    assert repr(TrivialAugment()) == "TrivialAugment(one of 14 operations, one of 31 magnitudes)"


def test_unknown_policies_and_impossible_magnitudes_are_refused() -> None:
    words = r"no policy called 'cifar'\. Did you mean 'cifar10'\?"
    with unhooked(), pytest.raises(UnknownNameError, match=words):
        AutoAugment("cifar")  # type: ignore[arg-type]
    for magnitude in (-1, 31):
        with pytest.raises(ArgumentError, match="`magnitude` must be a bin from 0 to 30: got "):
            RandAugment(magnitude=magnitude)
    with pytest.raises(ArgumentError, match=r"`n_bins` must be at least 2: got 1\."):
        TrivialAugment(n_bins=1)
