"""Per-pixel color transforms, which share one pass over the image."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from typing_extensions import override

from instaaug.errors import ArgumentError, ShapeError
from instaaug.functional.color import affine_intensity, hsv_jitter, luma
from instaaug.functional.warp import PaddingMode
from instaaug.shapes import Images, Rows, Scalars, Theta
from instaaug.spaces import Interval, Parameter, Space
from instaaug.transforms.transform import Transform, register

__all__ = [
    "Brightness",
    "Canvas",
    "ColorTransform",
    "Contrast",
    "HSVJitter",
    "WhiteBalance",
]


@dataclass(frozen=True)
class Canvas:
    """An image with a pending change of intensity.

    Gains and offsets multiply out, so that any number of them costs one multiplication and one
    clip.
    """

    image: Images
    gain: Rows | None = None
    offset: Rows | None = None

    def scale(self, gain: Rows, offset: Rows) -> "Canvas":
        """Add a pending change: ``gain`` times the intensity plus ``offset``."""
        if self.gain is None or self.offset is None:
            return replace(self, gain=gain, offset=offset)
        return replace(self, gain=self.gain * gain, offset=self.offset * gain + offset)

    def mean_luma(self) -> Rows:
        """Mean brightness of each image, including the pending change."""
        mean = luma(self.image).mean(dim=(2, 3))
        if self.gain is None or self.offset is None:
            return mean
        return mean * self.gain + self.offset

    def paint(self) -> Images:
        """The image with the pending change applied."""
        if self.gain is None or self.offset is None:
            return self.image
        return affine_intensity(self.image, self.gain, self.offset)


class ColorTransform(Transform, ABC):
    """A transform of colors, pixel by pixel, of images in [0, 1]."""

    needs_unit_range: ClassVar[bool] = True

    @abstractmethod
    def recolor(self, canvas: Canvas, theta: Rows) -> Canvas:
        """Change the colors now, or add a pending change of intensity."""

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        self.check_theta(x, theta)
        return self.recolor(Canvas(x), theta.to(x.dtype)).paint()


@register
@dataclass(frozen=True)
class HSVJitter(ColorTransform):
    """Shift the hue, scale saturation and value.

    A limit of 0 leaves that parameter out. Hue shifts are fractions of the circle; factors are
    limited in doublings, so that darker and brighter have the same room.

    Arguments:
        hue: Largest shift to either side, at most 0.5.
        saturation: Doublings: the factor lies between ``2**-saturation`` and ``2**saturation``.
        value: Doublings: the factor lies between ``2**-value`` and ``2**value``.
    """

    hue: float = 0.5
    saturation: float = 2.0
    value: float = 1.0
    name: ClassVar[str] = "hsv_jitter"
    is_reversible: ClassVar[bool] = True

    @override
    def __post_init__(self) -> None:
        if not (0 <= self.hue <= 0.5 and self.saturation >= 0 and self.value >= 0):
            raise ArgumentError(
                "`hue` must lie in [0, 0.5], `saturation` and `value` must not be negative: got "
                f"{self.hue}, {self.saturation}, {self.value}. 0.5 is half of the color circle."
            )
        if not (self.hue or self.saturation or self.value):
            raise ArgumentError(
                "`hue`, `saturation` and `value` must not all be 0: nothing is left to vary. "
                "Leave the transform out instead."
            )
        super().__post_init__()

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"hsv": Interval(self._parameters, default_relative_widths=(0.25, 0.5))}

    @property
    def _parameters(self) -> tuple[Parameter, ...]:
        limits = (self.hue, self.saturation, self.value)
        makers = (_hue_parameter, _factor("saturation"), _factor("value"))
        return tuple(make(limit) for make, limit in zip(makers, limits, strict=True) if limit)

    @override
    def recolor(self, canvas: Canvas, theta: Rows) -> Canvas:
        x = _rgb(canvas, self.name)
        named = dict(zip((p.name for p in self._parameters), theta.unbind(-1), strict=True))
        one = torch.ones_like(theta[:, 0])
        hue: Scalars | None = named.get("hue")
        image = hsv_jitter(x, hue, named.get("saturation", one), named.get("value", one))
        return Canvas(image)


@register
@dataclass(frozen=True)
class Brightness(ColorTransform):
    """Multiply all channels by a factor.

    Arguments:
        max_change: Doublings: the factor lies between ``2**-max_change`` and ``2**max_change``.
    """

    max_change: float = 1.0
    name: ClassVar[str] = "brightness"
    is_reversible: ClassVar[bool] = True

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"factor": Interval((_factor("factor")(self.max_change),))}

    @override
    def recolor(self, canvas: Canvas, theta: Rows) -> Canvas:
        return canvas.scale(theta, torch.zeros_like(theta))


@register
@dataclass(frozen=True)
class Contrast(ColorTransform):
    """Multiply the distance of every color to the mean brightness of the image by a factor.

    Arguments:
        max_change: Doublings: the factor lies between ``2**-max_change`` and ``2**max_change``.
    """

    max_change: float = 1.0
    name: ClassVar[str] = "contrast"
    is_reversible: ClassVar[bool] = True

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"factor": Interval((_factor("factor")(self.max_change),))}

    @override
    def recolor(self, canvas: Canvas, theta: Rows) -> Canvas:
        return canvas.scale(theta, (1 - theta) * canvas.mean_luma())


@register
@dataclass(frozen=True)
class WhiteBalance(ColorTransform):
    """Multiply red, green and blue by a factor each, as the color of the light does.

    Arguments:
        max_change: Doublings: each factor lies between ``2**-max_change`` and ``2**max_change``.

    Example:
        >>> warm = WhiteBalance().apply(
        ...     torch.full((1, 3, 1, 1), 0.5), torch.tensor([[1.5, 1, 0.5]])
        ... )
        >>> warm.flatten()
        tensor([0.7500, 0.5000, 0.2500])
    """

    max_change: float = 1.0
    name: ClassVar[str] = "white_balance"
    is_reversible: ClassVar[bool] = True

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        gains = tuple(_factor(color)(self.max_change) for color in ("red", "green", "blue"))
        return {"gains": Interval(gains, default_relative_widths=(0.25, 0.5))}

    @override
    def recolor(self, canvas: Canvas, theta: Rows) -> Canvas:
        return Canvas(affine_intensity(_rgb(canvas, self.name), theta, torch.zeros_like(theta)))


def _rgb(canvas: Canvas, name: str) -> Images:
    """The image as it is by now; raise unless it has red, green and blue."""
    x = canvas.paint()
    if x.shape[1] != 3:
        raise ShapeError(
            f"`x` must be RGB for {name}: got {x.shape[1]} channels. "
            "Use Brightness or Contrast for other images."
        )
    return x


def _hue_parameter(limit: float) -> Parameter:
    return Parameter("hue", -limit, limit, period=1.0)


def _factor(name: str) -> Callable[[float], Parameter]:
    def make(limit: float) -> Parameter:
        return Parameter(name, 2**-limit, 2**limit, identity=1.0, multiplicative=True)

    return make
