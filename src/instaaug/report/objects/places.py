"""Crops of the same sizes at other places: what a habit gives, without looking at the image."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["average_places", "best_places", "box_sizes", "size_probs", "uniform_places"]

SAME = 1e-5  # sides that differ by less are one size


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
