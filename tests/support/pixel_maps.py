"""Every geometric transform once more, in pixels and numpy: where the content of a pixel goes.

Pixels are counted from the middle of the image, u to the right and v downwards. Nothing here
uses the library: no normalized frame, no torch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from scipy.linalg import expm
from torch import Tensor

Matrix = NDArray[np.floating[Any]]
PixelMap = Callable[[Sequence[float], int, int], Matrix]


def _matrix(*rows: Sequence[float]) -> Matrix:
    return np.array(rows, dtype=np.float64)


def rotation(theta: Sequence[float], height: int, width: int) -> Matrix:
    c, s = np.cos(theta[0]), np.sin(theta[0])
    return _matrix([c, s, 0], [-s, c, 0], [0, 0, 1])  # right goes up: counterclockwise


def translate(theta: Sequence[float], height: int, width: int) -> Matrix:
    return _matrix([1, 0, theta[0] * width], [0, 1, theta[1] * height], [0, 0, 1])


def scale(theta: Sequence[float], height: int, width: int) -> Matrix:
    return np.diag([theta[0], theta[0], 1.0])


def shear(theta: Sequence[float], height: int, width: int) -> Matrix:
    return _matrix([1, theta[0], 0], [theta[1], 1, 0], [0, 0, 1])


def affine(theta: Sequence[float], height: int, width: int) -> Matrix:
    right, down, turn, grow, stretch, slant = theta
    generator = _matrix(
        [grow + stretch, turn + slant, right * width],
        [-turn + slant, grow - stretch, down * height],
        [0, 0, 0],
    )
    return np.asarray(expm(generator))


def perspective(theta: Sequence[float], height: int, width: int) -> Matrix:
    # An output pixel shows the point divided by 1 + a x + b y; forwards that is 1 - a x - b y.
    return _matrix([1, 0, 0], [0, 1, 0], [-2 * theta[0] / width, -2 * theta[1] / height, 1])


def flip(theta: Sequence[float], height: int, width: int) -> Matrix:
    return np.diag([theta[0], theta[1], 1.0])


def crop(theta: Sequence[float], height: int, width: int) -> Matrix:
    x, y, w, h = theta
    grow_x, grow_y = 2 / w, 2 / h
    return _matrix(
        [grow_x, 0, -grow_x * x * width / 2], [0, grow_y, -grow_y * y * height / 2], [0, 0, 1]
    )


def uniform_crop(theta: Sequence[float], height: int, width: int) -> Matrix:
    right, down, size = theta
    room = 1 - size
    return crop((right * room, down * room, 2 * size, 2 * size), height, width)


FORWARD: dict[str, PixelMap] = {
    "affine": affine,
    "crop": crop,
    "flip": flip,
    "perspective": perspective,
    "rotation": rotation,
    "scale": scale,
    "shear": shear,
    "translate": translate,
    "uniform_crop": uniform_crop,
    "window": crop,
}


def in_corner_frame(forward: Matrix, height: int, width: int) -> Matrix:
    """The same map for pixels counted from the upper left one, as kornia and scipy count."""
    center = _matrix([1, 0, (width - 1) / 2], [0, 1, (height - 1) / 2], [0, 0, 1])
    return np.asarray(center @ forward @ np.linalg.inv(center))


def warped_by_scipy(
    x: Tensor, forward: Sequence[Matrix], *, mode: str = "grid-constant"
) -> Tensor:
    """Each image pixel by pixel: look up where the content of each output pixel came from."""
    height, width = x.shape[-2:]
    i, j = np.mgrid[:height, :width]
    pixels = np.stack([j, i, np.ones_like(i)]).astype(np.float64)
    out = np.empty(tuple(x.shape))
    for b, matrix in enumerate(forward):
        back = np.linalg.inv(in_corner_frame(matrix, height, width))
        u, v, w = np.einsum("rc,chw->rhw", back, pixels)
        for c in range(x.shape[1]):
            image = x[b, c].double().numpy()
            out[b, c] = ndimage.map_coordinates(image, [v / w, u / w], order=1, mode=mode)
    return torch.from_numpy(out)
