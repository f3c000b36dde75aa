"""HSV jitter held against colorsys and kornia on the colors that others permute."""

import kornia
import pytest
import torch
from torch import Tensor

from instaaug.functional.color import affine_intensity, hsv_jitter, luma
from tests.support.colors import NAMED, as_image, jittered
from tests.support.images import largest_difference, random_images

SHIFTS = [0.0, 1 / 3, -1 / 3, 0.5, -0.5, 0.1, -0.27]
FACTORS = [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.4, 1.7), (2.0, 0.6), (1.3, 2.0)]


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
@pytest.mark.parametrize("hue", [None, 0.0, 0.2])
def test_saturation_and_value_match_colorsys(
    colors: str, factors: tuple[float, float], hue: float | None
) -> None:
    x = as_image(NAMED[colors])
    out = hsv_jitter(x, None if hue is None else one(hue), one(factors[0]), one(factors[1]))
    assert largest_difference(out, jittered(x, hue or 0.0, *factors)) <= 1e-5
    assert out.min() >= -1e-6
    assert out.max() <= 1 + 1e-6


def test_hue_shifts_match_kornia() -> None:
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
@pytest.mark.parametrize("level", [0.0, 0.2, 0.5, 1.0])
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
