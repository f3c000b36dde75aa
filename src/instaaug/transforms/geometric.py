"""Geometric transforms: each is a matrix, and one warp does all of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from instaaug.errors import ArgumentError
from instaaug.functional.affine import (
    lie_matrix,
    perspective_matrix,
    rotation_matrix,
    scale_matrix,
    shear_matrix,
    translation_matrix,
)
from instaaug.functional.warp import PaddingMode, warp
from instaaug.shapes import Images, Matrices, Rows, Theta
from instaaug.spaces import Choices, Interval, Parameter, Space
from instaaug.transforms.transform import Transform, register

__all__ = [
    "Affine",
    "Flip",
    "GeometricTransform",
    "Perspective",
    "Rotation",
    "Scale",
    "Shear",
    "Translate",
]


class GeometricTransform(Transform, ABC):
    """A transform that is all matrix."""

    @abstractmethod
    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices: ...

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        self.check_theta(x, theta)
        matrix = self.matrix(theta, aspect=x.shape[-1] / x.shape[-2])
        return warp(x, matrix, padding_mode=padding_mode, projective=self.projective)


@register
@dataclass(frozen=True)
class Rotation(GeometricTransform):
    """Turn by an angle in radians, counterclockwise on the screen.

    Arguments:
        max_angle: Largest turn to either side; at π the range may cover the circle once.

    Example:
        >>> x = torch.arange(4.0).view(1, 1, 2, 2)
        >>> torch.equal(
        ...     Rotation().apply(x, torch.tensor([[torch.pi / 2]])).round(),
        ...     torch.rot90(x, 1, (2, 3)),
        ... )
        True
    """

    max_angle: float = math.pi
    name: ClassVar[str] = "rotation"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        angle = Parameter("angle", -self.max_angle, self.max_angle, period=2 * math.pi)
        return {"angle": Interval((angle,))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return rotation_matrix(theta[:, 0], aspect=aspect)


@register
@dataclass(frozen=True)
class Translate(GeometricTransform):
    """Move right and down, by fractions of the image side."""

    max_shift: float = 0.25
    name: ClassVar[str] = "translate"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        names = ("right", "down")
        return {"shift": Interval(_symmetric(names, self.max_shift))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return translation_matrix(theta)


@register
@dataclass(frozen=True)
class Scale(GeometricTransform):
    """Enlarge by a factor, the same in both directions."""

    min_factor: float = 0.5
    max_factor: float = 2.0
    name: ClassVar[str] = "scale"

    @override
    def __post_init__(self) -> None:
        if self.min_factor <= 0:
            raise ArgumentError(
                f"`min_factor` must be above 0: got {self.min_factor}. A factor of 0 leaves "
                "nothing of the image; Flip mirrors it."
            )
        super().__post_init__()

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        factor = Parameter(
            "factor", self.min_factor, self.max_factor, identity=1.0, multiplicative=True
        )
        return {"factor": Interval((factor,))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return scale_matrix(theta.expand(-1, 2))


@register
@dataclass(frozen=True)
class Shear(GeometricTransform):
    """Slant along both axes: (x, y) moves to (x + a·y, y + b·x)."""

    max_shear: float = 0.3
    name: ClassVar[str] = "shear"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_shear >= 1:
            raise ArgumentError(
                f"`max_shear` must be below 1: got {self.max_shear}. At 1 along both axes the "
                "image becomes a line."
            )

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"shear": Interval(_symmetric(("shear_x", "shear_y"), self.max_shear))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return shear_matrix(theta, aspect=aspect)


@register
@dataclass(frozen=True)
class Affine(GeometricTransform):
    """Any affine map near the identity, by its six coordinates in the Lie algebra (Augerino's).

    Arguments:
        max_shift: Limit of the two translations, as fractions of the image side.
        max_turn: Limit of the rotation, in radians.
        max_log_scale: Limit of growth, stretch and slant, each a generator's coefficient.
    """

    max_shift: float = 0.25
    max_turn: float = math.pi / 4
    max_log_scale: float = 0.3
    name: ClassVar[str] = "affine"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        parameters = (
            *_symmetric(("right", "down"), self.max_shift),
            *_symmetric(("turn",), self.max_turn),
            *_symmetric(("grow", "stretch", "slant"), self.max_log_scale),
        )
        return {"coordinates": Interval(parameters)}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return lie_matrix(theta, aspect=aspect)


@register
@dataclass(frozen=True)
class Perspective(GeometricTransform):
    """Tilt the image plane about its vertical and horizontal axis.

    Arguments:
        max_tilt: Limit of both coefficients of the homogeneous coordinate; below 0.5 the whole
            image stays in front of the camera.
    """

    max_tilt: float = 0.3
    name: ClassVar[str] = "perspective"
    projective: ClassVar[bool] = True

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_tilt >= 0.5:
            raise ArgumentError(
                f"`max_tilt` must be below 0.5: got {self.max_tilt}. Beyond, corners of the image "
                "lie behind the camera."
            )

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"tilt": Interval(_symmetric(("tilt_x", "tilt_y"), self.max_tilt))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return perspective_matrix(theta)


@register
@dataclass(frozen=True)
class Flip(GeometricTransform):
    """Mirror, or not: a sign per axis, of which -1 mirrors."""

    horizontal: bool = True
    vertical: bool = False
    name: ClassVar[str] = "flip"

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.horizontal or self.vertical):
            raise ArgumentError(
                "`horizontal` and `vertical` must not both be False: nothing is left to choose. "
                "Leave the transform out instead."
            )

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        x_signs = (1.0, -1.0) if self.horizontal else (1.0,)
        y_signs = (1.0, -1.0) if self.vertical else (1.0,)
        return {"sign": Choices(tuple((x, y) for y in y_signs for x in x_signs))}

    @override
    def matrix(self, theta: Rows, *, aspect: float = 1.0) -> Matrices:
        return scale_matrix(theta)


def _symmetric(names: tuple[str, ...], limit: float) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, -limit, limit) for name in names)
