"""Compositions that render at another size: against resizing by other means."""

import pytest
import torch
from torch.nn import functional as F

from instaaug import transforms as T
from instaaug.errors import ArgumentError
from instaaug.functional.warp import warp
from instaaug.transforms import Composition, Transform
from tests.support.images import random_images, smooth_images
from tests.support.unhooked import unhooked

CROP = T.Crop(levels=((1.0, 1), (0.5, 2)))


@pytest.mark.parametrize("size", [(8, 8), (24, 20), (48, 31), (96, 96)], ids=str)
def test_the_identity_resizes_as_bilinear_interpolation_does(size: tuple[int, int]) -> None:
    x = smooth_images(2)
    resized = Composition((CROP,), size=size).resize(x, padding_mode="border")
    expected = F.interpolate(x, size, mode="bilinear", align_corners=False)
    torch.testing.assert_close(resized, expected)


def test_the_same_size_costs_nothing() -> None:
    x = random_images(height=37, width=50)
    both = Composition((CROP,), size=(37, 50))
    assert both.resize(x) is x
    assert torch.equal(both.apply(x, both.identity(2)), x)


@pytest.mark.parametrize(
    "parts",
    [
        (CROP,),
        (T.Rotation(), CROP),
        (T.Brightness(),),
        (T.HSVJitter(), T.Rotation()),
        (T.LocalMask(levels=((0.5, 2),)),),
        (T.LocalMask(levels=((0.5, 2),)), CROP),
    ],
    ids=lambda parts: "+".join(p.name for p in parts),
)
@pytest.mark.parametrize("size", [(20, 28), (61, 50)], ids=str)
def test_any_composition_gives_the_size_and_resizes_at_the_identity(
    parts: tuple[Transform, ...], size: tuple[int, int]
) -> None:
    x = random_images(3, height=32, width=40)
    both = Composition(parts, size=size)
    out = both.apply(x, both.identity(3), padding_mode="reflection")
    torch.testing.assert_close(out, both.resize(x, padding_mode="reflection"))


def test_a_crop_of_a_larger_image_keeps_its_detail() -> None:
    """Half of 64 pixels shown on 32 are the pixels themselves."""
    x = random_images(1, height=64, width=64)
    upper_left = torch.tensor([[-0.5, -0.5, 1.0, 1.0]])
    out = Composition((CROP,), size=(32, 32)).apply(x, upper_left)
    torch.testing.assert_close(out, x[:, :, :32, :32])


def test_the_warp_to_another_size_has_the_gradient_of_finite_differences() -> None:
    x = random_images(1, channels=1, height=6, width=5, dtype=torch.float64).requires_grad_()
    matrix = torch.eye(3, dtype=torch.float64)[None] * torch.tensor([0.731, 0.643, 1.0]).double()
    assert torch.autograd.gradcheck(lambda v: warp(v, matrix, size=(3, 4)), (x,))


def test_the_size_is_part_of_the_configuration() -> None:
    assert Composition((CROP,), size=(3, 4)).to_config()["size"] == (3, 4)


@pytest.mark.parametrize(
    "size", [(0, 4), (4,), (4, 4, 4), (4.0, 4), (20_000, 4), (True, 4)], ids=str
)
def test_a_size_that_is_none_is_refused(size: tuple[int, int]) -> None:
    message = r"`size` must be a height and a width in pixels, whole numbers from 1 to 16384: got"
    with unhooked(), pytest.raises(ArgumentError, match=message):
        Composition((CROP,), size=size)
