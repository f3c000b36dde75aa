"""Matrices held against closed forms: inverses, products, scipy's exponential."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from torch import Tensor

from instaaug.functional.affine import (
    box_matrix,
    from_entries,
    inverse,
    lie_matrix,
    perspective_matrix,
    rotation_matrix,
    scale_matrix,
    shear_matrix,
    to_physical_frame,
    translation_matrix,
)
from tests.support.images import largest_difference

ASPECTS = [1.0, 1.5, 0.4]


def rows(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def landing(matrix: Tensor, x: float, y: float) -> list[float]:
    """Where content at (x, y) goes, given the output-to-input matrix."""
    forward = np.linalg.inv(matrix[0].numpy()) @ np.array([x, y, 1.0])
    return [float(forward[0] / forward[2]), float(forward[1] / forward[2])]


def slant_matrix(value: float, aspect: float) -> Tensor:
    """Symmetric mixing of the axes: content moves by (cosh, sinh; sinh, cosh)."""
    forward = np.eye(3)
    forward[:2, :2] = [[np.cosh(value), np.sinh(value)], [np.sinh(value), np.cosh(value)]]
    backward = torch.from_numpy(np.linalg.inv(forward))[None]
    return to_physical_frame(backward, aspect)


def test_entries_are_stacked_row_by_row() -> None:
    a = torch.tensor([1.0, 2.0])
    matrix = from_entries(a, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    assert matrix[:, 0, 0].tolist() == [1.0, 2.0]
    assert matrix[1].flatten()[1:].tolist() == pytest.approx([0.1 * k for k in range(1, 9)])


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_physical_frame_is_a_change_of_basis(aspect: float) -> None:
    matrix = torch.rand(4, 3, 3, dtype=torch.float64)
    to_square = torch.diag(torch.tensor([aspect, 1.0, 1.0], dtype=torch.float64))
    expected = torch.linalg.inv(to_square) @ matrix @ to_square
    assert largest_difference(to_physical_frame(matrix, aspect), expected) <= 1e-12


@pytest.mark.parametrize(
    ("angle", "expected"),
    [(0.5 * np.pi, (0.0, -1.0)), (np.pi, (-1.0, 0.0)), (-0.5 * np.pi, (0.0, 1.0))],
)
def test_rotation_sends_the_right_edge_up(angle: float, expected: tuple[float, float]) -> None:
    matrix = rotation_matrix(rows(angle)[0])
    assert landing(matrix, 1.0, 0.0) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("angle", [0.3, -1.2, 2.8])
def test_rotation_keeps_distances_in_pixels(angle: float, aspect: float) -> None:
    x, y = landing(rotation_matrix(rows(angle)[0], aspect=aspect), 0.3, -0.6)
    assert np.hypot(x * aspect, y) == pytest.approx(np.hypot(0.3 * aspect, -0.6))
    turned = np.arctan2(-y, x * aspect) - np.arctan2(0.6, 0.3 * aspect)  # y points down
    assert np.angle(np.exp(1j * (turned - angle))) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_rotations_add_up(aspect: float) -> None:
    a, b = rows(0.7)[0], rows(-2.0)[0]
    product = rotation_matrix(a, aspect=aspect) @ rotation_matrix(b, aspect=aspect)
    assert largest_difference(product, rotation_matrix(a + b, aspect=aspect)) <= 1e-12


def test_translation_moves_right_and_down_by_fractions_of_the_side() -> None:
    assert landing(translation_matrix(rows(0.25, -0.1)), 0.0, 0.0) == pytest.approx([0.5, -0.2])


def test_scale_enlarges_each_axis_by_its_factor() -> None:
    assert landing(scale_matrix(rows(2.0, -0.5)), 0.3, 0.4) == pytest.approx([0.6, -0.2])


@pytest.mark.parametrize("aspect", ASPECTS)
def test_shear_adds_the_other_coordinate(aspect: float) -> None:
    x, y = 0.3 * aspect, -0.6
    expected = [(x + 0.2 * y) / aspect, y - 0.25 * x]
    matrix = shear_matrix(rows(0.2, -0.25), aspect=aspect)
    assert landing(matrix, 0.3, -0.6) == pytest.approx(expected)


def test_perspective_divides_by_the_tilted_coordinate() -> None:
    point = perspective_matrix(rows(0.2, -0.1))[0] @ rows(0.5, 0.4, 1.0)[0]
    assert (point[:2] / point[2]).tolist() == pytest.approx([0.5 / 1.06, 0.4 / 1.06])


@pytest.mark.parametrize(
    ("corner", "expected"), [((-1.0, -1.0), (-0.3, 0.05)), ((1.0, 1.0), (0.5, 0.35))]
)
def test_the_corners_of_the_image_look_at_the_corners_of_the_box(
    corner: tuple[float, float], expected: tuple[float, float]
) -> None:
    point = box_matrix(rows(0.1, 0.2, 0.8, 0.3))[0] @ rows(*corner, 1.0)[0]
    assert point[:2].tolist() == pytest.approx(list(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_the_inverse_undoes_in_any_precision(dtype: torch.dtype) -> None:
    matrix = rotation_matrix(torch.tensor([0.7], dtype=dtype))
    back = inverse(matrix)
    assert back.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    eye = torch.eye(3, dtype=torch.float64)[None]
    assert largest_difference(back.double() @ matrix.double(), eye) <= 1e-6


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize(
    ("coordinate", "value", "expected"),
    [
        (0, 0.2, lambda v, _: translation_matrix(rows(v, 0.0))),
        (1, 0.2, lambda v, _: translation_matrix(rows(0.0, v))),
        (2, 0.6, lambda v, aspect: rotation_matrix(rows(v)[0], aspect=aspect)),
        (3, 0.3, lambda v, _: scale_matrix(rows(np.exp(v), np.exp(v)))),
        (4, 0.3, lambda v, _: scale_matrix(rows(np.exp(v), np.exp(-v)))),
        (5, 0.3, slant_matrix),
    ],
    ids=["right", "down", "turn", "grow", "stretch", "slant"],
)
def test_each_generator_has_its_closed_form(
    coordinate: int, value: float, expected: object, aspect: float
) -> None:
    assert callable(expected)
    coordinates = torch.zeros(1, 6, dtype=torch.float64)
    coordinates[0, coordinate] = value
    difference = largest_difference(
        lie_matrix(coordinates, aspect=aspect), expected(value, aspect)
    )
    assert difference <= 1e-12


def test_the_generators_together_follow_scipys_exponential() -> None:
    right, down, turn, grow, stretch, slant = c = (0.1, -0.2, 0.5, 0.2, -0.1, 0.15)
    generators = np.array(
        [
            [grow + stretch, turn + slant, 2 * right],
            [slant - turn, grow - stretch, 2 * down],
            [0.0, 0.0, 0.0],
        ]
    )
    forward = torch.from_numpy(expm(generators))[None]
    assert largest_difference(inverse(lie_matrix(rows(*c))), forward) <= 1e-12


def test_going_back_in_the_algebra_is_the_inverse() -> None:
    coordinates = rows(0.1, -0.2, 0.5, 0.2, -0.1, 0.15)
    forward, back = lie_matrix(coordinates, aspect=1.5), lie_matrix(-coordinates, aspect=1.5)
    assert largest_difference(forward @ back, torch.eye(3)[None]) <= 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_exponential_is_as_good_as_the_precision_allows(dtype: torch.dtype) -> None:
    # torch.linalg.matrix_exp itself errs by 3e-5 in float32 and returns -2e4 in float16.
    coordinates = rows(0.1, -0.2, 0.5, 0.2, -0.1, 0.15).to(dtype)
    exact = lie_matrix(coordinates.double())
    assert lie_matrix(coordinates).dtype == dtype
    assert largest_difference(lie_matrix(coordinates), exact) <= torch.finfo(dtype).eps
