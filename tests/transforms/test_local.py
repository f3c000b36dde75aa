"""Local transforms: untouched outside the box, the whole transform inside, blended between."""

import pytest
import torch
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.transforms import (
    TRANSFORMS,
    Blur,
    HSVJitter,
    LocalBlur,
    LocalColor,
    LocalMask,
    LocalNoise,
    Noise,
    Transform,
)
from instaaug.transforms.local import LocalTransform
from tests.support.images import largest_difference, random_images
from tests.support.thetas import ALL_NAMES, generic_theta, make

LOCAL_NAMES = [n for n in ALL_NAMES if issubclass(TRANSFORMS[n], LocalTransform)]
SAME_EVERYWHERE: dict[str, tuple[Transform, tuple[float, ...]]] = {
    "local_blur": (Blur(), (0.04,)),
    "local_noise": (Noise(), (0.15, 0.3)),
    "local_color": (HSVJitter(), (0.2, 0.6, 1.3)),
}


def changed_everywhere(name: str, x: Tensor) -> tuple[Tensor, tuple[float, ...]]:
    """The image changed as a whole by the global counterpart, and the parameters of that."""
    if name == "local_mask":
        return torch.zeros_like(x), ()
    transform, inner = SAME_EVERYWHERE[name]
    return transform.apply(x, torch.tensor([inner], dtype=x.dtype)), inner


def test_every_local_transform_has_a_global_counterpart() -> None:
    assert sorted([*SAME_EVERYWHERE, "local_mask"]) == LOCAL_NAMES


@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_outside_untouched_and_inside_as_the_global_transform(name: str) -> None:
    x = random_images(1, height=16, width=16)
    whole, inner = changed_everywhere(name, x)
    out = make(name).apply(x, torch.tensor([[-0.25, -0.25, 0.5, 1.0, *inner]]))
    inside = torch.zeros(16, 16, dtype=torch.bool)
    inside[2:10, 4:8] = True
    assert torch.equal(out[..., ~inside], x[..., ~inside])
    assert largest_difference(out[..., inside], whole[..., inside]) <= 1e-6
    assert largest_difference(out[..., inside], x[..., inside]) > 0.01


@pytest.mark.parametrize("size", [(16, 16), (21, 34)], ids=str)
@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_a_box_over_everything_is_the_global_transform(name: str, size: tuple[int, int]) -> None:
    x = random_images(1, height=size[0], width=size[1])
    whole, inner = changed_everywhere(name, x)
    out = make(name).apply(x, torch.tensor([[0.0, 0.0, 2.0, 2.0, *inner]]))
    assert largest_difference(out, whole) <= 1e-5


@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_pixels_covered_in_part_are_blended(name: str) -> None:
    x = random_images(1, height=8, width=8, dtype=torch.float64)
    whole, inner = changed_everywhere(name, x)
    # From the middle of column 2 to a quarter of column 5, all rows.
    left, right = 2.5, 5.25
    box = ((left + right) / 8 - 1, 0.0, (right - left) / 4, 2.0)
    out = make(name).apply(x, torch.tensor([[*box, *inner]], dtype=torch.float64))
    share = torch.tensor([0, 0, 0.5, 1, 1, 0.25, 0, 0], dtype=torch.float64)
    assert largest_difference(out, (1 - share) * x + share * whole) <= 1e-12


@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_a_box_outside_of_the_image_changes_nothing(name: str) -> None:
    x = random_images(1, height=13, width=22)
    _, inner = changed_everywhere(name, x)
    out = make(name).apply(x, torch.tensor([[1.6, 0.0, 1.0, 1.0, *inner]]))
    assert torch.equal(out, x)


@pytest.mark.parametrize("fill", [0.0, 0.5, -1.0])
def test_the_mask_leaves_its_fill(fill: float) -> None:
    x = random_images(1, channels=2, height=4, width=4)
    out = LocalMask(fill=fill).apply(x, torch.tensor([[-0.5, 0.5, 1.0, 1.0]]))
    expected = x.clone()
    expected[..., 2:, :2] = fill  # lower left
    assert largest_difference(out, expected) <= 1e-6


@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_the_box_comes_first(name: str) -> None:
    transform = make(name)
    assert transform.columns[:4] == ("box_x", "box_y", "box_width", "box_height")
    assert next(iter(transform.spaces)) == "box"


@pytest.mark.parametrize("name", LOCAL_NAMES)
def test_masks_and_points_stay_where_they_are(name: str) -> None:
    transform = make(name)
    theta = generic_theta(transform, 1, dtype=torch.float32)
    labels = torch.arange(35).view(1, 1, 5, 7)
    assert torch.equal(transform.apply_mask(labels, theta), labels)


@pytest.mark.parametrize("local", [LocalMask, LocalBlur, LocalNoise, LocalColor])
def test_levels_without_a_box_are_refused_at_the_door(local: type[LocalTransform]) -> None:
    with pytest.raises(ArgumentError, match=r"`levels` must hold at least one box: got none\."):
        local(levels=())


def test_the_limits_of_local_color_are_those_of_jitter() -> None:
    with pytest.raises(ArgumentError, match=r"`hue` must lie in \[0, 0\.5\]"):
        LocalColor(hue=0.7)
    assert LocalColor(hue=0.0, value=0.0).columns[4:] == ("saturation",)
