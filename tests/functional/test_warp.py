"""Sampling through a matrix, held against affine_grid + grid_sample and scipy."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from instaaug.functional.affine import rotation_matrix
from instaaug.functional.warp import PaddingMode, pixel_centers, sampling_grid, warp
from tests.support.images import largest_difference, random_images, smooth_images

PADDINGS: list[PaddingMode] = ["zeros", "border", "reflection"]
SCIPY_MODES = {"zeros": "grid-constant", "border": "nearest", "reflection": "reflect"}
SIZES = [(16, 64), (37, 50)]


def random_matrices(batch: int = 2, *, projective: bool = False, seed: int = 0) -> Tensor:
    """Matrices near the identity, every entry different."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(batch, 3, 3, generator=generator, dtype=torch.float64) - 0.5
    noise[:, 2] *= 0.5 if projective else 0.0
    return torch.eye(3, dtype=torch.float64) + noise * 0.9


def sampled_by_scipy(x: Tensor, matrix: Tensor, *, mode: str) -> Tensor:
    """The warp pixel by pixel: homogeneous coordinates in numpy, interpolation by scipy."""
    height, width = x.shape[-2:]
    i, j = np.mgrid[:height, :width]
    points = np.stack([(2 * j + 1) / width - 1, (2 * i + 1) / height - 1, np.ones_like(i)])
    out = np.empty(tuple(x.shape))
    for b, image in enumerate(x.numpy()):
        u, v, w = np.einsum("rc,chw->rhw", matrix[b].numpy(), points)
        rows, columns = ((v / w + 1) * height - 1) / 2, ((u / w + 1) * width - 1) / 2
        for c, channel in enumerate(image):
            out[b, c] = ndimage.map_coordinates(channel, [rows, columns], order=1, mode=mode)
    return torch.from_numpy(out)


@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_pixel_centers_are_those_of_unaligned_corners(n: int) -> None:
    grid = F.affine_grid(torch.eye(2, 3)[None], [1, 1, 1, n], align_corners=False)
    torch.testing.assert_close(pixel_centers(n, like=torch.zeros(1)), grid[0, 0, :, 0])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_grid_is_the_one_of_affine_grid(size: tuple[int, int]) -> None:
    matrix = random_matrices()
    expected = F.affine_grid(matrix[:, :2], [2, 1, *size], align_corners=False)
    grid = sampling_grid(matrix, height=size[0], width=size[1])
    assert largest_difference(grid, expected) <= 1e-12


def test_the_projective_grid_divides_by_the_homogeneous_coordinate() -> None:
    matrix = random_matrices(projective=True)
    y, x = torch.meshgrid(
        pixel_centers(5, like=matrix), pixel_centers(9, like=matrix), indexing="ij"
    )
    points = torch.stack([x, y, torch.ones_like(x)], dim=-1)
    mapped = torch.einsum("brc,hwc->bhwr", matrix, points)
    grid = sampling_grid(matrix, height=5, width=9, projective=True)
    assert largest_difference(grid, mapped[..., :2] / mapped[..., 2:]) <= 1e-12


@pytest.mark.parametrize("tilt", [8 / 3, 3.0])  # at 8/3 a pixel lies exactly at the camera
def test_what_lies_behind_the_camera_is_not_shown(tilt: float) -> None:
    matrix = torch.eye(3, dtype=torch.float64)[None].clone()
    matrix[0, 2, 0] = tilt
    grid = sampling_grid(matrix, height=8, width=8, projective=True)
    behind = 1 + tilt * pixel_centers(8, like=matrix) <= 1e-12
    assert behind.sum() >= 3
    assert torch.isfinite(grid).all()
    assert (grid[0, :, behind, 0] < -1).all()


@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_warp_matches_affine_grid_and_grid_sample(
    padding_mode: PaddingMode, size: tuple[int, int], dtype: torch.dtype
) -> None:
    x = random_images(2, height=size[0], width=size[1], dtype=dtype)
    matrix = random_matrices().to(dtype)
    grid = F.affine_grid(matrix[:, :2], list(x.shape), align_corners=False)
    expected = F.grid_sample(x, grid, padding_mode=padding_mode, align_corners=False)
    bound = 1e-12 if dtype == torch.float64 else 2e-5  # a step of 1e-7 of the grid, times 64 / 2
    assert largest_difference(warp(x, matrix, padding_mode=padding_mode), expected) <= bound


@pytest.mark.parametrize("projective", [False, True])
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("size", [(32, 32), (21, 34)], ids=str)
def test_warp_matches_scipy(
    padding_mode: PaddingMode, size: tuple[int, int], projective: bool
) -> None:
    x = random_images(2, height=size[0], width=size[1], dtype=torch.float64)
    matrix = random_matrices(projective=projective)
    expected = sampled_by_scipy(x, matrix, mode=SCIPY_MODES[padding_mode])
    out = warp(x, matrix, padding_mode=padding_mode, projective=projective)
    assert largest_difference(out, expected) <= 1e-10


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_nearest_copies_pixels_and_nothing_between(size: tuple[int, int]) -> None:
    labels = torch.randint(
        1, 200, (2, 1, *size), generator=torch.Generator().manual_seed(0)
    ).float()
    out = warp(labels, random_matrices().float(), mode="nearest")
    assert set(out.unique().tolist()) <= set(labels.unique().tolist()) | {0.0}


@pytest.fixture(params=["eager", "compiled"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity is restored in place, or by a selection where a graph or a device needs it."""
    if request.param == "compiled":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("padding_mode", PADDINGS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_the_identity_is_restored_to_the_last_bit(
    padding_mode: PaddingMode, size: tuple[int, int], mode: Any
) -> None:
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(0)).exp()
    out = warp(x, torch.eye(3).expand(2, 3, 3), padding_mode=padding_mode, mode=mode)
    assert torch.equal(out, x)


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("entry", [(0, 1), (0, 2), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("size", [(256, 128), (150, 201)], ids=str)
def test_gradient_at_the_identity_is_the_one_of_the_interpolation(
    size: tuple[int, int], entry: tuple[int, int]
) -> None:
    # A smooth image: the kinks of the interpolation are small, and a central difference sees
    # the slope. Restoring the identity by a plain copy would leave a slope of zero.
    x = smooth_images(1, height=size[0], width=size[1])
    inside = F.pad(torch.ones(1, 1, size[0] - 6, size[1] - 6, dtype=torch.float64), (3, 3, 3, 3))
    weights = smooth_images(2, height=size[0], width=size[1])[1:] ** 2 * inside
    eye = torch.eye(3, dtype=torch.float64)[None]
    matrix = eye.clone().requires_grad_()
    (slope,) = torch.autograd.grad((warp(x, matrix) * weights).sum(), matrix)
    step = torch.zeros_like(eye)
    step[0, *entry] = 1e-4
    ahead, behind = (warp(x, eye + s * step) for s in (1, -1))
    expected = ((ahead - behind) * weights).sum() / 2e-4
    assert abs(expected) > 5
    assert slope[0, *entry].item() == pytest.approx(expected.item(), rel=0.1)


def test_gradient_at_the_identity_pulls_towards_a_target() -> None:
    bump = torch.exp(-4 * pixel_centers(37, like=torch.zeros(1, dtype=torch.float64)) ** 2)
    x = (bump[:, None] * bump).expand(1, 1, 37, 37)
    shift = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    matrix = torch.eye(3, dtype=torch.float64).index_put(
        (torch.tensor([0]), torch.tensor([2])), shift
    )
    target = x.roll(3, dims=-1)  # to the right: samples must come from further left
    (slope,) = torch.autograd.grad(((warp(x, matrix[None]) - target) ** 2).mean(), shift)
    assert slope > 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_sampled_in_single(dtype: torch.dtype) -> None:
    x = random_images(2, height=37, width=50, dtype=dtype)
    matrix = random_matrices().float()
    assert torch.equal(warp(x, matrix), warp(x.float(), matrix).to(dtype))


@pytest.mark.parametrize("angle", [0.3, -2.0])
def test_double_precision_images_do_not_lose_digits(angle: float) -> None:
    x = random_images(1, height=21, width=34, dtype=torch.float64)
    matrix = rotation_matrix(torch.tensor([angle], dtype=torch.float64), aspect=34 / 21)
    out = warp(x, matrix)
    assert out.dtype == torch.float64
    assert largest_difference(out, sampled_by_scipy(x, matrix, mode="grid-constant")) <= 1e-10
