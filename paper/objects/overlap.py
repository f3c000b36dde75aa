"""Exact overlaps of objects with crops: given ones, and ones of the same sizes elsewhere."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = [
    "MEASURES",
    "Overlaps",
    "average_places",
    "best_places",
    "box_sizes",
    "overlaps",
    "overlaps_anywhere",
    "size_probs",
    "uniform_places",
]

MEASURES: Mapping[str, str] = {
    "iou": "overlap with the object (IoU)",
    "covered": "share of the object in the crop",
    "on_object": "share of the crop on the object",
}
"""What is measured of a crop and an object, in words."""

N_NODES = 8  # per piece; the error is below (3 + √8)⁻¹⁶, some 1e-12
AT_ONCE = 4_000_000  # numbers in memory

Boxes = Float[Tensor, "_ 4"]

SAME = 1e-5  # sides that differ by less are one size


@dataclass(frozen=True)
class Overlaps:
    """Three measures of every pair of an object and a crop, or their expectations.

    Arguments:
        iou: Area of the intersection over that of the union.
        covered: Share of the object that is in the crop.
        on_object: Share of the crop that is on the object.
    """

    iou: Float[Tensor, "*shape"]
    covered: Float[Tensor, "*shape"]
    on_object: Float[Tensor, "*shape"]

    def mean_over(self, probs: Float[Tensor, "n k"]) -> "Overlaps":
        """The mean over crops that have these probabilities, for each object."""
        return Overlaps(*((probs * values).sum(dim=1) for _, values in self.items()))

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """The measures by name."""
        return ((field.name, getattr(self, field.name)) for field in fields(self))


def overlaps(objects: Boxes, crops: Boxes) -> Overlaps:
    """The overlaps of n objects with k crops, each ``(n, k)``.

    A crop counts as a whole, with what lies outside of the image.

    Arguments:
        objects: Center x, center y, width and height, in the frame in which the whole image is
            (0, 0, 2, 2).
        crops: Boxes in the same frame.

    Example:
        >>> whole, left = [0.0, 0.0, 2.0, 2.0], [-0.5, 0.0, 1.0, 2.0]
        >>> found = overlaps(torch.tensor([left]), torch.tensor([whole, left]))
        >>> found.iou.tolist(), found.covered.tolist(), found.on_object.tolist()
        ([[0.5, 1.0]], [[1.0, 1.0]], [[0.5, 1.0]])
    """
    one, other = objects.double()[:, None], crops.double()[None]
    low = (one[..., :2] - one[..., 2:] / 2).maximum(other[..., :2] - other[..., 2:] / 2)
    high = (one[..., :2] + one[..., 2:] / 2).minimum(other[..., :2] + other[..., 2:] / 2)
    shared = (high - low).clamp(min=0).prod(dim=-1)
    of_object, of_crop = _areas(objects), _areas(crops)
    return Overlaps(
        iou=shared / (of_object[:, None] + of_crop - shared),
        covered=shared / of_object[:, None],
        on_object=shared / of_crop,
    )


def overlaps_anywhere(objects: Boxes, sizes: Float[Tensor, "s 2"]) -> Overlaps:
    r"""The expected overlaps of n objects with crops of s sizes at random places, each ``(n, s)``.

    Every place inside of the image is as probable as any other. Along one axis, the length that
    crop and object share is a piecewise linear function of the crop's place: it is 0, rises,
    stays, falls, and is 0 again. The product of both axes has the expectation
    :math:`\mathbb E[o_x]\,\mathbb E[o_y]`, which gives two of the measures. The third,

    .. math:: \mathbb E \frac{o_x o_y}{A + B - o_x o_y},

    is smooth between the kinks, and integrated there by Gauss and Legendre's rule: as
    :math:`o_x o_y` is never above half of A + B, eight nodes leave an error below 1e-11.

    Arguments:
        objects: Center x, center y, width and height, in the frame in which the whole image is
            (0, 0, 2, 2).
        sizes: Width and height of the crops, not above 2.

    Example:
        >>> quarter = torch.tensor([[-0.5, -0.5, 1.0, 1.0]])
        >>> anywhere = overlaps_anywhere(quarter, torch.tensor([[2.0, 2.0], [1.0, 1.0]]))
        >>> anywhere.covered  # all, and of the half of each side that the crop shows, (1/2)²
        tensor([[1.0000, 0.2500]], dtype=torch.float64)
    """
    step = max(1, AT_ONCE // (len(sizes) * (3 * N_NODES) ** 2))
    parts = [_anywhere(part, sizes.double()) for part in objects.double().split(step)]
    columns = zip(*((values for _, values in part.items()) for part in parts), strict=True)
    return Overlaps(*map(torch.cat, columns))


def _anywhere(objects: Boxes, sizes: Float[Tensor, "s 2"]) -> Overlaps:
    x, y = (
        _shared_lengths(objects[:, axis], objects[:, 2 + axis], sizes[:, axis]) for axis in (0, 1)
    )
    shared = x[0][..., :, None] * y[0][..., None, :]
    weight = x[1][..., :, None] * y[1][..., None, :]
    of_object, of_crop = _areas(objects)[:, None], sizes.prod(dim=1)
    rest = (of_object + of_crop)[..., None, None] - shared
    area = (x[0] * x[1]).sum(dim=-1) * (y[0] * y[1]).sum(dim=-1)
    return Overlaps(
        iou=(weight * shared / rest).sum(dim=(-2, -1)),
        covered=area / of_object,
        on_object=area / of_crop,
    )


def _shared_lengths(
    center: Float[Tensor, " n"], extent: Float[Tensor, " n"], size: Float[Tensor, " s"]
) -> tuple[Float[Tensor, "n s m"], Float[Tensor, "n s m"]]:
    """Lengths that crops share with objects along one axis, and how probable each is.

    The first end of a crop is uniform in [-1, 1 - size]. Where nothing is shared, there is no
    node.
    """
    low, high = (center - extent / 2)[:, None], (center + extent / 2)[:, None]
    room = (2 - size).clamp(min=0).expand(len(center), -1)
    kinks = [low - size, (high - size).minimum(low), (high - size).maximum(low), high]
    ends = torch.stack([(kink.broadcast_to(room.shape) + 1).clamp(min=0) for kink in kinks], -1)
    ends = ends.minimum(room[..., None])
    lengths = ends.diff(dim=-1)
    share = lengths / room.clamp(min=1e-12)[..., None]
    only_place = torch.tensor([1.0, 0.0, 0.0]).to(share)
    share = torch.where(room[..., None] > 0, share, only_place)
    nodes, weights = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(N_NODES))
    first = ends[..., :-1, None] + lengths[..., None] * (nodes + 1) / 2 - 1
    last = first + size[:, None, None]
    shared = last.minimum(high[..., None, None]) - first.maximum(low[..., None, None])
    return shared.clamp(min=0).flatten(2), (share[..., None] * weights / 2).flatten(2)


def _areas(boxes: Boxes) -> Float[Tensor, " n"]:
    return boxes[:, 2:].double().prod(dim=1)


def box_sizes(
    boxes: Float[Tensor, "k 4"],
) -> tuple[Float[Tensor, "s 2"], Int[Tensor, " k"]]:
    """The sizes that occur among boxes, as width and height, and which of them each box has.

    Example:
        >>> boxes = torch.tensor(
        ...     [[0.5, 0.5, 1.0, 1.0], [0.0, 0.0, 2.0, 2.0], [0.0, 0.5, 1.0, 1.0]]
        ... )
        >>> sizes, members = box_sizes(boxes)
        >>> members
        tensor([0, 1, 0])
    """
    extents = boxes[:, 2:].double()
    members = (extents / SAME).round().unique(dim=0, return_inverse=True)[1]
    sums = extents.new_zeros(int(members.max()) + 1, 2).index_add(0, members, extents)
    return sums / members.bincount()[:, None], members


def size_probs(probs: Float[Tensor, "n k"], members: Int[Tensor, " k"]) -> Float[Tensor, "n s"]:
    """How probable each size is, for each image."""
    sums = probs.new_zeros(len(probs), int(members.max()) + 1)
    return sums.index_add(1, members, probs)


def average_places(
    probs: Float[Tensor, "n k"], members: Int[Tensor, " k"]
) -> Float[Tensor, "n k"]:
    r"""Each image with its own sizes, but with the places of all images' crops of that size.

    With the size s of box k,

    .. math:: q(k \mid x) = p(s \mid x)\, \frac{\sum_{x'} p(k \mid x')}{\sum_{x'} p(s \mid x')}.

    Over all images every box is then chosen as often as before; only who gets it is left to
    chance. An augmenter that does not look at the image loses nothing by this.

    Arguments:
        probs: Probability of each box, a row per image.
        members: Which size each box has.

    Example:
        >>> probs = torch.tensor([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2]])
        >>> average_places(probs, torch.tensor([0, 0, 1]))
        tensor([[0.4000, 0.4000, 0.2000],
                [0.4000, 0.4000, 0.2000]])
    """
    sizes = size_probs(probs, members)
    total = sizes.sum(dim=0)[members]
    place = torch.where(total > 0, probs.sum(dim=0) / total, 0.0)
    return sizes[:, members] * place


def uniform_places(
    probs: Float[Tensor, "n k"], members: Int[Tensor, " k"]
) -> Float[Tensor, "n k"]:
    """Each image with its own sizes, but all boxes of a size alike.

    Arguments:
        probs: Probability of each box, a row per image.
        members: Which size each box has.

    Example:
        >>> uniform_places(torch.tensor([[0.6, 0.2, 0.2]]), torch.tensor([0, 0, 1]))
        tensor([[0.4000, 0.4000, 0.2000]])
    """
    return (size_probs(probs, members) / members.bincount())[:, members]


def best_places(
    probs: Float[Tensor, "n k"], members: Int[Tensor, " k"], scores: Float[Tensor, "n k"]
) -> Float[Tensor, "n k"]:
    """Each image with its own sizes, but always at the best place: what could be gained at most.

    Arguments:
        probs: Probability of each box, a row per image.
        members: Which size each box has.
        scores: How good each box is for each image.

    Example:
        >>> probs, scores = torch.tensor([[0.6, 0.2, 0.2]]), torch.tensor([[0.1, 0.9, 0.5]])
        >>> best_places(probs, torch.tensor([0, 0, 1]), scores)
        tensor([[0.0000, 0.8000, 0.2000]])
    """
    best = torch.zeros_like(probs)
    for size, mass in enumerate(size_probs(probs, members).T):
        boxes = (members == size).nonzero().squeeze(1)
        top = boxes[scores[:, boxes].argmax(dim=1)]
        best[torch.arange(len(probs)), top] = mass
    return best
