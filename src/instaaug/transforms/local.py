"""Local transforms: something done inside a box and nowhere else."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from instaaug.functional.boxes import coverage
from instaaug.functional.warp import PaddingMode
from instaaug.shapes import Images, Rows, Theta
from instaaug.spaces import Boxes, Interval, Level, Parameter, Space
from instaaug.transforms.color import HSVJitter
from instaaug.transforms.filters import SEED, add_noise, blur
from instaaug.transforms.transform import Transform, register

__all__ = ["LOCAL_LEVELS", "LocalBlur", "LocalColor", "LocalMask", "LocalNoise", "LocalTransform"]

LOCAL_LEVELS: tuple[Level, ...] = ((0.25, 16), (0.5, 8))
LOCAL_DIVERSITY = (0.4, 0.8)  # all of the small boxes are 0.8 of these


@dataclass(frozen=True)
class LocalTransform(Transform, ABC):
    """A change inside one box of a grid; θ is the box and then the parameters of the change.

    φ starts with small boxes, all over the image.

    Arguments:
        levels: Pairs (size, n): ``n`` × ``n`` boxes of that fraction of the image side.
    """

    levels: tuple[Level, ...] = LOCAL_LEVELS
    is_local: ClassVar[bool] = True

    @property
    @abstractmethod
    def inner(self) -> Mapping[str, Space]:
        """The parameters of the change itself."""

    @abstractmethod
    def change(self, x: Images, theta: Rows) -> Images:
        """The image changed everywhere."""

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        levels = tuple(self.levels)
        box = Boxes(levels, default_diversity=LOCAL_DIVERSITY, changes_inside=True)
        return {"box": box, **self.inner}

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        self.check_theta(x, theta)
        inside = coverage(theta[:, :4], height=x.shape[-2], width=x.shape[-1]).to(x.dtype)
        return x + inside * (self.change(x, theta[:, 4:]) - x)


@register
@dataclass(frozen=True)
class LocalMask(LocalTransform):
    """Erase the box.

    Arguments:
        fill: The value that is left; 0 is the mean of normalized images.
    """

    fill: float = 0.0
    name: ClassVar[str] = "local_mask"

    @property
    @override
    def inner(self) -> Mapping[str, Space]:
        return {}

    @override
    def change(self, x: Images, theta: Rows) -> Images:
        return x.new_full((), self.fill).expand_as(x)


@register
@dataclass(frozen=True)
class LocalBlur(LocalTransform):
    """Blur the box; the strength is a fraction of the shorter image side."""

    max_strength: float = 0.05
    name: ClassVar[str] = "local_blur"

    @property
    @override
    def inner(self) -> Mapping[str, Space]:
        return {"strength": Interval((Parameter("strength", 0.0, self.max_strength),))}

    @override
    def change(self, x: Images, theta: Rows) -> Images:
        return blur(x, theta[:, 0], self.max_strength)


@register
@dataclass(frozen=True)
class LocalNoise(LocalTransform):
    """Perturb the pixels of the box with Gaussian noise."""

    max_strength: float = 0.2
    name: ClassVar[str] = "local_noise"

    @property
    @override
    def inner(self) -> Mapping[str, Space]:
        return {"strength": Interval((Parameter("strength", 0.0, self.max_strength), SEED))}

    @override
    def change(self, x: Images, theta: Rows) -> Images:
        return add_noise(x, theta[:, 0], theta[:, 1])


@register
@dataclass(frozen=True)
class LocalColor(LocalTransform):
    """Shift hue, saturation and value inside the box."""

    hue: float = 0.5
    saturation: float = 1.0
    value: float = 1.0
    name: ClassVar[str] = "local_color"
    needs_unit_range: ClassVar[bool] = True

    @property
    def _jitter(self) -> HSVJitter:
        return HSVJitter(self.hue, self.saturation, self.value)

    @property
    @override
    def inner(self) -> Mapping[str, Space]:
        return self._jitter.spaces

    @override
    def change(self, x: Images, theta: Rows) -> Images:
        return self._jitter.apply(x, theta)
