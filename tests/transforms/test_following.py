"""Keypoints, boxes, masks and the way back: what follows an image that was moved."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pytest
import torch
from torch import Tensor

from instaaug.transforms import (
    Composition,
    Crop,
    Flip,
    HSVJitter,
    Perspective,
    Rotation,
    Shear,
    Transform,
    Translate,
)
from tests.support.images import center_of_mass, dot_image, largest_difference, smooth_images
from tests.support.pixel_maps import FORWARD, Matrix
from tests.support.thetas import GEOMETRIC_NAMES, generic_theta, make

SIZES = [(64, 96), (101, 75)]
COMPOSED: dict[str, Composition] = {
    "crop + rotation": Composition((Crop(), Rotation(0.6))),
    "rotation + color + shear": Composition((Rotation(0.6), HSVJitter(), Shear())),
    "perspective + translate + flip": Composition((Perspective(), Translate(0.1), Flip())),
}
CASES = [*GEOMETRIC_NAMES, *COMPOSED]
PLACES = [(0.25, -0.2)]  # where the content is to be seen afterwards: (x, y)


def build(case: str) -> tuple[Transform, Tensor]:
    transform = COMPOSED.get(case) or make(case)
    return transform, generic_theta(transform, 1, seed=8)


def forward_map(case: str, theta: Tensor, size: tuple[int, int]) -> Matrix:
    """Where the content goes, in the normalized frame, by way of pixels and numpy."""
    values = theta[0].tolist()
    if case in COMPOSED:
        steps = []
        for transform in COMPOSED[case].transforms:
            own, values = values[: transform.n_parameters], values[transform.n_parameters :]
            if transform.name in FORWARD:
                steps.append(FORWARD[transform.name](own, *size))
        pixels = reduce(lambda done, step: step @ done, steps)
    else:
        pixels = FORWARD[case](values, *size)
    unit = np.diag([size[1] / 2, size[0] / 2, 1.0])
    return np.asarray(np.linalg.inv(unit) @ pixels @ unit)


def mapped(matrix: Matrix, point: Sequence[float]) -> tuple[float, float]:
    x, y, w = matrix @ np.array([*point, 1.0])
    return float(x / w), float(y / w)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_dot_is_found_where_its_keypoint_went(
    case: str, place: tuple[float, float], size: tuple[int, int]
) -> None:
    transform, theta = build(case)
    height, width = size
    source = mapped(np.linalg.inv(forward_map(case, theta, size)), place)
    point = torch.tensor([[source]], dtype=torch.float64)
    moved = transform.apply_keypoints(point, theta, aspect=width / height)
    assert moved.flatten().tolist() == pytest.approx(list(place), abs=1e-9)
    dot = dot_image(source, height=height, width=width).expand(1, 3, height, width)
    seen = center_of_mass(transform.apply(dot * 0.5, theta))[0]  # dim: colors must not clip it
    in_pixels = (seen - moved[0]) * torch.tensor([width / 2, height / 2], dtype=torch.float64)
    assert in_pixels.abs().max() <= 0.5


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_boxes_become_the_hull_of_their_moved_corners(case: str, size: tuple[int, int]) -> None:
    transform, theta = build(case)
    forward = forward_map(case, theta, size)
    boxes = [(0.1, -0.2, 0.4, 0.3), (-0.3, 0.25, 0.2, 0.5)]
    moved = transform.apply_boxes(
        torch.tensor([boxes], dtype=torch.float64), theta, aspect=size[1] / size[0]
    )
    expected = []
    for x, y, w, h in boxes:
        corners = np.array(
            [mapped(forward, (x + i * w / 2, y + j * h / 2)) for i in (-1, 1) for j in (-1, 1)]
        )
        low, high = corners.min(axis=0), corners.max(axis=0)
        expected.append([*(low + high) / 2, *(high - low)])
    assert largest_difference(moved[0], torch.tensor(expected, dtype=torch.float64)) <= 1e-9


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_a_bright_patch_fills_its_moved_box(case: str, size: tuple[int, int]) -> None:
    transform, theta = build(case)
    height, width = size
    x, y = mapped(np.linalg.inv(forward_map(case, theta, size)), (0.1, -0.05))
    box = torch.tensor([[[x, y, 0.3, 0.24]]], dtype=torch.float64)
    cx = (torch.arange(width, dtype=torch.float64) * 2 + 1) / width - 1
    cy = (torch.arange(height, dtype=torch.float64) * 2 + 1) / height - 1
    patch = ((cx - x).abs() <= 0.15) & ((cy - y).abs() <= 0.12)[:, None]
    mask = patch.long().expand(1, 1, height, width) * 7
    seen = transform.apply_mask(mask, theta)[0, 0] == 7
    moved = transform.apply_boxes(box, theta, aspect=width / height)[0, 0]
    rows, columns = seen.any(dim=1).nonzero().flatten(), seen.any(dim=0).nonzero().flatten()
    left, right = 2 * columns[0] / width - 1, 2 * (columns[-1] + 1) / width - 1
    top, bottom = 2 * rows[0] / height - 1, 2 * (rows[-1] + 1) / height - 1
    found = torch.stack([left + right, top + bottom, (right - left) * 2, (bottom - top) * 2]) / 2
    in_pixels = (found - moved.clamp(-3, 3)) * torch.tensor([width, height, width, height]) / 2
    # A pixel of the input on either side, blown up as much as the transform does.
    zoom = float(moved[2] / 0.3 + moved[3] / 0.24) / 2
    assert in_pixels.abs().max() <= 1.5 + 2 * zoom


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float32], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_labels_stay_labels(case: str, dtype: torch.dtype) -> None:
    size = (37, 50)
    transform, theta = build(case)
    labels = torch.randint(1, 9, (1, 1, *size), generator=torch.Generator().manual_seed(0))
    labels = (labels * 25).to(dtype)
    out = transform.apply_mask(labels, theta)
    assert out.dtype == dtype
    assert out.shape == labels.shape
    assert set(out.unique().tolist()) <= set(labels.unique().tolist()) | {0}
    assert torch.equal(transform.apply_mask(labels, transform.identity()), labels)


def test_large_labels_survive() -> None:
    labels = torch.tensor([[2**31 + 1, 2**31 + 3]]).view(1, 1, 1, 2)
    out = Flip().apply_mask(labels, torch.tensor([[-1.0, 1.0]]))
    assert out.flatten().tolist() == [2**31 + 3, 2**31 + 1]


@pytest.mark.parametrize("size", [(64, 64), (64, 96)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_masks_move_with_the_image(case: str, size: tuple[int, int]) -> None:
    transform, theta = build(case)
    height, width = size
    y = torch.linspace(-1, 1, height)[:, None]
    x = torch.linspace(-1, 1, width)
    shape = ((x - 0.3) ** 2 + (2 * y + 0.4) ** 2 < 0.7).expand(1, 1, height, width)
    mask = transform.apply_mask(shape, theta)
    image = transform.apply(shape.double().expand(1, 3, height, width) * 0.5, theta)
    assert mask.dtype == torch.bool
    half = image.amax(dim=1, keepdim=True) > 0.5 * float(image.max())
    assert (half == mask).double().mean() > 0.98
    assert 0.02 < mask.double().mean() < 0.98


@pytest.mark.parametrize("size", [(64, 64), (64, 96), (101, 75)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_the_way_back_restores_what_was_seen(case: str, size: tuple[int, int]) -> None:
    transform, theta = build(case)
    if "color" in case:  # colors stay changed
        theta[:, 1:4] = torch.tensor([0.0, 1.0, 1.0])
    x = smooth_images(1, height=size[0], width=size[1])
    back = transform.invert(transform.apply(x, theta), theta)
    seen = transform.invert(transform.apply(torch.ones_like(x), theta), theta)[0, 0] > 1 - 1e-9
    assert seen.double().mean() > 0.1
    assert largest_difference(back[..., seen], x[..., seen]) <= 0.01
    assert largest_difference(transform.apply(x, theta), x) > 0.1
