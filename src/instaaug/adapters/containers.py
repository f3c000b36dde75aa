"""Masks, boxes and points in the containers of torchvision and kornia follow our geometry."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.errors import ArgumentError
from instaaug.functional.affine import inverse
from instaaug.functional.boxes import move_boxes, move_points
from instaaug.functional.warp import warp
from instaaug.shapes import Matrices, Rows, constant
from instaaug.transforms import Transform

__all__ = ["follow"]

Size = tuple[int, int]


def follow(
    transform: Transform,
    target: Any,
    theta: Float[Tensor, "*n batch d"],
    *,
    image_size: Size | None = None,
) -> Any:
    """Targets of images, moved as ``transform.apply(images, theta)`` moves the images.

    What comes in comes out: torchvision's ``Image``, ``Mask``, ``BoundingBoxes`` (the upright
    hull of each) and ``KeyPoints``; kornia's ``Boxes`` and ``Keypoints``, as kornia moves them. A
    dict is followed value by value, and what has no place, such as labels, stays as it is.
    Neither library is imported unless it was imported before.

    Arguments:
        transform: What the images went through, such as ``aug.transform``.
        target: For one image; for a batch a list with an entry for each, or a container that has
            a leading axis for the images, as kornia's have. Several samples need a list.
        theta: Its parameters, a row per image; ``(n, B, d)`` as in
            :class:`~instaaug.augmentation.AugmentedBatch`, where entry ``j * B + i`` of what
            comes out belongs to sample j of image i.
        image_size: Height and width of the images in pixels, for containers that do not know it.

    Raises:
        ArgumentError: If a container cannot follow, or if there are more or fewer than images.

    Example:
        >>> from instaaug.transforms import Flip
        >>> mirrored = torch.tensor([[-1.0, 1.0]])
        >>> follow(Flip(), {"label": 3}, mirrored)
        {'label': 3}
    """
    if not transform.tells_matrix:
        raise ArgumentError(
            f"`transform` must say where every pixel goes: {transform.name} does not, so that "
            "masks and boxes cannot follow. Choose another one."
        )
    n_samples = theta.shape[0] if theta.ndim == 3 else 1
    rows = theta.detach().reshape(-1, theta.shape[-1])
    n_images = len(rows) // max(n_samples, 1)
    if isinstance(target, list | tuple):
        if len(target) != n_images:
            raise ArgumentError(
                f"`target` must have an entry for each of {n_images} images: got {len(target)}."
            )
        return [
            _follow_one(transform, entry, rows[i : i + 1], image_size)
            for i, entry in enumerate([*target] * n_samples)
        ]
    return _follow_one(transform, target, rows, image_size)


def _follow_one(transform: Transform, target: Any, theta: Rows, image_size: Size | None) -> Any:
    if isinstance(target, Mapping):
        return {k: _follow_one(transform, v, theta, image_size) for k, v in target.items()}
    for module, name, move in KINDS:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and type(target) is kind:
            return move(transform, target, theta, image_size)
    if type(target).__module__.startswith(("torchvision.tv_tensors", "kornia.")):
        raise ArgumentError(
            f"`target` cannot follow: got {type(target).__name__}. Image, Mask, BoundingBoxes, "
            "KeyPoints of torchvision and Boxes, Keypoints of kornia can."
        )
    return target


def _plain(target: Tensor) -> Tensor:
    return target.as_subclass(Tensor)


def _wrap(moved: Tensor, like: Tensor, **facts: Any) -> Any:
    return sys.modules["torchvision.tv_tensors"].wrap(moved, like=like, **facts)


def _out_size(transform: Transform, size: Size) -> Size:
    return getattr(transform, "size", None) or size


def _matrix(transform: Transform, theta: Rows, size: Size) -> Matrices:
    return transform.matrix(theta, aspect=size[1] / size[0])


def _as_batch(pixels: Tensor, n: int) -> Tensor:
    """Pixels with an axis for n images in front."""
    shaped = pixels if pixels.ndim == 4 else pixels.reshape(1, -1, *pixels.shape[-2:])
    _check_count(len(shaped), n)
    return shaped


def _check_count(got: int, n: int) -> None:
    if got != n:
        raise ArgumentError(
            f"`target` must be of as many images as `theta` has rows: got {got} for {n}. Give a "
            "list with an entry for each image."
        )


def _move_image(transform: Transform, image: Tensor, theta: Rows, _: Size | None) -> Any:
    pixels = _as_batch(_plain(image), len(theta))
    moved = transform.apply(pixels, theta.to(pixels.device))
    return _wrap(moved.reshape(*image.shape[:-2], *moved.shape[-2:]), image)


def _move_mask(transform: Transform, mask: Tensor, theta: Rows, _: Size | None) -> Any:
    pixels, size = _as_batch(_plain(mask), len(theta)), (mask.shape[-2], mask.shape[-1])
    labels = pixels if pixels.is_floating_point() else pixels.double()
    moved = warp(
        labels,
        _matrix(transform, theta, size),
        mode="nearest",
        projective=transform.projective,
        size=_out_size(transform, size),
    ).to(mask.dtype)
    return _wrap(moved.reshape(*mask.shape[:-2], *moved.shape[-2:]), mask)


def _move_tv_boxes(transform: Transform, boxes: Any, theta: Rows, _: Size | None) -> Any:
    _check_count(1, len(theta))
    if boxes.format.name not in TO_CENTERS:
        raise ArgumentError(
            f"`target` must be upright boxes, {', '.join(TO_CENTERS)}: got the format "
            f"{boxes.format.name}. Convert them to XYXY first."
        )
    size, out = boxes.canvas_size, _out_size(transform, boxes.canvas_size)
    sides = boxes.new_tensor([size[1], size[0]]).as_subclass(Tensor).to(torch.float64)
    new_sides = sides.new_tensor([out[1], out[0]])
    change = sides.new_tensor(TO_CENTERS[boxes.format.name])
    centered = _plain(boxes).double().reshape(1, -1, 4) @ change.T
    scaled = torch.cat([centered[..., :2] * 2 / sides - 1, centered[..., 2:] * 2 / sides], dim=-1)
    moved = move_boxes(scaled, _matrix(transform, theta.double(), size))
    pixels = torch.cat([(moved[..., :2] + 1) * new_sides, moved[..., 2:] * new_sides], dim=-1) / 2
    back = (pixels @ torch.linalg.inv(change).T).reshape(boxes.shape)
    return _wrap(_as_dtype(back, boxes.dtype), boxes, canvas_size=out)


def _move_tv_points(transform: Transform, points: Any, theta: Rows, _: Size | None) -> Any:
    _check_count(1, len(theta))
    size, out = points.canvas_size, _out_size(transform, points.canvas_size)
    forward = _pixel_matrix(transform, theta.double(), size)
    moved = move_points(_plain(points).double().reshape(1, -1, 2), inverse(forward))
    return _wrap(_as_dtype(moved.reshape(points.shape), points.dtype), points, canvas_size=out)


def _move_kornia(
    move: str,
) -> Callable[[Transform, Any, Rows, Size | None], Any]:
    """By kornia's own method, with our matrix in pixels."""

    def follow_matrix(transform: Transform, target: Any, theta: Rows, size: Size | None) -> Any:
        if size is None:
            raise ArgumentError(
                f"`image_size` must be given for kornia's {type(target).__name__}, which do not "
                "know it: a height and a width in pixels."
            )
        is_batched = target.data.ndim > (3 if move == "transform_boxes" else 2)
        _check_count(len(target.data) if is_batched else 1, len(theta))
        matrix = _pixel_matrix(transform, theta, size).to(target.data)
        return getattr(target, move)(matrix if is_batched else matrix[0])

    return follow_matrix


def _pixel_matrix(transform: Transform, theta: Rows, size: Size) -> Matrices:
    """From places in the input to places in the output, in pixels; the first center is (0, 0)."""
    to_normal = inverse(_frame(size, theta))
    return (
        _frame(_out_size(transform, size), theta)
        @ inverse(_matrix(transform, theta, size))
        @ to_normal
    )


def _frame(size: Size, like: Tensor) -> Float[Tensor, "1 3 3"]:
    """From the normalized frame to pixels."""
    height, width = size
    rows: Sequence[Sequence[float]] = (
        (width / 2, 0.0, (width - 1) / 2),
        (0.0, height / 2, (height - 1) / 2),
        (0.0, 0.0, 1.0),
    )
    return torch.stack([constant(row, like=like) for row in rows])[None]


def _as_dtype(moved: Tensor, dtype: torch.dtype) -> Tensor:
    """Whole numbers where they came in: rounded, not cut off."""
    return moved.to(dtype) if dtype.is_floating_point else moved.round().to(dtype)


TO_CENTERS: Mapping[str, Sequence[Sequence[float]]] = {
    "XYXY": ((0.5, 0, 0.5, 0), (0, 0.5, 0, 0.5), (-1, 0, 1, 0), (0, -1, 0, 1)),
    "XYWH": ((1, 0, 0.5, 0), (0, 1, 0, 0.5), (0, 0, 1, 0), (0, 0, 0, 1)),
    "CXCYWH": ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
}
"""From torchvision's formats of boxes to (center x, center y, width, height)."""

KINDS: Sequence[tuple[str, str, Callable[[Transform, Any, Rows, Size | None], Any]]] = (
    ("torchvision.tv_tensors", "Image", _move_image),
    ("torchvision.tv_tensors", "Mask", _move_mask),
    ("torchvision.tv_tensors", "BoundingBoxes", _move_tv_boxes),
    ("torchvision.tv_tensors", "KeyPoints", _move_tv_points),
    ("kornia.geometry.boxes", "Boxes", _move_kornia("transform_boxes")),
    ("kornia.geometry.keypoints", "Keypoints", _move_kornia("transform_keypoints")),
)
