"""HSV jitter against colorsys and kornia; normalization and its inverse."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.color import Normalization, affine_intensity, hsv_jitter, luma
from tests.support.colors import NAMED, as_image, jittered
from tests.support.images import largest_difference, random_images
from tests.support.operators import Counter

ROOT = Path(__file__).parents[2]

SHIFTS = [0.0, 1 / 3, -0.5, -0.27]
FACTORS = [(0.0, 1.0), (0.4, 1.7), (2.0, 0.6)]


def one(value: float, *, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor([value], dtype=dtype)


@pytest.mark.parametrize("colors", NAMED)
@pytest.mark.parametrize("hue", SHIFTS)
def test_hue_shifts_match_colorsys(colors: str, hue: float) -> None:
    x = as_image(NAMED[colors])
    out = hsv_jitter(x, one(hue), one(1.0), one(1.0))
    assert largest_difference(out, jittered(x, hue, 1.0, 1.0)) <= 1e-5


@pytest.mark.parametrize("colors", NAMED)
@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("hue", [None, 0.2])
def test_saturation_and_value_match_colorsys(
    colors: str, factors: tuple[float, float], hue: float | None
) -> None:
    x = as_image(NAMED[colors])
    out = hsv_jitter(x, None if hue is None else one(hue), one(factors[0]), one(factors[1]))
    assert largest_difference(out, jittered(x, hue or 0.0, *factors)) <= 1e-5
    assert out.min() >= -1e-6
    assert out.max() <= 1 + 1e-6


def test_hue_shifts_match_kornia() -> None:
    import kornia

    x = random_images(2, height=64, width=64)
    out = hsv_jitter(x, torch.full((2,), 0.3), torch.ones(2), torch.ones(2))
    expected = kornia.enhance.adjust_hue(x, 0.3 * 2 * torch.pi)
    assert largest_difference(out, expected) <= 1e-5


@pytest.mark.parametrize("hue", [None, 0.0])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
@pytest.mark.parametrize("colors", ["two equal channels of 256 levels", "a cube of 64 levels"])
def test_shifting_nothing_is_exactly_nothing(
    hue: float | None, dtype: torch.dtype, colors: str
) -> None:
    # Trap 7: deciding the largest channel from a rounded hue turns (255, 21, 255) into
    # (255, 255, 21).
    if colors == "a cube of 64 levels":
        levels = torch.linspace(0, 255, 64).round() / 255
        x = torch.cartesian_prod(levels, levels, levels)
    else:
        a, b = torch.cartesian_prod(*[torch.arange(256) / 255] * 2).unbind(1)
        x = torch.cat([torch.stack(p, dim=1) for p in ((a, a, b), (a, b, a), (b, a, a))])
    image = x.T[None, :, None, :].to(dtype)
    shift = None if hue is None else one(hue)
    assert torch.equal(hsv_jitter(image, shift, one(1.0), one(1.0)), image)


def test_shifting_nothing_is_exact_for_every_pair_of_half_precision_neighbors() -> None:
    # Below 0.06 the chroma of neighbors in float16 is smaller than the smallest normal number.
    bits = torch.arange(1, 0x3C00, dtype=torch.int16)
    value, above = bits.view(torch.float16), (bits + 1).view(torch.float16)
    x = torch.stack([value, above, value])[None, :, None, :]
    assert torch.equal(hsv_jitter(x, None, one(1.0), one(1.0)), x)


def test_each_image_has_its_own_jitter() -> None:
    x = random_images(3, height=5, width=7)
    hue, saturation, value = torch.rand(3, 3, generator=torch.Generator().manual_seed(1))
    out = hsv_jitter(x, hue, saturation, value)
    thetas = torch.stack([hue, saturation, value], dim=1).tolist()
    expected = [jittered(image[None], *theta) for image, theta in zip(x, thetas, strict=True)]
    assert largest_difference(out, torch.cat(expected)) <= 1e-5


@pytest.mark.parametrize("hue", [None, 0.0, 0.3])
@pytest.mark.parametrize("level", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradient_of_a_gray_is_finite_and_follows_the_value(
    hue: float | None, level: float, dtype: torch.dtype
) -> None:
    # Brightening a gray by d brightens the result by value * d. Dividing by a tiny chroma would
    # drown that slope in rounding errors of 1e30.
    gray = torch.full((1, 3, 4, 4), level, dtype=dtype, requires_grad=True)
    weights = torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    shift = None if hue is None else one(hue, dtype=dtype)
    out = hsv_jitter(gray, shift, one(1.2, dtype=dtype), one(0.9, dtype=dtype))
    (slope,) = torch.autograd.grad((out * weights * 1e8).sum(), gray)
    expected = 0.9 * weights.sum(dim=1)
    assert largest_difference(slope.sum(dim=1) / 1e8, expected) <= 1e-5


def plain_jitter(x: Tensor, hue: Tensor | None, saturation: Tensor, value: Tensor) -> Tensor:
    """The same formula in plain operators, the hue by cases, for autograd to differentiate."""
    (red, green, blue), v = x.split(1, dim=1), x.amax(dim=1, keepdim=True)
    chroma = v - x.amin(dim=1, keepdim=True)
    new_v = (v * value.view(-1, 1, 1, 1)).clamp(max=1)
    new_chroma = (chroma * saturation.view(-1, 1, 1, 1)).minimum(v) * new_v / v
    of_green, of_blue = blue - red + 2 * chroma, red - green + 4 * chroma
    other = torch.where(green == v, of_green, of_blue)
    h = torch.where(red == v, green - blue, other) / chroma
    h = h + 6 * (torch.zeros_like(value) if hue is None else hue).view(-1, 1, 1, 1)
    h = h - 6 * torch.floor(h / 6)
    distance = 3 - ((h - x.new_tensor([0, 2, 4]).view(1, 3, 1, 1)).abs() - 3).abs()
    return new_v - new_chroma * (distance - 1).clamp(0, 1)


def drawn_thetas(n: int, *, with_hue: bool, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Hues, if wanted, with a zero among them, saturations and values, of which many clip."""
    shares = torch.rand(3, n, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    hue, factors = shares[0] * 2 - 1, shares[1:] * 2
    hue[0] = 0
    thetas = [hue, *factors] if with_hue else list(factors)
    return [theta.to(dtype).requires_grad_() for theta in thetas]


def with_thetas(x: Tensor, thetas: list[Tensor]) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    return x, (thetas[0] if len(thetas) == 3 else None), thetas[-2], thetas[-1]


@pytest.mark.parametrize("with_hue", [True, False])
@pytest.mark.parametrize("of_x", [True, False])
def test_gradient_is_that_of_plain_operators(with_hue: bool, of_x: bool) -> None:
    x = random_images(5, height=9, width=11, dtype=torch.float64).requires_grad_(of_x)
    thetas = drawn_thetas(5, with_hue=with_hue)
    asked = [x, *thetas] if of_x else thetas
    weights = random_images(5, height=9, width=11, dtype=torch.float64, seed=1) - 0.3
    out, expected = hsv_jitter(*with_thetas(x, thetas)), plain_jitter(*with_thetas(x, thetas))
    assert largest_difference(out.detach(), expected.detach()) <= 1e-12
    found = torch.autograd.grad(out, asked, weights)
    torch.testing.assert_close(found, torch.autograd.grad(expected, asked, weights))


@pytest.mark.parametrize("with_hue", [True, False])
def test_gradient_is_that_of_differences(with_hue: bool) -> None:
    x = random_images(4, height=2, width=2, dtype=torch.float64).requires_grad_()
    thetas = drawn_thetas(4, with_hue=with_hue)

    def jitter(x: Tensor, *thetas: Tensor) -> Tensor:
        return hsv_jitter(*with_thetas(x, list(thetas)))

    assert torch.autograd.gradcheck(jitter, (x, *thetas))


@pytest.mark.parametrize("colors", NAMED)
@pytest.mark.parametrize("hue", [None, 0.0, 1 / 6])
@pytest.mark.parametrize("factor", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_gradient_at_kinks_is_bounded(
    colors: str, hue: float | None, factor: float, dtype: torch.dtype
) -> None:
    # Neither V nor C is divided by without something as small above it.
    x = as_image(NAMED[colors], dtype=dtype).requires_grad_()
    theta = [one(t).requires_grad_() for t in (hue, factor, factor) if t is not None]
    out = hsv_jitter(*with_thetas(x, theta))
    slope, *slopes = torch.autograd.grad(out.float().sum(), [x, *theta])
    assert slope.abs().max() <= 3 * (1 + factor) ** 2
    assert torch.stack(slopes).abs().max() <= 12 * (1 + factor) * x.shape[-1]


@pytest.mark.parametrize("color", NAMED["black, white, primaries and trap 7"], ids=str)
@pytest.mark.parametrize("turns", [0, 1, 4])
def test_slope_of_the_hue_at_a_kink_is_that_of_one_side(
    color: tuple[int, ...], turns: int
) -> None:
    x, hue, step = as_image([color], dtype=torch.float64), turns / 6, 1e-6
    factor = one(0.9, dtype=torch.float64)
    weights = torch.tensor([1.0, -2.0, 0.5]).view(1, 3, 1, 1)

    def risk(hue: Tensor) -> Tensor:
        return (hsv_jitter(x, hue, factor, factor) * weights).sum()

    shift = one(hue, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(risk(shift), shift)
    sides = [(risk(shift + s).item() - risk(shift).item()) / s for s in (-step, step)]
    assert min(sides) - 1e-6 <= slope.item() <= max(sides) + 1e-6


@pytest.mark.parametrize("of_x", [True, False])
def test_nothing_but_the_arguments_is_kept_for_the_gradient(of_x: bool) -> None:
    x, thetas = random_images(3).requires_grad_(of_x), drawn_thetas(3, with_hue=True)
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hsv_jitter(*with_thetas(x, thetas))
    assert sorted(t.data_ptr() for t in kept) == sorted(t.data_ptr() for t in (x, *thetas))


def test_gradient_of_the_images_is_made_only_if_asked_for() -> None:
    counts = []
    for of_x in (True, False):
        x, thetas = random_images(3).requires_grad_(of_x), drawn_thetas(3, with_hue=True)
        loss = hsv_jitter(*with_thetas(x, thetas)).sum()
        with Counter() as operators:
            loss.backward()
        counts.append(operators.total)
    assert counts[1] <= 0.75 * counts[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_of_half_precision_are_as_precise_as_theta(dtype: torch.dtype) -> None:
    x = random_images(1, height=200, width=200, dtype=dtype)
    thetas = drawn_thetas(1, with_hue=True, dtype=torch.float32)
    weights = torch.full_like(x, 8.0)
    found = torch.autograd.grad(hsv_jitter(*with_thetas(x, thetas)), thetas[-1], weights)
    exact = plain_jitter(*with_thetas(x.double(), thetas))
    expected = torch.autograd.grad(exact, thetas[-1], weights.double())
    assert expected[0].abs() > torch.finfo(torch.float16).max
    torch.testing.assert_close(found, expected, rtol=0.01, atol=0)


@pytest.mark.parametrize("with_hue", [True, False])
def test_memory_layout_changes_nothing_and_is_kept(with_hue: bool) -> None:
    x, thetas = random_images(3, height=4, width=5), drawn_thetas(3, with_hue=with_hue)
    layouts = {
        "planes": x,
        "channels last": x.contiguous(memory_format=torch.channels_last),
        "transposed": x.transpose(2, 3).contiguous().transpose(2, 3),
    }
    found = {}
    for name, image in layouts.items():
        out = hsv_jitter(*with_thetas(image.requires_grad_(), thetas))
        found[name] = out, *torch.autograd.grad(out.square().sum(), [image, *thetas])
        torch.testing.assert_close(found[name], found["planes"])
    assert found["channels last"][0].is_contiguous(memory_format=torch.channels_last)


def compiled_does_what_eager_does() -> None:
    """Forward and backward in one graph, with and without hue."""
    compiled = torch.compile(hsv_jitter, backend="eager", fullgraph=True)
    for with_hue in (True, False):
        x = random_images(3, height=4, width=4).requires_grad_()
        thetas = drawn_thetas(3, with_hue=with_hue, dtype=torch.float32)
        found = []
        for jitter in (compiled, hsv_jitter):
            out = jitter(*with_thetas(x, thetas))
            found.append((out, *torch.autograd.grad(out.square().sum(), [x, *thetas])))
        torch.testing.assert_close(found[0], found[1])


@pytest.mark.slow  # compiling takes its time
def test_compiled_jitter_is_one_graph_that_does_what_eager_does() -> None:
    # In a process of its own: the compiler cannot see through the shape checker of these tests.
    call = f"from {__name__} import {compiled_does_what_eager_does.__name__} as f; f()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", call],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_luma_is_pillows_gray_of_rgb_and_the_mean_of_anything_else() -> None:
    from PIL import Image

    x = as_image(NAMED["a dense cube"])
    picture = Image.fromarray((x[0].permute(1, 2, 0) * 255).round().byte().numpy()).convert("L")
    gray = torch.tensor(list(picture.tobytes())) / 255
    assert largest_difference(luma(x).flatten(), gray) <= 0.51 / 255
    other = random_images(2, channels=5)
    assert largest_difference(luma(other)[:, 0], other.mean(dim=1)) <= 1e-6


def test_intensity_is_scaled_shifted_and_clipped() -> None:
    x = torch.tensor([0.0, 0.25, 0.5, 1.0]).view(1, 1, 1, 4).expand(2, 1, 1, 4)
    out = affine_intensity(x, torch.tensor([[2.0], [-1.0]]), torch.tensor([[-0.25], [0.75]]))
    assert out.view(2, 4).tolist() == [[0.0, 0.25, 0.75, 1.0], [0.75, 0.5, 0.25, 0.0]]


MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def test_normalization_is_undone_and_done_again() -> None:
    x = random_images(2, dtype=torch.float64)
    normalized = torch.stack([(x[:, c] - MEAN[c]) / STD[c] for c in range(3)], dim=1)
    pixels = Normalization(MEAN, STD)
    torch.testing.assert_close(pixels.denormalize(normalized), x)
    torch.testing.assert_close(pixels.normalize(x), normalized)


def test_images_that_were_not_normalized_are_clipped_alone() -> None:
    x = torch.tensor([-0.5, 0.25, 1.5]).view(1, 1, 1, 3)
    assert Normalization().denormalize(x).flatten().tolist() == [0.0, 0.25, 1.0]
    assert Normalization().normalize(x) is x


@pytest.mark.parametrize(
    ("mean", "std", "words"),
    [
        ((0.5,), None, "given together"),
        (None, (0.5,), "given together"),
        (MEAN, (1.0, 0.0, 1.0), "`std`"),
    ],
    ids=str,
)
def test_statistics_that_cannot_be_are_refused(
    mean: tuple[float, ...] | None, std: tuple[float, ...] | None, words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        Normalization(mean, std)


def test_as_many_statistics_as_channels_are_asked_for() -> None:
    with pytest.raises(ShapeError, match="got 2 for 3 channels"):
        Normalization((0.5, 0.5), (1.0, 1.0)).denormalize(random_images(1))
