"""Blur and noise over the whole image."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from instaaug.functional.filters import gaussian_blur, gaussian_noise_field
from instaaug.functional.warp import PaddingMode
from instaaug.shapes import Images, Scalars, Theta
from instaaug.spaces import Interval, Parameter, Space
from instaaug.transforms.transform import Transform, register

__all__ = ["SEED", "Blur", "Noise", "add_noise", "blur"]

SEED = Parameter("seed", 0.0, 1.0, learned=False)
"""Which noise it is: drawn, never learned, and worth no entropy, for the range has width 1."""


@register
@dataclass(frozen=True)
class Blur(Transform):
    """Gaussian blur; θ is its standard deviation, as a fraction of the shorter image side."""

    max_strength: float = 0.05
    name: ClassVar[str] = "blur"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"strength": Interval((Parameter("strength", 0.0, self.max_strength),))}

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        self.check_theta(x, theta)
        return blur(x, theta[:, 0], self.max_strength)


@register
@dataclass(frozen=True)
class Noise(Transform):
    """Additive Gaussian noise; θ is its standard deviation and a seed that says which noise."""

    max_strength: float = 0.2
    name: ClassVar[str] = "noise"

    @property
    @override
    def spaces(self) -> Mapping[str, Space]:
        return {"strength": Interval((Parameter("strength", 0.0, self.max_strength), SEED))}

    @override
    def apply(self, x: Images, theta: Theta, *, padding_mode: PaddingMode = "zeros") -> Images:
        self.check_theta(x, theta)
        return add_noise(x, theta[:, 0], theta[:, 1])


def blur(x: Images, strength: Scalars, max_strength: float) -> Images:
    """Blur by fractions of the shorter image side."""
    side = min(x.shape[-2:])
    return gaussian_blur(x, strength * side, max_sigma=max_strength * side)


def add_noise(x: Images, strength: Scalars, seed: Scalars) -> Images:
    """Add the noise that ``seed`` names."""
    return x + strength.to(x.dtype)[:, None, None, None] * gaussian_noise_field(seed, like=x)
