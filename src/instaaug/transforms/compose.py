"""Several transforms as one: all geometry in one warp, all color in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.affine import product
from instaaug.functional.color import Normalization
from instaaug.functional.warp import PaddingMode, warp
from instaaug.shapes import Images, Matrices, Rendered, Rows, Theta, at_least_float32, match_layout
from instaaug.spaces import Space
from instaaug.transforms.color import Canvas, ColorTransform
from instaaug.transforms.geometric import GeometricTransform
from instaaug.transforms.transform import Transform

__all__ = ["Composition"]

LARGEST_SIDE = 16384


@dataclass(frozen=True)
class Composition(Transform):
    """Transforms in sequence, fused; the columns of θ are theirs, side by side.

    Matrices multiply, so that any number of geometric transforms costs one interpolation and
    blurs once. Color transforms follow one another in one pass. Each of the two passes takes
    place where the first of its kind stands; within it, the order is the order given.

    Arguments:
        transforms: What to do, first to last.
        mean: Per-channel mean that the images were normalized with; color transforms see them
            without.
        std: Per-channel standard deviation they were normalized with.
        size: Height and width of what comes out; those of the images by default. Crops of a
            larger image keep its detail.

    Example:
        >>> from instaaug.transforms import Rotation, Scale
        >>> both = Composition((Rotation(), Scale()))
        >>> both.columns
        ('angle', 'factor')
        >>> zoomed = Composition((Scale(),), size=(8, 8))
        >>> zoomed.apply(torch.rand(1, 3, 16, 16), torch.ones(1, 1)).shape
        torch.Size([1, 3, 8, 8])
    """

    transforms: tuple[Transform, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    size: tuple[int, int] | None = None
    name: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        if not self.transforms:
            raise ArgumentError("`transforms` must hold at least one transform: got none.")
        if any(isinstance(t, Composition) for t in self.transforms):
            raise ArgumentError(
                "`transforms` must not hold a Composition: its matrices could not join the one "
                "warp. List its transforms instead."
            )
        _ = self.normalization
        if self.size is not None and not _is_size(self.size):
            raise ArgumentError(
                "`size` must be a height and a width in pixels, whole numbers from 1 to "
                f"{LARGEST_SIDE}: got {self.size}. (224, 224) is what many models take."
            )

    @cached_property
    def normalization(self) -> Normalization:
        """Between normalized images and the colors that they stand for."""
        return Normalization(self.mean, self.std)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A distinct name per transform: a second crop is ``crop_2``."""
        names: list[str] = []
        for transform in self.transforms:
            count = sum(t.name == transform.name for t in self.transforms[: len(names)])
            names.append(transform.name if not count else f"{transform.name}_{count + 1}")
        return tuple(names)

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        spaces: dict[str, Space] = {}
        for name, transform in zip(self.names, self.transforms, strict=True):
            own = transform.spaces
            spaces |= {name if len(own) == 1 else f"{name}.{key}": s for key, s in own.items()}
        return spaces

    @override
    def to_config(self) -> dict[str, Any]:
        parts = [transform.to_config() for transform in self.transforms]
        rest = {"mean": self.mean, "std": self.std, "size": self.size}
        return {"name": self.name, "transforms": parts, **rest}

    @property
    @override
    def columns(self) -> tuple[str, ...]:
        return tuple(column for t in self.transforms for column in t.columns)

    @override
    def identity(self, batch: int = 1, *, like: Tensor | None = None) -> Rows:
        return torch.cat([t.identity(batch, like=like) for t in self.transforms], dim=-1)

    @property
    def projective(self) -> bool:  # type: ignore[override]
        """Whether any part needs homogeneous coordinates."""
        return any(t.projective for t in self.transforms)

    @property
    def tells_matrix(self) -> bool:  # type: ignore[override]
        """Whether no part moves pixels without a matrix."""
        return all(t.tells_matrix for t in self.transforms)

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        geometric = [
            transform.matrix(part, aspect=aspect)
            for transform, part in self._with_theta(theta)
            if isinstance(transform, GeometricTransform)
        ]
        return reduce(product, geometric) if geometric else super().matrix(theta)

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Rendered:
        self.check_theta(x, theta)
        done: set[type] = set()
        given = x
        if not any(isinstance(t, GeometricTransform) for t in self.transforms):
            x = self.resize(x, padding_mode=padding_mode)
        for transform, part in self._with_theta(theta):
            kind = _kind(transform)
            if kind is Transform and transform.needs_unit_range:
                inside = transform.apply(
                    self.normalization.denormalize(x), part, padding_mode=padding_mode
                )
                x = self.normalization.normalize(inside)
            elif kind is Transform:
                x = transform.apply(x, part, padding_mode=padding_mode)
            elif kind not in done:
                x = self._apply_at_once(kind, x, theta, padding_mode)
                done.add(kind)
        return match_layout(given, x)

    def resize(self, x: Images, *, padding_mode: PaddingMode = "zeros") -> Rendered:
        """The images as the identity leaves them: nothing happens but the change of size."""
        if self.size is None or self.size == (x.shape[-2], x.shape[-1]):
            return x
        eye = torch.eye(3, device=x.device, dtype=at_least_float32(x).dtype)
        return warp(x, eye.expand(x.shape[0], 3, 3), padding_mode=padding_mode, size=self.size)

    def _apply_at_once(
        self, kind: type, x: Images, theta: Rows, padding_mode: PaddingMode
    ) -> Rendered:
        if kind is GeometricTransform:
            matrix = self.matrix(theta, aspect=x.shape[-1] / x.shape[-2])
            return warp(
                x, matrix, padding_mode=padding_mode, projective=self.projective, size=self.size
            )
        canvas = Canvas(self.normalization.denormalize(x))
        for transform, part in self._with_theta(theta):
            if isinstance(transform, ColorTransform):
                canvas = transform.recolor(canvas, part.to(x.dtype))
        return self.normalization.normalize(canvas.paint())

    def _with_theta(self, theta: Rows) -> list[tuple[Transform, Theta]]:
        stops = accumulate((t.n_parameters for t in self.transforms), initial=0)
        starts = list(stops)
        return [
            (t, theta[:, start : start + t.n_parameters])
            for t, start in zip(self.transforms, starts, strict=False)
        ]


def _is_size(size: tuple[int, ...]) -> bool:
    return len(size) == 2 and all(type(s) is int and 1 <= s <= LARGEST_SIDE for s in size)


def _kind(transform: Transform) -> type:
    for kind in (GeometricTransform, ColorTransform):
        if isinstance(transform, kind):
            return kind
    return Transform
