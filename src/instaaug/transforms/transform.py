"""What a transform is: a deterministic map of images with one row of parameters per image."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from inspect import signature
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from instaaug.errors import ShapeError
from instaaug.functional.affine import inverse
from instaaug.functional.boxes import move_boxes, move_points
from instaaug.functional.warp import PaddingMode, warp
from instaaug.registry import Registry
from instaaug.shapes import Images, Matrices, Rows, Theta
from instaaug.spaces import Choices, Interval, Level, Space

__all__ = ["TRANSFORMS", "Transform", "from_config", "make_transforms", "register"]

Masks = Shaped[Tensor, "batch channels height width"]


class Transform(ABC):
    r"""A transform τ: ``apply(x, theta)`` changes image i as row i of ``theta`` says.

    A transform draws nothing and remembers nothing. Subclasses are frozen dataclasses, whose
    fields are the limits of what may happen; they say which values θ may take (:attr:`spaces`)
    and do it (:meth:`apply`). At :meth:`identity` nothing happens, to the last bit.

    Every transform has a geometric part, :meth:`matrix` (the identity for colors), so that masks,
    boxes and keypoints can follow and :meth:`invert` can bring a predicted map back onto the
    input.

    Shape:
        - ``x``: ``(B, C, H, W)``; ``theta``: ``(B, n_parameters)``
    """

    name: ClassVar[str]
    projective: ClassVar[bool] = False
    tells_matrix: ClassVar[bool] = True
    """Whether :meth:`matrix` is all of its geometry, so that masks and boxes can follow."""
    is_local: ClassVar[bool] = False
    """Whether it changes the image inside of a box and nowhere else."""
    needs_unit_range: ClassVar[bool] = False
    """Whether colors mean something: images must lie in [0, 1], not be normalized."""

    is_reversible: ClassVar[bool] = False
    """Whether two θ in a row add up, or multiply if factors, so that another undoes what one did,
    and no edge of the image tells what it was."""

    def __post_init__(self) -> None:
        """Build the spaces, which check their limits, so that errors come at construction."""
        _ = self.spaces

    @property
    @abstractmethod
    def spaces(self) -> Mapping[str, Space]:
        """The parts of θ by name, in the order of its columns."""

    @abstractmethod
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        """Transform each image by its own row of ``theta``."""

    @property
    def n_parameters(self) -> int:
        """Number of columns of ``theta``."""
        return sum(space.size for space in self.spaces.values())

    def identity(self, batch: int = 1, *, like: Tensor | None = None) -> Rows:
        """Rows of ``theta`` that change nothing; an empty box where there is a box."""
        row: list[float] = []
        for space in self.spaces.values():
            if isinstance(space, Interval):
                row += [p.identity for p in space.parameters]
            elif isinstance(space, Choices):
                row += space.rows[0]
            else:
                row += self.identity_box
        theta = torch.tensor([row] * batch, dtype=torch.float32)
        return theta if like is None else theta.to(like)

    identity_box: ClassVar[tuple[float, float, float, float]] = (0.0, 0.0, 0.0, 0.0)

    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:  # noqa: ARG002
        """The geometric part: maps output to input coordinates in the normalized frame.

        Arguments:
            theta: Parameters.
            aspect: Width / height of the images.
        """
        return torch.eye(3, device=theta.device, dtype=theta.dtype).expand(len(theta), 3, 3)

    def apply_mask(self, mask: Masks, theta: Rows) -> Masks:
        """Let a mask of labels, of any dtype, follow: nearest pixel, zeros outside."""
        matrix = self.matrix(theta, aspect=_aspect(mask))
        labels = mask if mask.is_floating_point() else mask.double()
        moved = warp(labels, matrix, mode="nearest", projective=self.projective)
        return moved.to(mask.dtype)

    def apply_keypoints(
        self, points: Float[Tensor, "batch n 2"], theta: Rows, *, aspect: float = 1.0
    ) -> Float[Tensor, "batch n 2"]:
        """Let points (x, y) of the normalized frame follow."""
        return move_points(points, self.matrix(theta, aspect=aspect))

    def apply_boxes(
        self, boxes: Float[Tensor, "batch n 4"], theta: Rows, *, aspect: float = 1.0
    ) -> Float[Tensor, "batch n 4"]:
        """Let boxes (center x, center y, width, height) follow: the upright hull of each."""
        return move_boxes(boxes, self.matrix(theta, aspect=aspect))

    def invert(self, x: Images, theta: Rows, *, padding_mode: PaddingMode = "zeros") -> Images:
        """Undo the geometric part: bring an output, or a map made from it, back to the input."""
        matrix = inverse(self.matrix(theta, aspect=_aspect(x)))
        return warp(x, matrix, padding_mode=padding_mode, projective=self.projective)

    def to_config(self) -> dict[str, Any]:
        """The name and every field, ready for JSON; :func:`from_config` reads it back.

        The parts of a composition are read one by one.
        """
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def check_theta(self, x: Images, theta: Theta) -> None:
        """Raise unless ``theta`` has a row per image and a column per parameter."""
        expected = (x.shape[0], self.n_parameters)
        if tuple(theta.shape) != expected:
            raise ShapeError(
                f"`theta` of {self.name} must be {expected}, a row per image: "
                f"got {tuple(theta.shape)}. Columns: {', '.join(self.columns)}."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """A name for each column of ``theta``."""
        names: list[str] = []
        for key, space in self.spaces.items():
            if isinstance(space, Interval):
                names += [p.name for p in space.parameters]
            elif isinstance(space, Choices):
                names += [f"{key}_{axis}" for axis in ("x", "y")[: space.size]]
            else:
                names += ["box_x", "box_y", "box_width", "box_height"]
        return tuple(names)


TRANSFORMS: Registry[type[Transform]] = Registry("transform")

C = TypeVar("C", bound=type[Transform])


def register(cls: C) -> C:
    """Register a transform by its ``name``."""
    TRANSFORMS.register(cls.name)(cls)
    return cls


def from_config(config: Mapping[str, Any]) -> Transform:
    """Build a transform from what :meth:`Transform.to_config` gave; lists become tuples.

    Example:
        >>> from_config({"name": "rotation", "max_angle": 1.5})
        Rotation(max_angle=1.5)
    """
    fields = {key: _as_tuples(value) for key, value in config.items() if key != "name"}
    return TRANSFORMS[config["name"]](**fields)


def make_transforms(
    names: Sequence[str], *, local_levels: Sequence[Level] | None = None, **arguments: Any
) -> list[Transform]:
    """Transforms by name, each with those of the arguments that it has.

    Arguments:
        names: As registered.
        local_levels: The ``levels`` of local transforms, which have no use for those of crops;
            their own by default.
        arguments: By the names of fields.

    Example:
        >>> from instaaug import transforms
        >>> one, other = transforms.make_transforms(["flip", "crop"], levels=((1.0, 1),))
        >>> one, other.levels
        (Flip(horizontal=True, vertical=False), ((1.0, 1),))
    """
    transforms = []
    for name in names:
        kind = TRANSFORMS[name]
        given = {**arguments, "levels": local_levels} if kind.is_local else arguments
        accepted = given.keys() & signature(kind).parameters
        known = {field: given[field] for field in accepted if given[field] is not None}
        transforms.append(kind(**known))
    return transforms


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(v) for v in value) if isinstance(value, list | tuple) else value


def _aspect(x: Tensor) -> float:
    return x.shape[-1] / x.shape[-2]
