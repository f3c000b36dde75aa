"""Boxes: coverage, moved points and hulls, intersection over union."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from instaaug.functional.affine import (
    perspective_matrix,
    rotation_matrix,
    scale_matrix,
    translation_matrix,
)
from instaaug.functional.boxes import box_iou, coverage, move_boxes, move_points
from tests.support.images import largest_difference

center = st.floats(-1.5, 1.5)
side = st.floats(0.01, 2.5)


def row(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def overlap(low_a: float, high_a: float, low_b: float, high_b: float) -> float:
    return max(0.0, min(high_a, high_b) - max(low_a, low_b))


@given(x=center, y=center, w=side, h=side, height=st.integers(1, 9), width=st.integers(1, 9))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_coverage_sums_to_the_area_inside_the_image(
    x: float, y: float, w: float, h: float, height: int, width: int
) -> None:
    share = coverage(row(x, y, w, h), height=height, width=width)
    area = overlap(x - w / 2, x + w / 2, -1, 1) * overlap(y - h / 2, y + h / 2, -1, 1)
    assert share.sum().item() * 4 / (height * width) == pytest.approx(area, abs=1e-12)
    assert share.min() >= 0
    assert share.max() <= 1 + 1e-12


def test_coverage_of_each_pixel_is_the_share_of_a_fine_raster() -> None:
    box = row(0.13, -0.21, 0.9, 0.55)
    y, x = np.mgrid[:600, :800]
    px, py = (2 * x + 1) / 800 - 1, (2 * y + 1) / 600 - 1
    inside = (abs(px - 0.13) < 0.45) & (abs(py + 0.21) < 0.275)
    raster = torch.from_numpy(inside.reshape(6, 100, 8, 100).mean(axis=(1, 3)))
    assert largest_difference(coverage(box, height=6, width=8)[0, 0], raster) <= 0.02


def test_a_box_over_pixels_covers_those_rows_and_columns() -> None:
    box = row(0.5, -0.5, 1.0, 0.5)  # columns 4 to 7 of 8, rows 1 and 2
    expected = torch.zeros(8, 8, dtype=torch.float64)
    expected[1:3, 4:] = 1
    assert torch.equal(coverage(box, height=8, width=8)[0, 0], expected)


@pytest.mark.parametrize("size", [(8, 8), (37, 50)], ids=str)
@pytest.mark.parametrize("point", [(0.0, 0.0), (0.3, -0.7)], ids=str)
def test_an_empty_box_covers_nothing_at_all(
    size: tuple[int, int], point: tuple[float, float]
) -> None:
    empty = torch.tensor([[*point, 0.0, 0.0]])
    assert not coverage(empty, height=size[0], width=size[1]).any()


def test_coverage_tells_the_box_where_to_grow() -> None:
    box = row(0.1, 0.05, 0.7, 0.9).requires_grad_()
    (slope,) = torch.autograd.grad(coverage(box, height=7, width=5).sum() * 4 / 35, box)
    assert slope[0].tolist() == pytest.approx([0.0, 0.0, 0.9, 0.7], abs=1e-12)


def test_points_follow_the_content() -> None:
    points = torch.tensor([[[0.5, 0.0], [0.0, 0.25]]], dtype=torch.float64)
    quarter = rotation_matrix(torch.tensor([torch.pi / 2], dtype=torch.float64))
    expected = torch.tensor([[[0.0, -0.5], [0.25, 0.0]]])  # right goes up, down goes right
    assert largest_difference(move_points(points, quarter), expected) <= 1e-12
    moved = move_points(points, translation_matrix(row(0.1, -0.2)))
    assert largest_difference(moved, points + row(0.2, -0.4)) <= 1e-12


def test_points_through_a_perspective_come_back() -> None:
    points = torch.tensor([[[0.5, 0.1], [-0.3, 0.25]]], dtype=torch.float64)
    matrix = perspective_matrix(row(0.2, -0.3))
    moved = move_points(points, matrix)
    back = matrix[0] @ torch.cat([moved[0], torch.ones(2, 1, dtype=torch.float64)], dim=1).T
    assert largest_difference((back[:2] / back[2]).T, points[0]) <= 1e-12
    assert largest_difference(moved, points) > 0.01


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_points_keep_their_precision_whatever_the_matrix_has(dtype: torch.dtype) -> None:
    points = torch.tensor([[[0.5, 0.25]]], dtype=dtype)
    assert move_points(points, torch.eye(3)[None]).dtype == dtype
    assert torch.equal(move_points(points, torch.eye(3, dtype=dtype)[None]), points)


def test_a_turned_square_has_a_larger_hull() -> None:
    matrix = rotation_matrix(torch.tensor([torch.pi / 4], dtype=torch.float64))
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.5, 0.0, 0.2, 0.2]]], dtype=torch.float64)
    half = 2**-0.5
    expected = torch.tensor(
        [[[0.0, 0.0, 2 * half, 2 * half], [half / 2, -half / 2, 0.4 * half, 0.4 * half]]]
    )
    assert largest_difference(move_boxes(boxes, matrix), expected) <= 1e-6


def test_scaled_and_mirrored_boxes_keep_positive_sides() -> None:
    boxes = torch.tensor([[[0.2, -0.1, 0.4, 0.6]]], dtype=torch.float64)
    expected = torch.tensor([[[-0.4, -0.05, 0.8, 0.3]]], dtype=torch.float64)
    assert largest_difference(move_boxes(boxes, scale_matrix(row(-2.0, 0.5))), expected) <= 1e-12


@given(a=st.tuples(center, center, side, side), b=st.tuples(center, center, side, side))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_iou_is_shared_over_joint_area(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> None:
    shared = overlap(a[0] - a[2] / 2, a[0] + a[2] / 2, b[0] - b[2] / 2, b[0] + b[2] / 2)
    shared *= overlap(a[1] - a[3] / 2, a[1] + a[3] / 2, b[1] - b[3] / 2, b[1] + b[3] / 2)
    expected = shared / (a[2] * a[3] + b[2] * b[3] - shared)
    assert box_iou(row(*a), row(*b)).item() == pytest.approx(expected, abs=1e-12)
    assert box_iou(row(*b), row(*a)).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("other", "expected"),
    [((0.0, 0.0, 1.0, 1.0), 1.0), ((0.5, 0.0, 1.0, 1.0), 1 / 3), ((1.0, 0.0, 1.0, 1.0), 0.0)],
)
def test_iou_of_a_unit_square_with_itself_shifted(
    other: tuple[float, ...], expected: float
) -> None:
    assert box_iou(row(0.0, 0.0, 1.0, 1.0), row(*other)).item() == pytest.approx(expected)
