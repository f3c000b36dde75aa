"""Does a box show what its unit stands for? Checks that know the geometry from first principles.

Each check takes the boxes of one level as (rows, columns, 4) and raises an AssertionError that
says what is wrong; :data:`SABOTAGES` are the mistakes that it has to notice.
"""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from typing_extensions import override

from instaaug.transforms import Crop

__all__ = [
    "SABOTAGES",
    "check_boxes_show_their_cells",
    "check_boxes_show_their_dots",
    "check_crops_have_their_extent",
    "check_units_see_their_boxes",
    "without_normalization",
]

Size = tuple[int, int]


def _pixels(n: int) -> Tensor:
    return (2 * torch.arange(n, dtype=torch.float64) + 1) / n - 1


def _crops(image: Tensor, boxes: Tensor) -> Tensor:
    """The crop (rows, columns, C, H, W) of one image, or of an image each, by every box."""
    flat = boxes.flatten(0, 1)
    images = image if len(image) == len(flat) else image.expand(len(flat), -1, -1, -1)
    return Crop().apply(images, flat).unflatten(0, boxes.shape[:2])


def _middle(crops: Tensor) -> Tensor:
    """The pixel in the middle, or the mean of the two or four around it."""
    height, width = crops.shape[-2:]
    rows = slice((height - 1) // 2, height // 2 + 1)
    columns = slice((width - 1) // 2, width // 2 + 1)
    return crops[..., rows, columns].mean(dim=(-2, -1))


def check_boxes_show_their_cells(boxes: Tensor, image_size: Size) -> None:
    """Give every cell of the image a number of its own: crop (i, j) has it in the middle."""
    rows, columns = boxes.shape[:2]
    height, width = image_size
    assert height % rows == 0, "a cell must be whole pixels for this check"
    assert width % columns == 0, "a cell must be whole pixels for this check"
    numbers = torch.arange(1.0, rows * columns + 1, dtype=torch.float64).view(rows, columns)
    image = numbers.repeat_interleave(height // rows, 0).repeat_interleave(width // columns, 1)
    shown = _middle(_crops(image[None, None], boxes))[..., 0]
    wrong = ((shown - numbers).abs() > 1e-6).nonzero()
    assert len(wrong) == 0, f"{len(wrong)} boxes show another cell, first unit {wrong[0].tolist()}"


def check_crops_have_their_extent(boxes: Tensor, image_size: Size, size: float) -> None:
    """Let every pixel tell its place: crop (i, j) spans just the box of ``size`` around its cell.

    A ramp is interpolated without error, so that every output pixel is held to its place.
    """
    rows, columns = boxes.shape[:2]
    height, width = image_size
    far = 10.0  # so that a zero can only be padding
    x, y = _pixels(width).expand(height, width), _pixels(height)[:, None].expand(height, width)
    crops = _crops(torch.stack([x, y])[None] + far, boxes)
    source_x = (_pixels(columns)[:, None] + size * _pixels(width))[None, :, None, :]
    source_y = (_pixels(rows)[:, None] + size * _pixels(height))[:, None, :, None]
    expected = torch.stack(torch.broadcast_tensors(source_x, source_y), dim=2) + far
    inside = (source_x.abs() <= 1 - 1 / width) & (source_y.abs() <= 1 - 1 / height)
    outside = (source_x.abs() >= 1 + 1 / width) | (source_y.abs() >= 1 + 1 / height)
    error = ((crops - expected).abs() * inside[:, :, None]).max()
    assert float(error) < 1e-5, f"crops are off by {float(error):.3g} somewhere in their extent"
    assert float((crops * outside[:, :, None]).abs().max()) == 0, "what lies outside is not empty"


def check_boxes_show_their_dots(boxes: Tensor, image_size: Size, pixels: Tensor) -> None:
    """Light one of ``pixels`` (rows, columns, 2) per unit: it is in the middle of the crop."""
    rows, columns = boxes.shape[:2]
    height, width = image_size
    images = torch.zeros(rows * columns, 1, height * width)
    index = (pixels[..., 0] * width + pixels[..., 1]).view(-1, 1, 1)
    images = images.scatter(2, index, 1.0).unflatten(-1, image_size)
    crops = _crops(images, boxes)
    wrong = (_middle(crops)[..., 0] < 0.999 * crops.amax(dim=(-3, -2, -1))).nonzero()
    assert len(wrong) == 0, f"{len(wrong)} dots are off the middle, first {wrong[0].tolist()}"
    assert (crops.amax(dim=(-3, -2, -1)) > 0).all(), "a dot is not to be seen at all"


class _Copy(nn.Module):
    @override
    def forward(self, x: Tensor) -> Tensor:
        return x.clone()


def without_normalization(network: nn.Module) -> nn.Module:
    """The same convolutions with positive weights and no GroupNorm, which sees the whole image.

    On positive images every activation is positive: no rectifier hides what a unit can see.
    """
    bare = copy.deepcopy(network).double()
    for parent in list(bare.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.GroupNorm):
                setattr(parent, name, _Copy())
    with torch.no_grad():
        for parameter in bare.parameters():
            parameter.abs_()
    return bare


def check_units_see_their_boxes(
    bare: nn.Module, layer: int, boxes: Tensor, image_size: Size
) -> None:
    """Change pixels: a unit notices the outermost ones within its box, and none outside of it."""
    scale = torch.tensor([image_size[1], image_size[0]], dtype=torch.float64) / 2
    low = (boxes[..., :2].double() - boxes[..., 2:].double() / 2 + 1) * scale
    high = (boxes[..., :2].double() + boxes[..., 2:].double() / 2 + 1) * scale
    spans = torch.cat([low, high], dim=-1)  # left, top, right, bottom, in pixels
    assert float((spans - spans.round()).abs().max()) < 1e-3, "boxes do not end between pixels"
    for i, row in enumerate(spans.round().long()):
        changes = torch.stack([_changes(span.tolist(), image_size) for span in row], dim=1)
        base = torch.full((1, 3, *image_size), 0.5, dtype=torch.float64)
        images = (base + changes.flatten(0, 1)[:, None]).expand(-1, 3, -1, -1)
        with torch.no_grad():
            before = bare(base)[layer].sum(dim=1)[0, i]
            after = bare(images)[layer].sum(dim=1)[:, i].unflatten(0, changes.shape[:2])
        columns = torch.arange(len(row))
        relative = (after[:, columns, columns] / before - 1).abs()
        assert float(relative[0].max()) < 1e-12, f"units of row {i} see beyond their box"
        there = changes[1:].flatten(2).any(dim=-1)  # an edge may lie beyond the border
        assert (relative[1:][there] > 1e-10).all(), f"units of row {i} do not see all their box"


def _changes(span: list[int], image_size: Size) -> Tensor:
    """What to add: everything outside of the span; its left, top, right and bottom edge."""
    left, top, right, bottom = span
    y, x = torch.arange(image_size[0])[:, None], torch.arange(image_size[1])
    inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
    edges = [x == left, y == top, x == right - 1, y == bottom - 1]
    return torch.stack([~inside, *[inside & edge for edge in edges]]).double()


def _by_one_pixel(image_size: Size) -> Tensor:
    return torch.tensor([2 / image_size[1], 0.0, 0.0, 0.0])


SABOTAGES: dict[str, Callable[[Tensor, Size], Tensor]] = {
    "x_and_y_swapped": lambda b, _: b[..., [1, 0, 3, 2]],
    "rows_and_columns_swapped": lambda b, _: (
        b.transpose(0, 1).reshape(b.shape) if b.shape[0] == b.shape[1] else b[..., [1, 0, 2, 3]]
    ),
    "mirrored_left_right": lambda b, _: b * torch.tensor([-1.0, 1.0, 1.0, 1.0]),
    "mirrored_up_down": lambda b, _: b * torch.tensor([1.0, -1.0, 1.0, 1.0]),
    "swapped_and_mirrored": lambda b, _: b[..., [1, 0, 3, 2]] * torch.tensor([-1, -1, 1, 1.0]),
    "shifted_by_a_column": lambda b, _: b.roll(1, dims=1),
    "shifted_by_a_row": lambda b, _: b.roll(-1, dims=0),
    "shifted_by_a_unit": lambda b, _: b.flatten(0, 1).roll(1, dims=0).view(b.shape),
    "shifted_by_a_pixel": lambda b, size: b + _by_one_pixel(size),
    "wider_by_a_pixel": lambda b, size: b + 2 * _by_one_pixel(size).roll(2),
}
"""Mistakes: swapped (the official code also mirrors), mirrored, shifted by one."""
