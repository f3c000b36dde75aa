"""Transforms τ: deterministic, batched, one row of θ per image."""

from instaaug.spaces import Boxes, Choices, Interval, Parameter, Space
from instaaug.transforms.color import (
    Brightness,
    ColorTransform,
    Contrast,
    HSVJitter,
    WhiteBalance,
)
from instaaug.transforms.compose import Composition
from instaaug.transforms.crop import PAPER_LEVELS, Crop, UniformCrop, Window
from instaaug.transforms.filters import Blur, Noise
from instaaug.transforms.geometric import (
    Affine,
    Flip,
    GeometricTransform,
    Perspective,
    Rotation,
    Scale,
    Shear,
    Translate,
)
from instaaug.transforms.local import LocalBlur, LocalColor, LocalMask, LocalNoise
from instaaug.transforms.transform import (
    TRANSFORMS,
    Transform,
    from_config,
    make_transforms,
    register,
)

__all__ = [
    "PAPER_LEVELS",
    "TRANSFORMS",
    "Affine",
    "Blur",
    "Boxes",
    "Brightness",
    "Choices",
    "ColorTransform",
    "Composition",
    "Contrast",
    "Crop",
    "Flip",
    "GeometricTransform",
    "HSVJitter",
    "Interval",
    "LocalBlur",
    "LocalColor",
    "LocalMask",
    "LocalNoise",
    "Noise",
    "Parameter",
    "Perspective",
    "Rotation",
    "Scale",
    "Shear",
    "Space",
    "Transform",
    "Translate",
    "UniformCrop",
    "WhiteBalance",
    "Window",
    "from_config",
    "make_transforms",
    "register",
]
