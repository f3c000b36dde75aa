"""Fixed views: the same boxes, mirrored or not, of every input."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Generator, Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError, UnknownNameError
from instaaug.functional.warp import PaddingMode
from instaaug.methods.simple import TransformAugmenter
from instaaug.parameterizations import CropGrid
from instaaug.shapes import Images
from instaaug.transforms import Crop, Flip

__all__ = ["FixedViews"]

NAME = "fixed_views"
KEYS = ("name", "boxes", "mirrored", "padding_mode", "size")
MOST_VIEWS = 100_000
LARGEST_NUMBER = 8.0  # four image sides: whatever lies farther out is a mistake
LARGEST_SIDE = 1 << 14
WHOLE = (0.0, 0.0, 2.0, 2.0)
Box = Sequence[float]


class FixedViews(TransformAugmenter):
    """A list of boxes, each mirrored or not, in a fixed order and the same for every input.

    ``draw(x, n, select="top")`` gives the first n, and starts again at the first beyond the last.
    ``select="sample"`` draws n of them per input, without replacement: from the length of the list
    on, every one is there as often, to within one. θ is the box and the signs of the two axes.

    Arguments:
        boxes: Center x, center y, width and height of every view, in the frame in which the whole
            image is (0, 0, 2, 2).
        mirrored: Which views are mirrored, left and right exchanged; none by default.
        padding_mode: What lies outside of the image.
        size: Output side, or height and width; the input's own by default.

    Example:
        >>> whole, left = (0.0, 0.0, 2.0, 2.0), (-0.5, 0.0, 1.0, 2.0)
        >>> views = FixedViews([whole, left], mirrored=[True, False])
        >>> x = torch.tensor([0.0, 1.0]).view(1, 1, 1, 2)
        >>> theta = views.draw(x, 2, select="top")
        >>> views.render(x, theta[0]).flatten()  # the mirror image
        tensor([1., 0.])
    """

    table: Tensor

    def __init__(
        self,
        boxes: Sequence[Box] | Tensor,
        mirrored: Sequence[bool] | None = None,
        *,
        padding_mode: PaddingMode = "zeros",
        size: int | tuple[int, int] | None = None,
    ) -> None:
        super().__init__(
            [Crop(), Flip()],
            padding_mode=_check_padding_mode(padding_mode),
            size=_check_size(size),
        )
        rows = _check_boxes(boxes.tolist() if isinstance(boxes, Tensor) else boxes)
        flags = _check_flags([False] * len(rows) if mirrored is None else mirrored, len(rows))
        table = [(*row, -1.0 if flag else 1.0, 1.0) for row, flag in zip(rows, flags, strict=True)]
        self.register_buffer("table", torch.tensor(table), persistent=False)

    @classmethod
    def center_crop(cls, share: float = 0.875, **settings: Any) -> "FixedViews":
        """The middle of the image, ``share`` of each side: the usual 224 pixels of 256.

        Arguments:
            share: Of the image side, in (0, 1].
            **settings: ``padding_mode`` and ``size``.
        """
        return cls([_five(share)[4]], **settings)

    @classmethod
    def five_crop(cls, share: float = 0.875, **settings: Any) -> "FixedViews":
        """Upper left, upper right, lower left, lower right, middle: torchvision's order."""
        return cls(_five(share), **settings)

    @classmethod
    def ten_crop(cls, share: float = 0.875, **settings: Any) -> "FixedViews":
        """The five crops of the image, then the five crops of its mirror image.

        As in torchvision, so that the sixth is the mirrored upper *right*: the upper left of the
        mirror image.
        """
        upper_left, upper_right, lower_left, lower_right, middle = _five(share)
        of_mirror_image = [upper_right, upper_left, lower_right, lower_left, middle]
        return cls([*_five(share), *of_mirror_image], [False] * 5 + [True] * 5, **settings)

    @classmethod
    def flips(cls, **settings: Any) -> "FixedViews":
        """The image and its mirror image."""
        return cls([WHOLE, WHOLE], [False, True], **settings)

    @classmethod
    def grid(cls, grid: CropGrid, **settings: Any) -> "FixedViews":
        """All boxes of a grid, in its order."""
        return cls(grid.boxes, **settings)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def boxes(self) -> Float[Tensor, "k 4"]:
        """Center x, center y, width and height of every view."""
        return self.table[:, :4]

    @property
    def mirrored(self) -> list[bool]:
        """Which views are mirrored."""
        return [sign < 0 for sign in self.table[:, 4].tolist()]

    @override
    def draw(
        self,
        x: Images,
        n_samples: int,
        *,
        select: str = "sample",
        replace: bool = False,
        generator: Generator | None = None,
    ) -> Float[Tensor, "n batch d"]:
        if select not in ("sample", "top"):
            raise UnknownNameError("selection", select, ("sample", "top"))
        views, k = self.table.to(x.device), len(self)
        if select == "top":
            first = torch.arange(n_samples, device=x.device) % k
            return views[first][:, None].expand(-1, len(x), -1)
        if replace:
            shape = (n_samples, len(x))
            return views[torch.randint(k, shape, generator=generator, device=x.device)]
        rounds = -(-n_samples // k)
        keys = torch.rand(rounds, k, len(x), generator=generator, device=x.device)
        return views[keys.argsort(dim=1).flatten(0, 1)[:n_samples]]

    @override
    def draw_theta(
        self, x: Images, n_samples: int, generator: Generator | None
    ) -> Float[Tensor, "n batch d"]:
        return self.draw(x, n_samples, generator=generator)

    def to_config(self) -> dict[str, Any]:
        """Everything, ready for JSON; :meth:`from_config` reads it back."""
        return {
            "name": NAME,
            "boxes": self.boxes.tolist(),
            "mirrored": self.mirrored,
            "padding_mode": self.padding_mode,
            "size": None if self.transform.size is None else list(self.transform.size),
        }

    @classmethod
    def from_config(cls, config: Any) -> "FixedViews":
        """Build what :meth:`to_config` described; nothing in it is taken on trust.

        Example:
            >>> FixedViews.from_config(FixedViews.flips().to_config())
            FixedViews(2 views, 1 mirrored)
        """
        if not isinstance(config, Mapping) or set(config) != set(KEYS):
            got = ", ".join(map(str, config)) if isinstance(config, Mapping) else config
            raise ArgumentError(
                f"`config` must hold {', '.join(KEYS)}: got {got!s:.200}. Take what to_config "
                "wrote."
            )
        if config["name"] != NAME:
            raise ArgumentError(
                f"`config` must be that of {NAME!r}: got {config['name']!r:.50}. Build another "
                "method with its own class."
            )
        boxes = _check_boxes(config["boxes"])
        return cls(
            boxes,
            _check_flags(config["mirrored"], len(boxes)),
            padding_mode=_check_padding_mode(config["padding_mode"]),
            size=_check_size(config["size"]),
        )

    @override
    def extra_repr(self) -> str:
        n_mirrored = sum(self.mirrored)
        return f"{len(self)} views" + (f", {n_mirrored} mirrored" if n_mirrored else "")


def _five(share: float) -> list[tuple[float, float, float, float]]:
    if not 0 < share <= 1:
        raise ArgumentError(
            f"`share` must lie in (0, 1]: got {share}. 0.875 is 224 of 256 pixels."
        )
    far, side = 1 - share, 2 * share
    centers = [(-far, -far), (far, -far), (-far, far), (far, far), (0.0, 0.0)]
    return [(x, y, side, side) for x, y in centers]


def _check_boxes(boxes: object) -> list[tuple[float, ...]]:
    if not isinstance(boxes, Sequence) or isinstance(boxes, str | bytes):
        raise ArgumentError(
            f"`boxes` must be a list of boxes: got {type(boxes).__name__}. "
            "The whole image is [(0.0, 0.0, 2.0, 2.0)]."
        )
    if not 1 <= len(boxes) <= MOST_VIEWS:
        raise ArgumentError(
            f"`boxes` must hold 1 to {MOST_VIEWS:,} boxes: got {len(boxes):,}. "
            "Every one is a pass of the model."
        )
    return [_check_box(box) for box in boxes]


def _check_box(box: object) -> tuple[float, ...]:
    numbers = list(box) if isinstance(box, Sequence) and len(box) == 4 else []
    small = [
        isinstance(n, int | float)
        and not isinstance(n, bool)
        and -LARGEST_NUMBER <= n <= LARGEST_NUMBER  # also false for NaN
        for n in numbers
    ]
    if len(small) != 4 or not all(small) or not (numbers[2] > 0 and numbers[3] > 0):
        raise ArgumentError(
            "`boxes` must be four numbers each, center x, center y, width and height, from "
            f"{-LARGEST_NUMBER:g} to {LARGEST_NUMBER:g} with sides above 0: got {box!r:.100}. The "
            "whole image is (0.0, 0.0, 2.0, 2.0)."
        )
    return tuple(float(n) for n in numbers)


def _check_flags(mirrored: object, n_boxes: int) -> list[bool]:
    flags = list(mirrored) if isinstance(mirrored, Sequence) else []
    if len(flags) != n_boxes or not all(isinstance(flag, bool) for flag in flags):
        raise ArgumentError(
            f"`mirrored` must say True or False for each of {n_boxes} boxes: got "
            f"{mirrored!r:.100}. None mirrors nothing."
        )
    return flags


def _check_padding_mode(padding_mode: Any) -> PaddingMode:
    if padding_mode not in get_args(PaddingMode):
        raise UnknownNameError("padding_mode", str(padding_mode), get_args(PaddingMode))
    return padding_mode


def _check_size(size: object) -> int | tuple[int, int] | None:
    sides = [size] * 2 if isinstance(size, int) else size
    if sides is None:
        return None
    if not isinstance(sides, Sequence) or len(sides) != 2 or not all(map(_is_side, sides)):
        raise ArgumentError(
            f"`size` must be a side, or a height and a width, from 1 to {LARGEST_SIDE} pixels: "
            f"got {size!r:.50}. None keeps the input's own."
        )
    return sides[0], sides[1]


def _is_side(side: object) -> bool:
    return isinstance(side, int) and not isinstance(side, bool) and 1 <= side <= LARGEST_SIDE
