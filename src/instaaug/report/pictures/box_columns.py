"""Columns on boxes: where they lie, which are likely, which were drawn, how large they are."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from instaaug.augmentation.observed import ObservedFactor
from instaaug.report.pictures.columns import Column, shown_aspect
from instaaug.report.pictures.crop_centers import center_density, draw_centers, sampled_density
from instaaug.report.pictures.crop_panels import (
    ProbabilityInk,
    draw_boxes,
    draw_drawn_boxes,
    overhang,
)
from instaaug.report.pictures.crop_sizes import draw_sizes
from instaaug.shapes import Images

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "box_columns",
    "centers_column",
    "chances",
    "drawn_column",
    "likeliest_column",
    "sizes_column",
]

N_LIKELIEST = 3
MOST_DRAWN = 12
DRAWN = "#fff3c4"


def box_columns(factor: ObservedFactor, images: Images) -> Iterator[Column]:
    """What is likely, if boxes have probabilities, else what was drawn; and sizes."""
    if factor.probs is None:
        yield drawn_column(factor, images)
    else:
        yield centers_column(factor, images)
        yield likeliest_column(factor, images)
    yield sizes_column(factor)


def chances(factor: ObservedFactor, i: int) -> tuple[Float[Tensor, "k 4"], Float[Tensor, " k"]]:
    """Boxes and how probable each is for an input; of drawn ones all are alike."""
    if factor.probs is not None and factor.table is not None:
        return factor.table, factor.probs[i]
    n = len(factor.theta)
    return factor.theta[:, i], torch.full((n,), 1 / n)


def centers_column(factor: ObservedFactor, images: Images) -> Column:
    """The density of the centers."""
    height, width = images.shape[-2:]

    def draw(axes: "Axes", i: int) -> None:
        boxes, probs = chances(factor, i)
        if factor.probs is None:
            density = sampled_density(boxes, height=height, width=width)
        else:
            density = center_density(probs, boxes, height=height, width=width)
        draw_centers(axes, images[i], density)

    return Column("centers, bright: likely", shown_aspect(images), draw, sacrifice=2)


def likeliest_column(factor: ObservedFactor, images: Images) -> Column:
    """The likeliest boxes with their probabilities, colored on one scale for all inputs."""
    assert factor.table is not None  # noqa: S101
    assert factor.probs is not None  # noqa: S101
    table, top = factor.table, factor.probs.topk(min(N_LIKELIEST, len(factor.table)))
    margin = overhang(table[top.indices.flatten()])
    ink = ProbabilityInk(float(top.values.max()))

    def draw(axes: "Axes", i: int) -> None:
        boxes = table[top.indices[i]]
        draw_boxes(axes, images[i], boxes, top.values[i].tolist(), ink, margin=margin)

    return Column("likeliest boxes", shown_aspect(images), draw)


def drawn_column(
    factor: ObservedFactor, images: Images, ink: ProbabilityInk | None = None
) -> Column:
    """Some of the boxes that were drawn, the likeliest on top, colored by probability.

    Arguments:
        factor: The boxes.
        images: The inputs.
        ink: The scale of probabilities; without one, or without probabilities, all are alike.
    """
    drawn = factor.theta[:MOST_DRAWN]
    margin = overhang(drawn.flatten(0, 1))

    def draw(axes: "Axes", i: int) -> None:
        boxes = drawn[:, i]
        colors: list[str | tuple[float, ...]] = [DRAWN] * len(boxes)
        if ink is not None and factor.probs is not None and factor.table is not None:
            nearest = torch.cdist(boxes, factor.table).argmin(dim=1)  # jitter moves boxes
            probs, order = factor.probs[i, nearest].sort()
            boxes, colors = boxes[order], [ink.edge(p) for p in probs.tolist()]
        draw_drawn_boxes(axes, images[i], boxes, colors, margin=margin)

    return Column("boxes drawn", shown_aspect(images), draw)


def sizes_column(factor: ObservedFactor) -> Column:
    """The share of boxes above each size."""

    def draw(axes: "Axes", i: int) -> None:
        draw_sizes(axes, *chances(factor, i))

    return Column("share above size", 1.0, draw, sacrifice=1)
