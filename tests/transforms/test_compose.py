"""Compositions: one warp, one pass over colors, the order kept, any size."""

from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional as F

from instaaug import transforms as T
from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.color import affine_intensity
from instaaug.functional.warp import PaddingMode, warp
from instaaug.transforms import (
    Affine,
    Blur,
    Brightness,
    Composition,
    Contrast,
    Crop,
    Flip,
    HSVJitter,
    LocalBlur,
    LocalColor,
    LocalMask,
    Noise,
    Perspective,
    Rotation,
    Scale,
    Shear,
    Transform,
    Translate,
)
from tests.support.images import interior, largest_difference, random_images, smooth_images
from tests.support.unhooked import unhooked

GEOMETRIC: dict[str, tuple[tuple[Transform, tuple[float, ...]], ...]] = {
    "turn, move": ((Rotation(), (0.3,)), (Translate(), (0.1, -0.05))),
    "move, turn": ((Translate(), (0.1, -0.05)), (Rotation(), (0.3,))),
    "turn, crop, shear": (
        (Rotation(), (-0.2,)),
        (Crop(), (0.1, -0.1, 1.6, 1.5)),
        (Shear(), (0.1, 0.05)),
    ),
    "tilt, turn, flip, grow": (
        (Perspective(), (0.1, -0.15)),
        (Rotation(), (0.25,)),
        (Flip(), (-1.0, 1.0)),
        (Scale(), (1.2,)),
    ),
    "affine, tilt": ((Affine(), (0.05, 0.02, 0.2, 0.1, 0.05, -0.1)), (Perspective(), (0.1, 0.1))),
}
COLORS: dict[str, tuple[tuple[Transform, tuple[float, ...]], ...]] = {
    "bright, contrast": ((Brightness(), (1.2,)), (Contrast(), (0.6,))),
    "contrast, bright": ((Contrast(), (0.6,)), (Brightness(), (1.2,))),
    "contrast, bright, contrast": (
        (Contrast(), (1.1,)),
        (Brightness(), (0.8,)),
        (Contrast(), (0.7,)),
    ),
    "bright, jitter, contrast": (
        (Brightness(), (0.7,)),
        (HSVJitter(), (0.2, 0.8, 1.1)),
        (Contrast(), (0.8,)),
    ),
    "jitter, contrast, jitter": (
        (HSVJitter(), (0.2, 0.8, 0.9)),
        (Contrast(), (0.9,)),
        (HSVJitter(), (-0.4, 0.5, 0.9)),
    ),
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def composed(parts: tuple[tuple[Transform, tuple[float, ...]], ...]) -> tuple[Composition, Tensor]:
    theta = [value for _, values in parts for value in values]
    return Composition(tuple(t for t, _ in parts)), torch.tensor([theta], dtype=torch.float64)


def one_by_one(
    x: Tensor,
    parts: tuple[tuple[Transform, tuple[float, ...]], ...],
    padding_mode: PaddingMode = "zeros",
) -> Tensor:
    for transform, values in parts:
        x = transform.apply(x, torch.tensor([values], dtype=x.dtype), padding_mode=padding_mode)
    return x


def normalized(x: Tensor) -> Tensor:
    return (x - x.new_tensor(MEAN).view(3, 1, 1)) / x.new_tensor(STD).view(3, 1, 1)


class Counter:
    """Counts calls of a function and passes them on."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("size", [(96, 96), (80, 120)], ids=str)
@pytest.mark.parametrize("parts", GEOMETRIC)
def test_one_warp_equals_the_sequence_of_warps(parts: str, size: tuple[int, int]) -> None:
    # Smooth images, so that interpolating twice hardly differs; borders repeated, compared inside.
    x = smooth_images(1, height=size[0], width=size[1])
    transform, theta = composed(GEOMETRIC[parts])
    fused = transform.apply(x, theta, padding_mode="border")
    expected = one_by_one(x, GEOMETRIC[parts], padding_mode="border")
    assert largest_difference(interior(fused, 25), interior(expected, 25)) <= 5e-3
    assert largest_difference(interior(fused, 25), interior(x, 25)) > 0.05


def test_order_matters() -> None:
    x = smooth_images(1)
    turn_first, theta = composed(GEOMETRIC["turn, move"])
    move_first, other_theta = composed(GEOMETRIC["move, turn"])
    one, other = turn_first.apply(x, theta), move_first.apply(x, other_theta)
    assert largest_difference(interior(one, 12), interior(other, 12)) > 0.02


@pytest.mark.parametrize("size", [(32, 32), (37, 50)], ids=str)
@pytest.mark.parametrize("parts", GEOMETRIC)
def test_one_warp_is_the_warp_by_the_product_of_the_matrices(
    parts: str, size: tuple[int, int]
) -> None:
    x = random_images(1, height=size[0], width=size[1], dtype=torch.float64)
    transform, theta = composed(GEOMETRIC[parts])
    matrices = [
        t.matrix(torch.tensor([values], dtype=torch.float64), aspect=size[1] / size[0])
        for t, values in GEOMETRIC[parts]
    ]
    product = reduce(torch.matmul, matrices)
    assert torch.equal(transform.matrix(theta, aspect=size[1] / size[0]), product)
    assert torch.equal(transform.apply(x, theta), warp(x, product, projective=True))
    assert transform.projective == any(t.projective for t, _ in GEOMETRIC[parts])


@pytest.mark.parametrize("parts", GEOMETRIC)
def test_any_number_of_geometric_transforms_samples_once(
    parts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(F.grid_sample)
    monkeypatch.setattr(F, "grid_sample", counter)
    transform, theta = composed((*GEOMETRIC[parts], (Brightness(), (0.9,)), (Scale(), (1.1,))))
    transform.apply(random_images(1, dtype=torch.float64), theta)
    assert counter.calls == 1


@pytest.mark.parametrize(
    ("parts", "passes"),
    [("bright, contrast", 1), ("contrast, bright, contrast", 1), ("bright, jitter, contrast", 2)],
)
def test_changes_of_intensity_share_one_pass(
    parts: str, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter(affine_intensity)
    monkeypatch.setattr("instaaug.transforms.color.affine_intensity", counter)
    transform, theta = composed(COLORS[parts])
    transform.apply(random_images(1, dtype=torch.float64), theta)
    assert counter.calls == passes


@pytest.mark.parametrize("parts", COLORS)
def test_one_pass_over_colors_equals_the_sequence(parts: str) -> None:
    x = random_images(1, dtype=torch.float64) * 0.5 + 0.2  # nothing is clipped on the way
    transform, theta = composed(COLORS[parts])
    assert largest_difference(transform.apply(x, theta), one_by_one(x, COLORS[parts])) <= 1e-9


def test_each_pass_takes_place_where_the_first_of_its_kind_stands() -> None:
    parts: tuple[tuple[Transform, tuple[float, ...]], ...] = (
        (Noise(), (0.1, 0.3)),
        (Rotation(), (0.4,)),
        (Blur(), (0.04,)),
        (Translate(), (0.1, 0.0)),
    )
    x = random_images(1, dtype=torch.float64)
    transform, theta = composed(parts)
    noise, turn, blur, move = parts
    geometry, geometry_theta = composed((turn, move))
    expected = one_by_one(geometry.apply(one_by_one(x, (noise,)), geometry_theta), (blur,))
    assert torch.equal(transform.apply(x, theta), expected)


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
def test_padding_reaches_the_warp(padding_mode: PaddingMode) -> None:
    x = random_images(1, dtype=torch.float64)
    transform, theta = composed(((Blur(), (0.02,)), (Translate(), (0.2, 0.1))))
    expected = one_by_one(x, ((Blur(), (0.02,)), (Translate(), (0.2, 0.1))), padding_mode)
    assert torch.equal(transform.apply(x, theta, padding_mode=padding_mode), expected)


@pytest.mark.parametrize(
    "part",
    [
        (Brightness(), (1.3,)),
        (Contrast(), (0.5,)),
        (HSVJitter(), (0.2, 0.7, 1.2)),
        (LocalColor(), (0.1, -0.2, 1.0, 0.8, 0.3, 0.7, 1.2)),
    ],
    ids=lambda part: part[0].name,
)
def test_colors_of_normalized_images_are_changed_as_colors(
    part: tuple[Transform, tuple[float, ...]],
) -> None:
    x = random_images(1, dtype=torch.float64)
    transform = Composition((part[0],), mean=MEAN, std=STD)
    out = transform.apply(normalized(x), torch.tensor([part[1]], dtype=torch.float64))
    assert largest_difference(out, normalized(one_by_one(x, (part,)))) <= 1e-6
    assert largest_difference(out, normalized(x)) > 0.1


def test_normalized_images_that_overshoot_are_clipped_before_their_colors_change() -> None:
    x = torch.tensor([-0.2, 0.5, 1.2], dtype=torch.float64).view(1, 1, 1, 3).expand(1, 3, 1, 3)
    transform = Composition((Brightness(),), mean=MEAN, std=STD)
    out = transform.apply(normalized(x), torch.tensor([[0.5]], dtype=torch.float64))
    assert largest_difference(out, normalized(x.clamp(0, 1) * 0.5)) <= 1e-6


@pytest.mark.parametrize(
    "part",
    [(Rotation(), (0.5,)), (LocalMask(), (0.0, 0.0, 1.0, 1.0)), (Blur(), (0.04,))],
    ids=lambda part: part[0].name,
)
def test_what_is_not_color_leaves_normalized_images_normalized(
    part: tuple[Transform, tuple[float, ...]],
) -> None:
    x = normalized(random_images(1, dtype=torch.float64))
    transform = Composition((part[0],), mean=MEAN, std=STD)
    out = transform.apply(x, torch.tensor([part[1]], dtype=torch.float64))
    assert torch.equal(out, one_by_one(x, (part,)))


def test_names_are_distinct_and_spaces_follow_the_columns() -> None:
    transform = Composition((Crop(), Rotation(), Crop(), LocalBlur(), Crop(), LocalBlur()))
    assert transform.names == (
        "crop",
        "rotation",
        "crop_2",
        "local_blur",
        "crop_3",
        "local_blur_2",
    )
    assert list(transform.spaces) == [
        "crop", "rotation", "crop_2", "local_blur.box", "local_blur.strength", "crop_3",
        "local_blur_2.box", "local_blur_2.strength",
    ]  # fmt: skip
    assert transform.n_parameters == len(transform.columns) == 4 + 1 + 4 + 5 + 4 + 5
    assert transform.columns[4] == "angle"


@pytest.mark.parametrize("size", [(32, 16), (37, 50)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_identity_of_everything_at_once_is_exact(
    size: tuple[int, int], dtype: torch.dtype
) -> None:
    transform = Composition(
        (Crop(), Blur(), Rotation(), HSVJitter(), Affine(), Noise(), Contrast(), Perspective(),
         Flip(), LocalColor(), LocalBlur(), Brightness(), Shear())
    )  # fmt: skip
    x = random_images(2, height=size[0], width=size[1], dtype=dtype)
    assert torch.equal(transform.apply(x, transform.identity(2)), x)


def test_gradient_flows_through_color_into_geometry() -> None:
    transform = Composition((Rotation(), HSVJitter(), Scale(), Contrast()), mean=MEAN, std=STD)
    x = normalized(smooth_images(1, height=6, width=7))
    theta = torch.tensor([[0.3, 0.11, 0.9, 1.1, 1.2, 0.8]], dtype=torch.float64)
    assert gradcheck(
        lambda t: transform.apply(x, t, padding_mode="border"), (theta.requires_grad_(),)
    )


def test_equal_compositions_are_equal_and_hashable() -> None:
    one, same, other = (Composition((Crop(), Rotation(a))) for a in (1.0, 1.0, 2.0))
    assert one.names == same.names  # filling the cache changes nothing
    assert len({one, same, other}) == 2
    assert all(a != b for a, b in pairwise((one, other, same)))


def test_theta_of_a_wrong_shape_names_all_columns() -> None:
    words = (
        r"`theta` of composition must be \(2, 2\), a row per image: got \(2, 3\)\. "
        r"Columns: angle, factor\."
    )
    with pytest.raises(ShapeError, match=words):
        Composition((Rotation(), Scale())).apply(random_images(2), torch.ones(2, 3))


def test_no_transform_at_all_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"`transforms` must hold at least one.*: got none\."):
        Composition(())


@pytest.mark.parametrize("given", [{"mean": (0.5,)}, {"std": (0.5,)}], ids=str)
def test_mean_and_std_come_together(given: dict[str, Any]) -> None:
    words = r"`mean` and `std` must be given together: got one of the two\."
    with pytest.raises(ArgumentError, match=words):
        Composition((Brightness(),), **given)


def test_a_composition_in_a_composition_is_refused() -> None:
    words = r"`transforms` must not hold a Composition: .*List its transforms instead\."
    with pytest.raises(ArgumentError, match=words):
        Composition((Crop(), Composition((Rotation(),))))


def test_one_mean_serves_all_channels_but_two_do_not_serve_three() -> None:
    x = random_images(1) * 2 - 1
    single = Composition((Brightness(),), mean=(0.5,), std=(0.5,))
    out = single.apply(x, torch.tensor([[0.5]]))
    assert largest_difference(out, (x + 1) / 2 - 1) <= 1e-6
    words = r"`mean` and `std` must have one value per channel: got 2 for 3 channels\. A single"
    with pytest.raises(ShapeError, match=words):
        Composition((Brightness(),), mean=(0.5, 0.5), std=(0.5, 0.5)).apply(x, torch.ones(1, 1))


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
